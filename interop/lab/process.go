//go:build interop && linux

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"softrdma/interop/lab/internal/control"
)

// Process is a program that runs in a guest.
type Process struct {
	Argv []string

	guest *Guest
	id    uint64

	mu      sync.Mutex
	stdout  bytes.Buffer
	stderr  bytes.Buffer
	changed chan struct{} // closed and replaced at every write
	status  int
	err     error // why there is no status

	started chan struct{} // closed by the first event
	done    chan struct{} // closed by the last event
}

// Output is the output of a program and how it ended.
type Output struct {
	Stdout string
	Stderr string
	Status int
}

// Run runs a program in the guest and waits for its end. The error is not nil when its exit status is not 0, and
// quotes its output. When ctx ends first, the program is killed.
func (g *Guest) Run(ctx context.Context, argv ...string) (Output, error) {
	p, err := g.Start(ctx, argv...)
	if err != nil {
		return Output{Status: -1}, err
	}
	return p.Wait(ctx)
}

// WriteFile writes a file into the guest's own memory. It creates the folder.
func (g *Guest) WriteFile(ctx context.Context, path string, content []byte) error {
	p, err := g.start(ctx, content, "sh", "-c", `mkdir -p "$(dirname "$0")" && cat >"$0"`, path)
	if err != nil {
		return err
	}
	_, err = p.Wait(ctx)
	return err
}

// Start starts a program in the guest and returns when it runs.
func (g *Guest) Start(ctx context.Context, argv ...string) (*Process, error) {
	return g.start(ctx, nil, argv...)
}

func (g *Guest) start(ctx context.Context, stdin []byte, argv ...string) (*Process, error) {
	p := &Process{
		Argv: argv, guest: g, changed: make(chan struct{}), started: make(chan struct{}), done: make(chan struct{}),
	}
	g.mu.Lock()
	if g.gone != nil {
		defer g.mu.Unlock()
		return nil, g.failure(fmt.Errorf("%s: %w", p.Name(), g.gone))
	}
	g.lastID++
	p.id = g.lastID
	g.processes[p.id] = p
	g.mu.Unlock()

	if err := g.request(control.Request{ID: p.id, Op: control.OpStart, Argv: argv, Stdin: stdin}); err != nil {
		return nil, g.failure(fmt.Errorf("%s: %w", p.Name(), err))
	}
	select {
	case <-p.started:
	case <-ctx.Done():
		p.Kill()
		return nil, g.failure(fmt.Errorf("%s: not started: %w", p.Name(), context.Cause(ctx)))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, p.err
	}
	return p, nil
}

// Said returns what the program has written so far.
func (p *Process) Said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stdout.String() + p.stderr.String()
}

// Name returns the command line for errors, cut if it is long.
func (p *Process) Name() string {
	line := strings.Join(p.Argv, " ")
	if len(line) > 200 {
		line = line[:200] + "…"
	}
	return "guest " + p.guest.Name + ": " + line
}

// handle takes the agent's events. Only the guest's receiving goroutine calls it.
func (p *Process) handle(e control.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Kind {
	case control.KindStarted:
		close(p.started)
	case control.KindStdout:
		p.stdout.Write(e.Data)
	case control.KindStderr:
		p.stderr.Write(e.Data)
	case control.KindExit:
		p.status = e.Status
		if e.Error != "" {
			p.err = errors.New(p.Name() + ": " + e.Error)
		}
		close(p.done)
	case control.KindFailed:
		p.err, p.status = errors.New(p.Name()+": "+e.Error), -1
		select {
		case <-p.started:
		default:
			close(p.started)
		}
		close(p.done)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// Wait waits for the program's end; see [Guest.Run].
func (p *Process) Wait(ctx context.Context) (Output, error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		p.Kill()
		r, _ := p.result()
		return r, fmt.Errorf("%s: %w; it said so far:\n%s%s", p.Name(), context.Cause(ctx), Tail(r.Stdout, 1500), Tail(r.Stderr, 1500))
	}
	return p.result()
}

func (p *Process) result() (Output, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := Output{Stdout: p.stdout.String(), Stderr: p.stderr.String(), Status: p.status}
	if p.err != nil {
		return r, p.err
	}
	if p.status != 0 {
		return r, fmt.Errorf("%s: exit status %d:\n%s\n%s", p.Name(), p.status, Tail(r.Stdout, 1500), Tail(r.Stderr, 1500))
	}
	return r, nil
}

// WaitOutput waits until what the program wrote to its standard output contains text. It fails when the program
// ends before.
func (p *Process) WaitOutput(ctx context.Context, text string) error {
	for {
		p.mu.Lock()
		found, changed := strings.Contains(p.stdout.String(), text), p.changed
		p.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-changed:
		case <-p.done:
			if r, err := p.result(); err != nil {
				return err
			} else if !strings.Contains(r.Stdout, text) {
				return fmt.Errorf("%s: ended without saying %q, but said:\n%s%s", p.Name(), text, Tail(r.Stdout, 1500), Tail(r.Stderr, 1500))
			}
		case <-ctx.Done():
			r, _ := p.result()
			return fmt.Errorf("%s: did not say %q: %w; output:\n%s%s", p.Name(), text, context.Cause(ctx), Tail(r.Stdout, 1500), Tail(r.Stderr, 1500))
		}
	}
}

// Signal sends a signal to the program and its children.
func (p *Process) Signal(s syscall.Signal) error {
	return p.guest.request(control.Request{ID: p.id, Op: control.OpSignal, Signal: int(s)})
}

// Kill ends the program and its children.
func (p *Process) Kill() error { return p.Signal(syscall.SIGKILL) }
