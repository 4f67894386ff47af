//go:build interop && linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// An end is a program of the connection manager's that runs, in a guest or on the host.
type end struct {
	name string
	said func() string
	kill func()        // -9
	done chan struct{} // closed when it has ended
	err  error         // set before done is closed: not nil when the exit status is not 0
}

// startGuest starts a program in a guest. The program ends with the test.
func startGuest(ctx context.Context, t *testing.T, g *Guest, argv ...string) *end {
	t.Helper()
	p, err := g.Start(ctx, argv...)
	if err != nil {
		t.Fatal(err)
	}
	e := &end{name: p.name(), done: make(chan struct{}), kill: func() { p.Kill() }}
	e.said = func() string {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.stdout.String() + p.stderr.String()
	}
	go func() {
		_, e.err = p.Wait(ctx)
		close(e.done)
	}()
	return e
}

// startHost starts a program on the host. The program ends with the test.
func startHost(ctx context.Context, t *testing.T, lab *Lab, argv ...string) *end {
	t.Helper()
	var said lockedBuffer
	cmd := lab.Host(ctx, argv...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e := &end{name: "host: " + strings.Join(argv, " "), said: said.String, done: make(chan struct{}), kill: func() { cmd.Process.Kill() }}
	go func() {
		if err := cmd.Wait(); err != nil {
			e.err = fmt.Errorf("%s: %w; it said:\n%s", e.name, errors.Join(err, context.Cause(ctx)), tail(said.String(), 1500))
		}
		close(e.done)
	}()
	return e
}

// serving are the words by which softrdma's programs tell that they listen.
var serving = []string{"listening", "waiting for a client"}

// awaitServing waits until a program on the host says that it listens.
func (e *end) awaitServing(ctx context.Context) error {
	return e.awaitWords(ctx, serving...)
}

// awaitWords waits until the program has said any of some words.
func (e *end) awaitWords(ctx context.Context, words ...string) error {
	for {
		for _, w := range words {
			if strings.Contains(e.said(), w) {
				return nil
			}
		}
		select {
		case <-e.done:
			return fmt.Errorf("%s: it ended, and did not say any of %q: %v\n%s", e.name, words, e.err, tail(e.said(), 1500))
		case <-ctx.Done():
			return fmt.Errorf("%s: it does not say any of %q: %w\n%s", e.name, words, context.Cause(ctx), tail(e.said(), 1500))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// ends waits for the program's end, within a time.
func (e *end) ends(t *testing.T, limit time.Duration) error {
	t.Helper()
	select {
	case <-e.done:
	case <-time.After(limit):
		t.Fatalf("%s: it did not end within %v; it said:\n%s", e.name, limit, tail(e.said(), 1500))
	}
	return e.err
}

// succeeds waits for the program's end with status 0.
func (e *end) succeeds(t *testing.T, limit time.Duration) {
	t.Helper()
	if err := e.ends(t, limit); err != nil {
		t.Error(err)
	}
}

// What Linux's devices hold when no program uses them: rxe the kernel's own queue pair 1, siw nothing.
const (
	idle    = "rxe0: pd 1 cq 1 qp 1 cm_id 0 mr 0"
	idleSiw = "siw0: pd 0 cq 0 qp 0 cm_id 0 mr 0"
)

// checkIdle waits until a guest's rxe device holds nothing any more.
func checkIdle(ctx context.Context, t *testing.T, g *Guest, limit time.Duration) {
	t.Helper()
	checkDevice(ctx, t, g, idle, limit)
}

// checkDevice waits until a guest's device holds what is given.
func checkDevice(ctx context.Context, t *testing.T, g *Guest, idle string, limit time.Duration) {
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
