//go:build interop && linux

package suites

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// shared is the lab of all tests, because booting takes long.
var shared struct {
	once sync.Once
	lab  *lab.Lab
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.lab != nil {
		if code != 0 {
			fmt.Fprintln(os.Stderr, "the lab's logs are in", shared.lab.Dir())
		}
		shared.lab.Close(code != 0)
	}
	os.Exit(code)
}

// openLab returns the lab with two guests. If the machine lacks something for it, the test is skipped and names that;
// in CI the test fails.
func openLab(t *testing.T) *lab.Lab {
	t.Helper()
	shared.once.Do(func() {
		began := time.Now()
		shared.lab, shared.err = lab.Open(context.Background(), 2, lab.TestProcessor)
		if shared.err == nil {
			t.Logf("the lab with kernel %s is up after %v", shared.lab.Kernel.Version, time.Since(began).Round(time.Millisecond))
		}
	})
	if shared.err != nil {
		needs(t, shared.err)
	}
	return shared.lab
}

// ownLab returns a lab for one test, with guests of another kind.
func ownLab(t *testing.T, guests int, p lab.Processor) *lab.Lab {
	t.Helper()
	l, err := lab.Open(t.Context(), guests, p)
	if err != nil {
		needs(t, err)
	}
	t.Cleanup(func() {
		l.Close(t.Failed())
		builtPrograms.Clear() // they may be in this lab's folder
	})
	return l
}

// needs ends a test that cannot run because of err.
func needs(t *testing.T, err error) {
	t.Helper()
	if lab.IsLack(err) && os.Getenv("CI") != "true" {
		t.Skip("SKIPPED: ", err)
	}
	t.Fatal(err)
}

// within bounds what a test may take.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, fmt.Errorf("%s took longer than %v", t.Name(), d))
	t.Cleanup(cancel)
	return ctx
}

// builtPrograms holds the softrdma programs, each built once.
var builtPrograms sync.Map

// program builds a main package of the module.
func program(t *testing.T, l *lab.Lab, pkg string) string {
	t.Helper()
	type built struct {
		path string
		err  error
	}
	build := sync.OnceValue(func() built {
		if files, _ := filepath.Glob(filepath.Join("../..", pkg, "*.go")); len(files) == 0 {
			return built{err: &lab.LackError{What: pkg, Why: "the package is not there yet"}}
		}
		if pkg == "cmd/softrdma" {
			_ = makePreload() // who needs what it makes asks again
		}
		path, err := l.BuildGo(context.Background(), pkg)
		return built{path, err}
	})
	once, _ := builtPrograms.LoadOrStore(pkg, build)
	b := once.(func() built)()
	if b.err != nil {
		needs(t, b.err)
	}
	return b.path
}

func TestGuestsHaveActiveDevice(t *testing.T) {
	l := openLab(t)
	for _, g := range l.Guests {
		r, err := g.Run(within(t, 30*time.Second), "ibv_devinfo", "-v")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"PORT_ACTIVE", "active_mtu:\t\t4096",
			fmt.Sprintf("GID[%3d]:\t\t::ffff:%s, RoCE v2", peers.GIDIndex(false), g.IPv4),
			fmt.Sprintf("GID[%3d]:\t\t%s, RoCE v2", peers.GIDIndex(true), g.IPv6),
		} {
			if !strings.Contains(r.Stdout, want) {
				t.Errorf("guest %s: ibv_devinfo -v does not say %q, but:\n%s", g.Name, want, r.Stdout)
			}
		}
	}
}

func TestGuestProgramFailureHasStatusAndOutput(t *testing.T) {
	g := openLab(t).Guests[0]
	ctx := within(t, 30*time.Second)
	r, err := g.Run(ctx, "sh", "-c", "echo out; echo err >&2; exit 3")
	if err == nil || r.Status != 3 || r.Stdout != "out\n" || r.Stderr != "err\n" || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("got %+v, %v; want status 3, out and err", r, err)
	}
	if _, err := g.Run(ctx, "/no/such/program"); err == nil {
		t.Error("a program that does not exist started")
	}
	p, err := g.Start(ctx, "sh", "-c", "sleep 60 & wait")
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if r, err := p.Wait(ctx); err == nil || r.Status != 137 {
		t.Errorf("killed: got status %d, %v; want 137", r.Status, err)
	}
}
