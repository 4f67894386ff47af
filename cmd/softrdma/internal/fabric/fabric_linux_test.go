package fabric

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/control"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/wire/mad/smp"
)

// up starts a fabric in a directory of its own, and waits until it is set up.
func up(t *testing.T, args ...string) *clitest.Process {
	t.Helper()
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	return another(t, args...)
}

// another starts one more fabric.
func another(t *testing.T, args ...string) *clitest.Process {
	t.Helper()
	p := clitest.Start(t, append([]string{"fabric", "up"}, args...)...)
	if slices.Contains(args, "--ethernet") {
		p.Prints("softrdma pingpong")
	} else {
		p.Prints("subnet manager")
	}
	return p
}

// until runs a command until it prints a text.
func until(t *testing.T, want string, args ...string) {
	t.Helper()
	for end := time.Now().Add(clitest.Timeout); ; time.Sleep(20 * time.Millisecond) {
		out := clitest.Run(t, args...)
		if strings.Contains(out, want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("softrdma %q does not print %q, but\n%s", args, want, out)
		}
	}
}

func expect(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("expected %q in\n%s", w, out)
		}
	}
}

func TestFabricIsBuiltShownAndDisturbed(t *testing.T) {
	p := up(t, "--topology", "fat-tree:k=4")
	expect(t, p.Stdout.String(), "20 switches, 16 adapters, 48 links", "set it up in", "48 active, routing ftree")
	expect(t, clitest.Run(t, "fabric", "status"), "fabric fab0: 20 switches, 16 adapters, 48 links (48 active)", "own is master", "36 assigned", "leaf-3-1")
	expect(t, clitest.Run(t, "fabric", "links", "node-0", "-i", "0"), "leaf-0-0:3  node-0", "4x EDR")
	expect(t, clitest.Run(t, "fabric", "routes", "leaf-0-0"), "by port 3 to node-0:1: node-0 (")
	expect(t, clitest.Run(t, "fabric", "trace", "node-0", "node-15"), "leaf-3-1", "arrives at port 1")
	expect(t, clitest.Run(t, "fabric", "counters", "node-0"), "node-0:1\n", "PortXmitPkts")
	expect(t, clitest.Run(t, "fabric", "deadlock"), "allow no deadlock.", "No lane stands still.")
	expect(t, clitest.Run(t, "fabric", "draw", "-i", "0"), "[core-0-0]", "[leaf-3-1]")

	expect(t, clitest.Run(t, "fabric", "link", "down", "node-15"), "node-15 - leaf-3-1:4: cut")
	lost := clitest.Start(t, "fabric", "trace", "node-0", "node-15")
	lost.Fails(cli.ExitFailed, "the packet is lost at ")
	expect(t, lost.Stdout.String(), "lost at ")
	clitest.Run(t, "fabric", "link", "up", "node-15")
	until(t, "(48 active)", "fabric", "status")
	expect(t, clitest.Run(t, "fabric", "trace", "node-0", "node-15"), "arrives at port 1")
	if n := strings.Count(clitest.Run(t, "fabric", "fail", "spine-2-0"), ": cut\n"); n != 4 {
		t.Errorf("%d cables cut, expected 4", n)
	}
	until(t, "(44 active, 4 cut)", "fabric", "status")
	clitest.Run(t, "fabric", "repair", "spine-2-0")
	until(t, "(48 active)", "fabric", "status")

	expect(t, clitest.Run(t, "fabric", "faults", "node-3", "--bit-errors", "1e-6"), "node-3 - leaf-0-1:4: bit errors 1e-06")
	expect(t, clitest.Run(t, "fabric", "faults"), "node-3: bit errors")
	expect(t, clitest.Run(t, "fabric", "faults", "node-3", "--none"), "no faults")
	expect(t, clitest.Run(t, "fabric", "faults"), "no cable has faults")

	p.Cmd.Process.Signal(syscall.SIGINT)
	p.Succeeds()
	clitest.Start(t, "fabric", "status").Fails(cli.ExitFailed, "no fabric runs")
}

