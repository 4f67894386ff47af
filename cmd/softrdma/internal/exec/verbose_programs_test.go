//go:build interop && linux

package exec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

// With -v exec says where the devices of a program are, and each device that counts payload says once
// how much it has carried. An iWARP device counts none.
func TestProgramsAreToldWhereTheirDeviceIs(t *testing.T) {
	clitest.NeedPrograms(t, "ibv_devinfo", "true")
	for _, x := range []struct {
		flags          []string
		program        string
		inside, counts int
	}{
		{[]string{"--engine", "program"}, "ibv_devinfo", 1, 1},
		{[]string{"--engine", "auto"}, "ibv_devinfo", 1, 1},
		{[]string{"--engine", "auto"}, "true", 0, 0}, // which opens no device
		{[]string{"--engine", "daemon"}, "ibv_devinfo", 0, 1},
		{[]string{"--protocol", "iwarp"}, "ibv_devinfo", 1, 1},
		{[]string{"-d", clitest.LoopbackDevice(t)}, "ibv_devinfo", 2, 2},
		{[]string{"-d", clitest.LoopbackDevice(t), "--engine", "daemon"}, "ibv_devinfo", 0, 2},
		{[]string{"-d", "iwarp:" + clitest.LoopbackDevice(t)}, "ibv_devinfo", 2, 2},
	} {
		args := append([]string{"exec", "-v", "-d", clitest.LoopbackDevice(t)}, x.flags...)
		p := clitest.Start(t, append(args, "--", x.program)...)
		if code := p.ExitCode(); code != 0 {
			t.Errorf("%v %s: code %d", x.flags, x.program, code)
		}
		said := p.Stderr.String()
		if n := strings.Count(said, " is in the program\n"); n != x.inside {
			t.Errorf("%v %s: %d times in the program, expected %d:\n%s", x.flags, x.program, n, x.inside, said)
		}
		if n := strings.Count(said, "payload: "); n != x.counts {
			t.Errorf("%v %s: %d lines of payload, expected %d:\n%s", x.flags, x.program, n, x.counts, said)
		}
	}
}

// Devices have names in the order of their flags, of each protocol.
func TestProgramsFindEveryDeviceOfTheirOwn(t *testing.T) {
	clitest.NeedPrograms(t, "ibv_devinfo")
	args := []string{"exec", "-d", clitest.LoopbackDevice(t), "-d", "iwarp:" + clitest.LoopbackDevice(t), "-d", clitest.LoopbackDevice(t)}
	for _, engine := range []string{"auto", "program", "daemon"} {
		out := clitest.Run(t, append(args, "--engine", engine, "--", "ibv_devinfo")...)
		for _, want := range []string{"hca_id:\trxe0\n", "hca_id:\trxe1\n", "hca_id:\tsiw0\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("--engine %s: expected %q, found\n%s", engine, want, out)
			}
		}
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	args = []string{"exec", "-d", "iwarp:" + clitest.LoopbackDevice(t), "--psk-file", secret}
	for _, engine := range []string{"auto", "program", "daemon"} {
		if out := clitest.Run(t, append(args, "--engine", engine, "--", "ibv_devinfo")...); !strings.Contains(out, "hca_id:\tsiw0\n") {
			t.Errorf("--engine %s with TLS: no siw0 in\n%s", engine, out)
		}
	}
}

// An encrypted device of RoCE v2 stays with exec, which keeps its keys.
func TestProgramsUseAnEncryptedDeviceOfTheirServer(t *testing.T) {
	clitest.NeedPrograms(t, "ibv_devinfo")
	secret := clitest.SecretFile(t, "0123456789abcdef0123456789abcdef")
	args := []string{"exec", "-v", "-d", clitest.LoopbackDevice(t), "--psk-file", secret, "--engine"}
	for _, engine := range []string{"auto", "daemon"} {
		p := clitest.Start(t, append(args, engine, "--", "ibv_devinfo")...)
		if code := p.ExitCode(); code != 0 || !strings.Contains(p.Stdout.String(), "hca_id:\trxe0\n") || strings.Contains(p.Stderr.String(), " is in the program") {
			t.Errorf("--engine %s: code %d\n%s%s", engine, code, &p.Stdout, &p.Stderr)
		}
	}
	p := clitest.Start(t, append(args, "program", "--", "ibv_devinfo")...)
	if code := p.ExitCode(); code == 0 || strings.Contains(p.Stdout.String(), "rxe0") || !strings.Contains(p.Stderr.String(), "(see: softrdma explain UNSUPPORTED)") {
		t.Errorf("--engine program: code %d\n%s%s", code, &p.Stdout, &p.Stderr)
	}
}

// A static program loads no libraries: exec says that it finds no device.
func TestStaticProgramsFindNoDevice(t *testing.T) {
	clitest.NeedPrograms(t, "true")
	for program, want := range map[string]bool{clitest.Command(t): true, "true": false} { // the command is built without cgo
		p := clitest.Start(t, "exec", "-v", "-d", clitest.LoopbackDevice(t), "--", program, "--help")
		if code := p.ExitCode(); code != 0 {
			t.Errorf("%s: code %d: %s", program, code, &p.Stderr)
		}
		if said := p.Stderr.String(); strings.Contains(said, program+" itself finds no device: it is linked statically\n") != want {
			t.Errorf("%s: %s", program, said)
		}
	}
}
