//go:build interop && linux

package fabrics

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"softrdma/interop/lab"
)

// limit bounds what a test waits for. It is generous, because the machine may be busy.
const limit = time.Minute

// command builds softrdma with the libraries of exec in it, once.
var command = sync.OnceValues(func() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	if err := lab.InstallPackages(ctx); err != nil {
		return "", err
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		return "", &lab.LackError{What: "gcc", Why: err.Error()}
	}
	if out, err := lab.RunCommand(ctx, "../..", "make", "preload"); err != nil {
		return "", errors.Join(err, errors.New(out))
	}
	path := filepath.Join(dir, "softrdma")
	out, err := lab.RunCommand(ctx, "../..", "go", "build", "-o", path, "./cmd/softrdma")
	if err != nil {
		return "", errors.Join(err, errors.New(out))
	}
	return path, nil
})

// dir has the files of all tests.
var dir string

func TestMain(m *testing.M) {
	var err error
	if dir, err = os.MkdirTemp("", "softrdma-fabrics-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// inCI reports whether nothing may be skipped.
func inCI() bool { return os.Getenv("CI") == "true" }

// A rig is a fabric that "softrdma fabric up" runs.
type rig struct {
	t        *testing.T
	softrdma string
	env      []string
	host     []string // command that runs another one on the rig's host; none for this host
	device   string   // prefix of the names of ports
	up       *process // the fabric
}

// newRig starts a fabric with arguments of "softrdma fabric up".
func newRig(t *testing.T, args ...string) *rig {
	t.Helper()
	return newRigAt(t, nil, args...)
}

// newRigAt is newRig on a host, see rig.host.
func newRigAt(t *testing.T, host []string, args ...string) *rig {
	t.Helper()
	path, err := command()
	if lab.IsLack(err) && !inCI() {
		t.Skip("SKIPPED: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	own := t.TempDir()
	if err := os.Chmod(own, 0o700); err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, softrdma: path, host: host, device: "ib:lab/"}
	r.env = append(os.Environ(), "SOFTRDMA_FABRIC_DIR="+own, "XDG_RUNTIME_DIR="+own, "OSM_CACHE_DIR="+own, "OSM_TMP_DIR="+own)
	r.up = r.start(append([]string{path, "fabric", "up", "--name", "lab"}, args...)...)
	r.up.await("softrdma fabric status")
	return r
}

// within returns the rig for a part of a test, at whose end its processes end.
func (r *rig) within(t *testing.T) *rig {
	x := *r
	x.t = t
	return &x
}

// A process runs until the test ends.
type process struct {
	r    *rig
	name string
	cmd  *exec.Cmd
	said lab.LockedBuffer
	done chan struct{}
	err  error
}

func (r *rig) start(argv ...string) *process {
	r.t.Helper()
	name := strings.Join(argv[1:], " ")
	argv = append(slices.Clone(r.host), argv...)
	p := &process{r: r, name: name, cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = r.env, &p.said, &p.said
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	r.t.Cleanup(func() {
		p.signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(10 * time.Second):
			p.signal(syscall.SIGKILL)
			<-p.done
		}
	})
	return p
}

// signal sends a signal to the process and its children.
func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// ended reports whether the process has ended.
func ended(p *process) bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// await waits until the process has printed words.
func (p *process) await(words string) {
	p.r.t.Helper()
	p.r.eventually(p.name+" to print "+words, func() bool {
		select {
		case <-p.done:
			if !strings.Contains(p.said.String(), words) {
				p.r.t.Fatalf("%s: ended (%v) before it printed %q:\n%s", p.name, p.err, words, lab.Tail(p.said.String(), 3000))
			}
		default:
		}
		return strings.Contains(p.said.String(), words)
	})
}

// succeeds waits for the end of the process with status 0, and returns what it has printed.
func (p *process) succeeds() string {
	p.r.t.Helper()
	said := p.ends()
	if p.err != nil {
		p.r.t.Fatalf("%s: %v:\n%s", p.name, p.err, lab.Tail(said, 3000))
	}
	return said
}

// ends waits for the end of the process, and returns what it has printed.
func (p *process) ends() string {
	p.r.t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		p.r.t.Fatalf("%s: did not end within %v:\n%s", p.name, limit, lab.Tail(p.said.String(), 3000))
	}
	return p.said.String()
}

// at starts a program under exec at a node.
func (r *rig) at(node string, argv ...string) *process {
	r.t.Helper()
	return r.start(append([]string{r.softrdma, "exec", "-d", r.device + node, "--"}, argv...)...)
}

// run runs a program at a node, and returns what it has printed.
func (r *rig) run(node string, argv ...string) string {
	r.t.Helper()
	return r.at(node, argv...).succeeds()
}

// fabric runs a command of "softrdma fabric".
func (r *rig) fabric(args ...string) string {
	r.t.Helper()
	return r.start(append([]string{r.softrdma, "fabric"}, args...)...).succeeds()
}

// trace returns the path of a packet from one node to another, which may be lost on its way.
func (r *rig) trace(from, to string) string {
	r.t.Helper()
	return r.start(r.softrdma, "fabric", "trace", from, to).ends()
}

// eventually waits until a condition is true.
func (r *rig) eventually(what string, condition func() bool) {
	r.t.Helper()
	for end := time.Now().Add(limit); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("waited %v in vain for %s", limit, what)
		}
	}
}

// opensm runs opensm at a node until it has set up the fabric.
func (r *rig) opensm(node string, args ...string) *process {
	r.t.Helper()
	p := r.at(node, append([]string{"opensm", "-f", "stdout"}, args...)...)
	p.await("SUBNET UP")
	return p
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