func TestFabricsAreToldApartByName(t *testing.T) {
	up(t, "--name", "one", "--topology", "star:2")
	another(t, "--name", "two", "--topology", "ring:3", "--no-sm")
	expect(t, clitest.Run(t, "fabric", "status", "--name", "one"), "1 switch, 2 adapters")
	expect(t, clitest.Run(t, "fabric", "status", "--name", "two"), "3 switches, 3 adapters, 6 links (6 init)", "none has set up the ports; the fabric has none of its own")
	clitest.Start(t, "fabric", "status").Fails(cli.ExitUsage, "2 fabrics run", "one, two")
	clitest.Start(t, "fabric", "up", "--name", "one").Fails(cli.ExitFailed, "runs already")
	clitest.Start(t, "fabric", "status", "--name", "three").Fails(cli.ExitFailed, `no fabric "three" runs`)
}

func TestTablesThatAllowADeadlockAreNamed(t *testing.T) {
	up(t, "--topology", "ring:5", "--routing", "minhop", "--vls", "1")
	expect(t, clitest.Run(t, "fabric", "deadlock"), "The forwarding tables allow a deadlock.", "lane 0 waits for switch-")
	var d control.Deadlock
	if err := json.Unmarshal([]byte(clitest.Run(t, "fabric", "deadlock", "--json")), &d); err != nil || len(d.Cycle) != 5 || d.Still == nil {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestJSONOfEachCommand(t *testing.T) {
	up(t, "--topology", "star:2")
	for _, args := range [][]string{{"status"}, {"links", "-i", "0"}, {"routes", "switch-0"}, {"trace", "node-0", "node-1"}, {"counters"}, {"faults"}} {
		out := clitest.Run(t, append(append([]string{"fabric"}, args...), "--json")...)
		var v any
		if err := json.Unmarshal([]byte(out), &v); err != nil || v == nil {
			t.Errorf("%q: %v in %s", args, err, out)
		}
	}
}

func TestDrawWritesSVG(t *testing.T) {
	up(t, "--topology", "torus:3x3")
	file := filepath.Join(t.TempDir(), "torus.svg")
	expect(t, clitest.Run(t, "fabric", "draw", "-o", file, "-i", "10ms"), "wrote "+file)
	b, err := os.ReadFile(file)
	if err != nil || xml.Unmarshal(b, new(struct{})) != nil || !strings.Contains(string(b), ">switch-2-2<") {
		t.Errorf("%v, %s", err, b)
	}
}

func TestFabricUpRefusesWhatItCannotBuild(t *testing.T) {
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	file := filepath.Join(t.TempDir(), "bad.topo")
	if err := os.WriteFile(file, []byte("Switch 4 \"S1\"\n[1] \"H1\"[1]\n\nCa 1 \"H1\"\n[9] \"S1\"[1]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	clitest.Start(t, "fabric", "up", file).Fails(cli.ExitFailed, "bad.topo:5:1: expected a port from 1 to 1")
	clitest.Start(t, "fabric", "up", "--partitions", file).Fails(cli.ExitFailed, "bad.topo:1: ", "expected a semicolon at the end")
	clitest.Start(t, "fabric", "up", filepath.Join(t.TempDir(), "none")).Fails(cli.ExitFailed, "no such file")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{file, "--topology", "star:4"}, "not both"},
		{[]string{"--topology", "star:x"}, `found "x"`},
		{[]string{"--vls", "3"}, "expected 1, 2, 4, 8 or 15, found 3"},
		{[]string{"--lmc", "8"}, "expected 0 to 7, found 8"},
		{[]string{"--routing", "best"}, "minhop, updn, ftree, torus"},
		{[]string{"--name", "a/b"}, `found "a/b"`},
		{[]string{"--sm", "--no-sm"}, "expected one of them"},
		{[]string{"--hop", "0"}, "greater than 0"},
		{[]string{"--no-sm", "--partitions", file}, "the fabric's own subnet manager"},
	} {
		clitest.Start(t, append([]string{"fabric", "up"}, c.args...)...).Fails(cli.ExitUsage, c.want)
	}
}

func TestTopologyFileIsBuilt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "two.topo")
	text := "Switch 4 \"S1\"\t# \"leaf one\"\n[1] \"H1\"[1]\n[2] \"H2\"[1]\n\nCa 1 \"H1\" # \"alpha\"\n[1] \"S1\"[1]\n\nCa 1 \"H2\" # \"beta\"\n[1] \"S1\"[2]\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p := up(t, file, "--vls", "2")
	expect(t, p.Stdout.String(), "from "+file+": 1 switch, 2 adapters, 2 links", "routing updn")
	expect(t, clitest.Run(t, "fabric", "routes", "leaf one"), "by port 2 to beta:1: beta (")
}

