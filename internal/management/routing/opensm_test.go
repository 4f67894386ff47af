package routing

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"softrdma/internal/topology"
)

// An ibsim is a running simulator of management packets.
type ibsim struct {
	t    *testing.T
	env  []string
	host string // the node that programs run on
}

// startIbsim starts ibsim on a fabric, whose file Append wrote.
func startIbsim(t *testing.T, f *topology.Fabric, host string) *ibsim {
	for _, program := range []string{"ibsim", "ibsim-run", "ibnetdiscover", "opensm", "dump_lfts"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed (Debian packages ibsim-utils, opensm, infiniband-diags)", program)
		}
	}
	file := filepath.Join(t.TempDir(), "net")
	if err := os.WriteFile(file, f.Append(nil), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &ibsim{t: t, host: host, env: append(os.Environ(), fmt.Sprintf("IBSIM_SOCKNAME=softrdma-%d-%d", os.Getpid(), time.Now().UnixNano()), "SIM_HOST="+host)}
	cmd := exec.Command("ibsim", "-s", file)
	cmd.Env = s.env
	stdin, err := cmd.StdinPipe() // ibsim ends with its input
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "ready") {
			go func() {
				for lines.Scan() {
				}
			}()
			return s
		}
	}
	cmd.Wait()
	t.Fatalf("ibsim refused the file: %s", stderr.String())
	return nil
}

// run returns the output of a program on the simulated fabric.
func (s *ibsim) run(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("ibsim-run", args...)
	cmd.Env = s.env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%v: %v\n%s%s", args, err, out, stderr.String())
	}
	return string(out)
}

