//go:build interop && linux

package uverbs

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
	"softrdma/internal/testenv"
)

// Programs that share an address start and are killed at random moments. The others on the
// address continue with the right bytes, new ones find the device, and nothing is left.
func TestProgramsOnOneAddressSurviveKills(t *testing.T) {
	for _, x := range []struct {
		engine, protocol string
		kills            int
	}{
		{"program", "", 500}, {"daemon", "", 150}, {"program", "roce1:", 100}, {"program", "ib:", 100}, {"program", "ib:@", 50}, {"program", "iwarp:", 100}, {"program", "tls+iwarp:", 100},
	} {
		t.Run(x.engine+x.protocol, func(t *testing.T) {
			if x.protocol == "roce1:" {
				testenv.Root(t, "sends Ethernet frames")
			}
			if testing.Short() {
				x.kills /= 10
			}
			survivesKills(t, x.engine, x.protocol, x.kills)
		})
	}
}

func survivesKills(t *testing.T, engine, protocol string, kills int) {
	addr := "127.14.4.30"
	connect, device, modes := addr, protocol+addr, []string{"off", "require", "auto"}
	if strings.HasPrefix(protocol, "ib:") { // whose packets all go through the fabric
		modes = []string{"off", "auto"}
		f := fabrictest.Start
		if protocol == "ib:@" { // on another host
			f = func(t testing.TB, shape string) *fabrictest.Fabric {
				return fabrictest.StartRemote(t, shape, func(*live.Config) {})
			}
		}
		connect, device = "10.77.0.1", "ib:"+f(t, "star:2").Adapters[0]
	}
	names := setHostDir(t)
	p := newInProgram(t, device)
	p.env = engines(t)[engine]
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	var pairs []*bystanders
	paths := modes[:2]
	if strings.HasSuffix(protocol, "iwarp:") { // where programs need librdmacm, which bystanders have not
		paths, modes = nil, modes[:1]
	}
	for _, path := range paths {
		pairs = append(pairs, p.bystanders(t, p.compile(t, "bystander"), "SOFTRDMA_SAME_HOST="+path))
	}
	counts, descriptors, host := p.s.Count(), openDescriptors(t), entries(t, names)

	v := &victims{p: p, addr: addr, connect: connect, modes: modes, fork: p.compile(t, "fork")}
	var workers sync.WaitGroup
	for worker := range killers {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(worker), uint64(kills)))
			for v.killed.Load() < int64(kills) && !t.Failed() {
				v.round(t, r)
			}
		})
	}
	workers.Wait()
	eventually(t, "nothing is left", func() bool { return p.s.Count() == counts })
	eventually(t, "the descriptors are closed", func() bool { return openDescriptors(t) <= descriptors+socketsKept })
	eventually(t, "the names are gone", func() bool { return slices.Equal(entries(t, names), host) })
	if left := entries(t, temporary); len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
	t.Logf("%d programs were killed", v.killed.Load())
	for _, b := range pairs {
		t.Logf("%s: %d exchanges", b.path, b.end(t))
	}
}

// killers is how many goroutines start and kill programs, at most two at a time each.
const killers = 3

// socketsKept is how many sockets the server may keep for programs to come: one for each that had
// a share of the address at a time. The next victim may come before the server has noticed the end
// of the last one.
const socketsKept = 2 * 2 * killers