func TestPartitionsOfAFileAreInTheTablesOfPorts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "partitions.conf")
	text := "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\nstorage=0x80 : node-0=full, node-1 ;\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	up(t, "--topology", "star:3", "--partitions", file)
	for i, want := range [][]uint16{{0x7fff, 0x8080}, {0x7fff, 0x80}, {0x7fff, 0}} {
		p, err := attach.Open(t.Context(), fmt.Sprint("fab0/node-", i))
		if err != nil {
			t.Fatal(err)
		}
		fabrictest.WaitFor(t, "an active port", func() bool { return p.Info().PortInfo.State == smp.PortActive })
		if got := p.Info().PKeys[:2]; !slices.Equal(got, want) {
			t.Errorf("node-%d: P_Keys %#x, expected %#x", i, got, want)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRingDeadlocksWithOneLaneAndNotWithTwo(t *testing.T) {
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"one", []string{"--routing", "minhop", "--vls", "1"}, []string{"allow a deadlock.", "DEADLOCK: 5 lanes wait for each other now", "stand still:", "lanes in the deadlock"}},
		{"two", []string{"--routing", "torus", "--vls", "2"}, []string{"allow no deadlock.", "No lane stands still."}},
	} {
		another(t, append([]string{"--name", c.name, "--topology", "ring:5"}, c.args...)...)
		clitest.Run(t, "fabric", "load", "--name", c.name, "--shift", "2", "--packets", "2000")
		deadlocked := c.name == "one"
		if deadlocked {
			until(t, "DEADLOCK", "fabric", "deadlock", "--name", c.name)
		} else {
			until(t, "node-4  node-1      1   2048     2000  2000     2000", "fabric", "load", "--name", c.name)
		}
		expect(t, clitest.Run(t, "fabric", "deadlock", "--name", c.name), c.want...)
		if out := clitest.Run(t, "fabric", "draw", "-o", "-", "-i", "0", "--name", c.name); strings.Contains(out, `stroke="#c0262c" stroke-width="6.0"`) != deadlocked {
			t.Errorf("%s: lanes of a deadlock are marked in the drawing: %v", c.name, !deadlocked)
		}
	}
}

func TestStalledReceiverLosesNothing(t *testing.T) {
	up(t, "--topology", "star:2")
	expect(t, clitest.Run(t, "fabric", "stall", "node-1", "--sl", "0"), "node-1 takes no packets of service level 0")
	clitest.Run(t, "fabric", "load", "node-0", "node-1", "--sl", "0")
	clitest.Run(t, "fabric", "load", "node-0", "node-1", "--sl", "1")
	until(t, "a program that takes no packets", "fabric", "deadlock")
	until(t, "node-1      1   2048     1000  1000     1000", "fabric", "load")
	expect(t, clitest.Run(t, "fabric", "stall", "node-1", "--none"), "all adapters take packets")
	until(t, "node-1      0   2048     1000  1000     1000", "fabric", "load")
	expect(t, clitest.Run(t, "fabric", "load", "--stop"), "no load")
}

// "fabric down" ends the fabric of a name, and the name is free when it returns.
func TestFabricDownEndsAFabric(t *testing.T) {
	first := up(t, "--topology", "star:2")
	second := another(t, "--topology", "star:2", "--name", "other")
	clitest.Start(t, "fabric", "down").Fails(cli.ExitUsage, "2 fabrics run: expected --name with one of fab0, other")
	clitest.Start(t, "fabric", "down", "--name", "none").Fails(cli.ExitFailed, `no fabric "none" runs`)
	expect(t, clitest.Run(t, "fabric", "down", "--name", "other"), "fabric other has ended")
	another(t, "--topology", "star:2", "--name", "other")
	clitest.Run(t, "fabric", "down", "--name", "other")
	expect(t, clitest.Run(t, "fabric", "down"), "fabric fab0 has ended")
	for _, p := range []*clitest.Process{first, second} {
		if code := p.ExitCode(); code != cli.ExitOK {
			t.Errorf("exit code %d: %s", code, &p.Stderr)
		}
	}
	clitest.Start(t, "fabric", "down").Fails(cli.ExitFailed, "no fabric runs")
}
