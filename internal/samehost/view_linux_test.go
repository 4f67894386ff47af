package samehost

import (
	"context"
	"errors"
	"sync"
	"testing"

	"softrdma/internal/memory"
)

// A peer may leave questions unanswered, answer with a place outside the segment, or end.
func TestViewsOfAPeerThatDoesNotAnswerWell(t *testing.T) {
	g := newSegment(t, 8192)
	release := make(chan struct{})
	dir := t.TempDir()
	a := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	b := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 2, Locate: func(key uint32, at uint64) (*memory.Segment, uint64, bool) {
		if key == 3 {
			<-release
		}
		if key == 4 {
			at++
		}
		return g, at, key != 2
	}})
	defer close(release)
	if err := a.Reach(b.cfg.Local, 0, timeLimit); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	view := func(ctx context.Context, key uint32, at uint64, n int) error {
		v, err := a.View(ctx, b.cfg.Local, 0, key, at, n)
		if err == nil {
			err = v.Close()
		}
		return err
	}
	for range 2 {
		if err := view(t.Context(), 1, 4096, 4096); err != nil {
			t.Error(err)
		}
	}
	for name, err := range map[string]error{
		"a byte too many":                view(t.Context(), 1, 4096, 4097),
		"an offset behind the end":       view(t.Context(), 1, 8193, 1),
		"an offset that wraps":           view(t.Context(), 1, 1<<64-1, 8),
		"a region that is not there":     view(t.Context(), 2, 0, 1),
		"an address that is not aligned": view(t.Context(), 4, 4096, 8),
		"no answer":                      view(ended, 3, 0, 1),
		"no answer before":               view(ended, 1, 0, 1),
	} {
		if err == nil {
			t.Errorf("%s: a view", name)
		}
	}
	for range maxQuestions - 2 {
		if err := view(ended, 1, 0, 1); err == nil {
			t.Error("a view although the peer answers nothing")
		}
	}
	if err := view(t.Context(), 1, 0, 1); err == nil {
		t.Error("more questions than the limit")
	}
}

// A peer without processor time answers late. Only the caller's context bounds the wait.
func TestViewWaitsForALateAnswer(t *testing.T) {
	g := newSegment(t, 8192)
	dir := t.TempDir()
	var once sync.Once
	asked, release := make(chan struct{}), make(chan struct{})
	a := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	b := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 2, Locate: func(_ uint32, at uint64) (*memory.Segment, uint64, bool) {
		once.Do(func() { close(asked) })
		<-release
		return g, at, true
	}})
	if err := a.Reach(b.cfg.Local, 0, timeLimit); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	seen := make(chan error)
	view := func(ctx context.Context) {
		v, err := a.View(ctx, b.cfg.Local, 0, 1, 0, 4096)
		if err == nil {
			err = v.Close()
		}
		seen <- err
	}
	go view(ctx)
	<-asked
	gone := errors.New("the connection has ended")
	cancel(gone)
	if err := <-seen; !errors.Is(err, gone) {
		t.Errorf("view whose context ends: %v, expected %q", err, gone)
	}
	go view(t.Context())
	close(release)
	if err := <-seen; err != nil {
		t.Error(err)
	}
}