func entries(t *testing.T, dir string) (names []string) {
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// victims are the programs that are killed.
type victims struct {
	p          *inProgram
	addr, fork string
	connect    string   // the address for librdmacm
	modes      []string // of the memory path
	port       atomic.Int64
	killed     atomic.Int64
}

// round starts a program, or two that run against each other, and kills them.
func (v *victims) round(t *testing.T, r *rand.Rand) {
	port := fmt.Sprint(20000 + v.port.Add(1))
	endless := func(name string, args ...string) [][]string {
		server := slices.Concat([]string{name}, args, []string{"-p", port})
		return [][]string{server, append(slices.Clone(server), v.addr)}
	}
	const forever = "100000000"
	kinds := [][][]string{
		endless("ibv_rc_pingpong", "-g", "0", "-n", forever),
		endless("ibv_rc_pingpong", "-g", "0", "-e", "-n", forever),
		endless("ibv_ud_pingpong", "-g", "0", "-n", forever),
		endless("ibv_srq_pingpong", "-g", "0", "-n", forever),
		endless("ib_write_bw", "-F", "-D", "60"),
		{{"rping", "-s", "-a", v.connect, "-p", port}, {"rping", "-c", "-a", v.connect, "-p", port, "-C", forever}},
		{{"ibv_devinfo", "-v"}},
		{{v.fork, "children"}},
	}
	if v.p.s.devices[0].Adapter.IWARP() {
		kinds = [][][]string{
			{{"rping", "-s", "-a", v.connect, "-p", port}, {"rping", "-c", "-a", v.connect, "-p", port, "-C", forever}},
			{{"ib_write_bw", "-R", "-F", "-D", "60", "-p", port}, {"ib_write_bw", "-R", "-F", "-D", "60", "-p", port, v.connect}},
			{{"ibv_devinfo", "-v"}},
		}
	}
	mode := v.modes[r.IntN(len(v.modes))]
	var running []*exec.Cmd
	for _, args := range kinds[r.IntN(len(kinds))] {
		c := exec.Command(args[0], args[1:]...)
		c.Env = slices.Concat(os.Environ(), v.p.s.Environment(v.p.lib), v.p.env, []string{"SOFTRDMA_SAME_HOST=" + mode})
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			t.Error(err)
			break
		}
		running = append(running, c)
		time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
	}
	r.Shuffle(len(running), func(i, k int) { running[i], running[k] = running[k], running[i] })
	for _, c := range running {
		how := syscall.SIGKILL
		if r.IntN(4) == 0 {
			how = syscall.SIGTERM
		}
		_ = c.Process.Signal(how) // one whose peer was killed has ended, perhaps
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		_ = c.Process.Kill()
		_ = c.Wait()
		v.killed.Add(1)
	}
}

// bystanders are two programs of an address that exchange data with each other.
type bystanders struct {
	path string
	ends [2]*bystander
}

type bystander struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	err bytes.Buffer
}

func (p *inProgram) bystanders(t *testing.T, program, path string) *bystanders {
	t.Helper()
	b := &bystanders{path: path}
	var info [2]string
	for i := range b.ends {
		e := &bystander{cmd: exec.Command(program)}
		e.cmd.Env = slices.Concat(os.Environ(), p.s.Environment(p.lib), p.env, []string{path})
		e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		e.cmd.Stderr = &e.err
		in, err := e.cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := e.cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := e.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.cmd.Process.Kill(); _ = e.cmd.Wait() })
		e.in, e.out, b.ends[i] = in, bufio.NewScanner(out), e
		info[i] = e.line(t)
	}
	for i, e := range b.ends {
		e.tell(t, info[1-i])
		if l := e.line(t); l != "connected" {
			t.Fatalf("%q", l)
		}
	}
	for _, e := range b.ends {
		e.tell(t, "begin")
	}
	return b
}

// end ends both and returns how often they have exchanged data.
func (b *bystanders) end(t *testing.T) (exchanges int) {
	t.Helper()
	for _, e := range b.ends {
		e.tell(t, "end")
	}
	for _, e := range b.ends {
		var n int
		if l := e.line(t); l == "" {
			continue
		} else if k, _ := fmt.Sscanf(l, "exchanged %d", &n); k != 1 || n == 0 {
			t.Errorf("%s: %q", b.path, l)
		}
		exchanges += n
	}
	for _, e := range b.ends {
		_ = e.in.Close()
		if err := e.cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", b.path, err, &e.err)
		}
	}
	return exchanges
}

func (e *bystander) tell(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(e.in, line); err != nil {
		t.Error(err)
	}
}

func (e *bystander) line(t *testing.T) string {
	t.Helper()
	if !e.out.Scan() {
		t.Errorf("it has ended: %v\n%s", e.out.Err(), strings.TrimSpace(e.err.String()))
	}
	return e.out.Text()
}
