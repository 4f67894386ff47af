package fabric

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/fabric/fabrictest"
)

func TestProgramsOfAnotherHostAttach(t *testing.T) { programsOfAnotherHostAttach(t, "ib:") }

func TestProgramsOfAnotherHostAttachToAnEthernet(t *testing.T) {
	programsOfAnotherHostAttach(t, "eth:", "--ethernet")
}

func programsOfAnotherHostAttach(t *testing.T, prefix string, flags ...string) {
	at, secret := fabrictest.FreeUDP(t, 1)[0], clitest.SecretFile(t, "a secret of both hosts")
	f := up(t, append(flags, "--topology", "star:2", "--attach", at, "--attach-secret", secret)...)
	own, other := os.Getenv("SOFTRDMA_FABRIC_DIR"), t.TempDir()
	// away runs what a host does that does not find the fabric's socket.
	away := func(do func()) {
		t.Helper()
		t.Setenv("SOFTRDMA_FABRIC_DIR", other)
		do()
		t.Setenv("SOFTRDMA_FABRIC_DIR", own)
	}
	node := prefix + "fab0@" + at + "/node-"
	away(func() {
		clitest.Start(t, "pingpong", "-d", node+"0").Fails(cli.ExitFailed, "it has another secret")
	})
	t.Setenv("SOFTRDMA_FABRIC_SECRET", secret)
	exchange := func() {
		t.Helper()
		away(func() {
			port := clitest.FreePort(t)
			server := clitest.Start(t, "pingpong", "-p", port, "-n", "200", "-c", "-d", node+"0")
			server.Prints("local address:")
			clitest.Run(t, "pingpong", "-p", port, "-n", "200", "-c", "-d", node+"1", "127.0.0.1")
			server.Succeeds()
		})
	}
	exchange()
	f.Prints("is attached")
	f.Prints("has left")
	until(t, "(2 active)", "fabric", "status")

	var lost *clitest.Process
	away(func() {
		lost = clitest.Start(t, "pingpong", "-p", clitest.FreePort(t), "-d", node+"0")
		lost.Prints("local address:")
	})
	until(t, "127.0.0.1:", "devices")
	if err := lost.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.Prints("FABRIC_REMOTE_SILENT")
	until(t, "(1 active, 1 cut)", "fabric", "status")
	exchange() // the next program brings the port up
	until(t, "(2 active)", "fabric", "status")
}

// A copy of the secret without its last newline is the same secret, and a file that others
// can read brings a warning.
func TestSecretIsTheSameWithoutItsNewline(t *testing.T) {
	at, secret := fabrictest.FreeUDP(t, 1)[0], filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a secret of both hosts"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := up(t, "--topology", "star:2", "--attach", at, "--attach-secret", secret)
	if out := f.Stderr.String(); !strings.Contains(out, "--attach-secret: other users can access") {
		t.Errorf("expected a warning about the file's mode, found %q", out)
	}
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	t.Setenv("SOFTRDMA_FABRIC_SECRET", clitest.SecretFile(t, "a secret of both hosts"))
	p := clitest.Start(t, "pingpong", "-p", clitest.FreePort(t), "-d", "ib:fab0@"+at+"/node-0")
	p.Prints("local address:")
}

func TestHostsAreAdmittedWithASecretOnly(t *testing.T) {
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"--attach", ":7701"}, "expected --attach-secret"},
		{[]string{"--attach", "192.0.2.1:7701"}, "expected --attach-secret"},
		{[]string{"--attach", "127.0.0.1"}, "expected an address and a UDP port"},
		{[]string{"--attach-secret", "/dev/null"}, "expected --attach with it"},
		{[]string{"--trunk-secret", "/dev/null"}, "expected --trunk with it"},
		{[]string{"--attach", "127.0.0.1:7701", "--attach-secret="}, "--attach-secret: expected the name of a file"},
		{[]string{"--topology", "star:2,spare=1", "--trunk", "switch-0:3=127.0.0.1:7700", "--trunk-secret="}, "--trunk-secret: expected the name of a file"},
	} {
		clitest.Start(t, append([]string{"fabric", "up"}, x.args...)...).Fails(cli.ExitUsage, x.want)
	}
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	clitest.Start(t, "fabric", "up", "--attach", "127.0.0.1:7701", "--attach-secret", "/dev/null").Fails(cli.ExitFailed, "--attach-secret: expected a secret of 16 to 256 bytes", "found 0")
	short := clitest.SecretFile(t, "fifteen letters")
	clitest.Start(t, "fabric", "up", "--attach", "127.0.0.1:7701", "--attach-secret", short).Fails(cli.ExitFailed, "--attach-secret: expected a secret of 16 to 256 bytes", "found 15")
	clitest.Start(t, "fabric", "up", "--topology", "star:2,spare=1", "--trunk", "switch-0:3=127.0.0.1:7700", "--trunk-secret", short).Fails(cli.ExitFailed, "--trunk-secret: expected a secret of 16 to 256 bytes", "found 15")
	long := clitest.SecretFile(t, strings.Repeat("x", 257))
	clitest.Start(t, "fabric", "up", "--attach", "127.0.0.1:7701", "--attach-secret", long).Fails(cli.ExitFailed, "--attach-secret: expected a secret of 16 to 256 bytes", "found 257")
	t.Setenv("SOFTRDMA_FABRIC_SECRET", short)
	clitest.Start(t, "pingpong", "-d", "ib:fab0@127.0.0.1/node-0").Fails(cli.ExitFailed, "SOFTRDMA_FABRIC_SECRET: expected a secret of 16 to 256 bytes", "found 15")
}
