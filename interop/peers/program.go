//go:build interop && linux

package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/interop/lab"
)

// A Program is a running program, in a guest or on the host.
type Program struct {
	Name      string
	Said      func() string // standard output and standard error so far
	Kill      func()        // -9
	Interrupt func()        // as Ctrl-C does
	Done      chan struct{} // closed when it has ended

	// Set before Done is closed.
	Stdout string
	Err    error // not nil if the exit status is not 0; it quotes the output
}

// StartGuest starts a program in a guest. The program ends with the test.
func StartGuest(ctx context.Context, t *testing.T, g *lab.Guest, argv ...string) *Program {
	t.Helper()
	e, err := startGuest(ctx, g, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func startGuest(ctx context.Context, g *lab.Guest, argv ...string) (*Program, error) {
	p, err := g.Start(ctx, argv...)
	if err != nil {
		return nil, err
	}
	e := &Program{Name: p.Name(), Said: p.Said, Done: make(chan struct{})}
	e.Kill, e.Interrupt = func() { p.Kill() }, func() { p.Signal(syscall.SIGINT) }
	go func() {
		var out lab.Output
		out, e.Err = p.Wait(ctx)
		e.Stdout = out.Stdout
		close(e.Done)
	}()
	return e, nil
}

// StartHost starts a program on the host. The program ends with the test.
func StartHost(ctx context.Context, t *testing.T, l *lab.Lab, argv ...string) *Program {
	t.Helper()
	e, err := startHost(ctx, l, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func startHost(ctx context.Context, l *lab.Lab, argv ...string) (*Program, error) {
	return startCommand(ctx, l.Host(ctx, argv...), "host: "+strings.Join(argv, " "))
}

func startCommand(ctx context.Context, cmd *exec.Cmd, name string) (*Program, error) {
	var stdout bytes.Buffer
	var said lab.LockedBuffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&stdout, &said), &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	e := &Program{Name: name, Said: said.String, Done: make(chan struct{})}
	e.Kill, e.Interrupt = func() { cmd.Process.Kill() }, func() { cmd.Process.Signal(os.Interrupt) }
	go func() {
		if err := cmd.Wait(); err != nil {
			e.Err = fmt.Errorf("%s: %w; output:\n%s", e.Name, errors.Join(err, context.Cause(ctx)), lab.Tail(said.String(), 1500))
		}
		e.Stdout = stdout.String()
		close(e.Done)
	}()
	return e, nil
}

// Output waits for the program's end and returns its standard output. If ctx ends first,
// it kills the program.
func (e *Program) Output(ctx context.Context) (string, error) {
	select {
	case <-e.Done:
		return e.Stdout, e.Err
	case <-ctx.Done():
		e.Kill()
		<-e.Done
		return e.Stdout, errors.Join(context.Cause(ctx), e.Err)
	}
}

// serving are the words that softrdma's programs print when they listen.
var serving = []string{"listening", "waiting for a client"}

// AwaitServing waits until a program on the host has printed that it listens.
func (e *Program) AwaitServing(ctx context.Context) error {
	return e.AwaitOutput(ctx, serving...)
}

// AwaitOutput waits until the program has printed any of some words.
func (e *Program) AwaitOutput(ctx context.Context, words ...string) error {
	for {
		for _, w := range words {
			if strings.Contains(e.Said(), w) {
				return nil
			}
		}
		select {
		case <-e.Done:
			return fmt.Errorf("%s: it ended, and did not say any of %q: %v\n%s", e.Name, words, e.Err, lab.Tail(e.Said(), 1500))
		case <-ctx.Done():
			return fmt.Errorf("%s: it does not say any of %q: %w\n%s", e.Name, words, context.Cause(ctx), lab.Tail(e.Said(), 1500))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Wait waits for the program's end, which must come within a time.
func (e *Program) Wait(t *testing.T, limit time.Duration) error {
	t.Helper()
	select {
	case <-e.Done:
	case <-time.After(limit):
		t.Fatalf("%s: it did not end within %v; output:\n%s", e.Name, limit, lab.Tail(e.Said(), 1500))
	}
	return e.Err
}

// Succeeds waits for the program's end with status 0.
func (e *Program) Succeeds(t *testing.T, limit time.Duration) {
	t.Helper()
	if err := e.Wait(t, limit); err != nil {
		t.Error(err)
	}
}

// Fails waits for the program's end with a status other than 0. The program must have printed all of the words.
func (e *Program) Fails(t *testing.T, limit time.Duration, words ...string) {
	t.Helper()
	if err := e.Wait(t, limit); err == nil {
		t.Errorf("%s: it succeeded; output:\n%s", e.Name, lab.Tail(e.Said(), 1500))
	}
	for _, w := range words {
		if !strings.Contains(e.Said(), w) {
			t.Errorf("%s: it does not say %q, but:\n%s", e.Name, w, lab.Tail(e.Said(), 1500))
		}
	}
}

func LastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// The objects of Linux's devices that no program uses: rxe has the kernel's queue pair 1, siw nothing.
const (
	IdleRxe = "rxe0: pd 1 cq 1 qp 1 cm_id 0 mr 0"
	IdleSiw = "siw0: pd 0 cq 0 qp 0 cm_id 0 mr 0"
)

// AwaitIdle waits until no program has objects on a guest's rxe device.
func AwaitIdle(ctx context.Context, t *testing.T, g *lab.Guest, limit time.Duration) {
	t.Helper()
	AwaitDevice(ctx, t, g, IdleRxe, limit)
}

// AwaitDevice waits until a guest's device has the given objects.
func AwaitDevice(ctx context.Context, t *testing.T, g *lab.Guest, idle string, limit time.Duration) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		r, err := g.Run(ctx, "rdma", "resource", "show")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(r.Stdout, idle) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("guest %s: %v after the end its device still holds %s, expected %s", g.Name, limit, strings.TrimSpace(r.Stdout), idle)
		}
	}
}