// discover returns the fabric as ibnetdiscover prints it.
func (s *ibsim) discover() *topology.Fabric {
	s.t.Helper()
	f, _, err := topology.Parse("ibnetdiscover", s.run("ibnetdiscover"))
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

var (
	lftSwitch = regexp.MustCompile(`^Unicast lids .* guid (0x[0-9a-f]+)`)
	lftEntry  = regexp.MustCompile(`^(0x[0-9a-f]+) (\d+) :`)
)

// tables returns what the switches hold.
func (s *ibsim) tables(f *topology.Fabric) *Tables {
	s.t.Helper()
	t := &Tables{Fabric: f, LFT: make([][]uint8, len(f.Nodes)), Lanes: 1}
	top := newGraph(f).top
	var lft []uint8
	for line := range strings.Lines(s.run("dump_lfts")) {
		if m := lftSwitch.FindStringSubmatch(line); m != nil {
			node, err := f.Find(m[1])
			if err != nil {
				s.t.Fatal(err)
			}
			lft = make([]uint8, int(top)+1)
			for i := range lft {
				lft[i] = NoPort
			}
			t.LFT[node] = lft
		}
		if m := lftEntry.FindStringSubmatch(line); m != nil {
			lid, _ := strconv.ParseUint(m[1], 0, 16)
			port, _ := strconv.Atoi(m[2])
			lft[lid] = uint8(port)
		}
	}
	return t
}

// TestIbsimReadsWhatAppendWrites compares what ibnetdiscover finds on ibsim with
// the fabric that was written: nodes, GUIDs and links.
func TestIbsimReadsWhatAppendWrites(t *testing.T) {
	for _, text := range []string{"star:3", "torus:3x3,speed=QDR", "dragonfly:routers=3,global=1,hosts=2,speed=FDR", "fat-tree:k=4,speed=EDR"} {
		t.Run(text, func(t *testing.T) {
			f := generate(t, text, 0)
			found := startIbsim(t, f, f.Nodes[len(f.Nodes)-1].ID).discover()
			if len(found.Nodes) != len(f.Nodes) {
				t.Fatalf("%d nodes, expected %d", len(found.Nodes), len(f.Nodes))
			}
			for i := range f.Nodes {
				want := &f.Nodes[i]
				j, err := found.Find(fmt.Sprintf("0x%016x", want.GUID))
				if err != nil {
					t.Fatal(err)
				}
				got := &found.Nodes[j]
				if got.ID != want.ID || got.Description != want.Description || got.Kind != want.Kind || got.NumPorts() != want.NumPorts() {
					t.Fatalf("%+v, expected %+v", got, want)
				}
				for p := 1; p <= want.NumPorts(); p++ {
					g, w := got.Ports[p], want.Ports[p]
					if g.GUID != w.GUID || g.Connected() != w.Connected() {
						t.Fatalf("%s port %d: %+v, expected %+v", want.Description, p, g, w)
					}
					if w.Connected() && (found.EndName(g.Peer) != f.EndName(w.Peer) || g.Speed != w.Speed || g.Width != w.Width) {
						t.Fatalf("%s port %d: %s %v%v, expected %s %v%v", want.Description, p, found.EndName(g.Peer), g.Width, g.Speed, f.EndName(w.Peer), w.Width, w.Speed)
					}
				}
			}
		})
	}
}

// TestParseReadsExamplesOfIbsim parses the examples that ibsim's package installs.
func TestParseReadsExamplesOfIbsim(t *testing.T) {
	files, _ := filepath.Glob("/usr/share/doc/ibsim-utils/net-examples/net*")
	if len(files) == 0 {
		t.Skip("Debian's package ibsim-utils is not installed")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := topology.Parse(file, string(text)); err != nil {
			t.Error(err)
		}
	}
}

// TestPathsAreAsLongAsOpensms lets opensm route a fabric on ibsim, and compares
// the length of every path between adapters with ours.
func TestPathsAreAsLongAsOpensms(t *testing.T) {
	for _, c := range []struct {
		text string
		a    Algorithm
	}{
		{"fat-tree:k=4", MinHop}, {"fat-tree:k=4", UpDown}, {"fat-tree:k=4", FatTree},
		{"fat-tree:k=6,levels=2", FatTree}, {"torus:4x4", MinHop}, {"dragonfly:routers=3,global=1,hosts=2", MinHop}, {"hyperx:3x3", MinHop},
	} {
		t.Run(c.text+" "+c.a.String(), func(t *testing.T) {
			f := generate(t, c.text, 0)
			s := startIbsim(t, f, f.Nodes[len(f.Nodes)-1].ID)
			log := filepath.Join(t.TempDir(), "log")
			roots := filepath.Join(t.TempDir(), "roots")
			args := []string{"opensm", "-o", "-R", c.a.String(), "-f", log}
			var top []int
			if c.a == UpDown { // opensm chooses roots by a histogram, which finds none in small fabrics
				var guids strings.Builder
				for i := range f.Nodes {
					if strings.HasPrefix(f.Nodes[i].Description, "core-") {
						top = append(top, i)
						fmt.Fprintf(&guids, "0x%016x\n", f.Nodes[i].GUID)
					}
				}
				if err := os.WriteFile(roots, []byte(guids.String()), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, "-a", roots)
			}
			s.run(args...)
			found := s.discover()
			theirs := s.tables(found)
			for i := range top {
				top[i], _ = found.Find(fmt.Sprintf("0x%016x", f.Nodes[top[i]].GUID))
			}
			ours, err := Route(found, c.a, top...)
			if err != nil {
				t.Fatal(err)
			}
			compareLengths(t, ours, theirs)
			ourCycle, theirCycle := ours.Cycle(), theirs.Cycle()
			if c.a != MinHop && (ourCycle != nil || theirCycle != nil) {
				t.Errorf("cycles: ours %q, opensm's %q", CycleString(found, ourCycle), CycleString(found, theirCycle))
			}
		})
	}
}

func compareLengths(t *testing.T, ours, theirs *Tables) {
	f := ours.Fabric
	pairs := 0
	for i := range f.Nodes {
		for j := range f.Nodes {
			if f.Nodes[i].Kind == topology.Switch || f.Nodes[j].Kind == topology.Switch || i == j {
				continue
			}
			from, lid := topology.End{Node: i, Port: 1}, f.Nodes[j].Ports[1].LID
			a, err := ours.Path(from, lid)
			if err != nil {
				t.Fatal(err)
			}
			b, err := theirs.Path(from, lid)
			if err != nil {
				t.Fatalf("opensm's tables: %v", err)
			}
			if len(a) != len(b) {
				t.Errorf("from %s to %s: %d links, opensm's tables have %d", f.Nodes[i].Description, f.Nodes[j].Description, len(a), len(b))
			}
			pairs++
		}
	}
	if pairs == 0 {
		t.Fatal("no pairs of adapters")
	}
}
