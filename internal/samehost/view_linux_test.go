package samehost

import (
	"testing"
	"time"

	"softrdma/internal/memory"
)

// A peer may leave questions unanswered, answer with a place outside of the segment, or end.
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
	view := func(key uint32, at uint64, n int, limit time.Duration) error {
		v, err := a.View(b.cfg.Local, 0, key, at, n, limit)
		if err == nil {
			err = v.Close()
		}
		return err
	}
	for range 2 {
		if err := view(1, 4096, 4096, timeLimit); err != nil {
			t.Error(err)
		}
	}
	for name, err := range map[string]error{
		"a byte too many":                view(1, 4096, 4097, timeLimit),
		"an offset behind the end":       view(1, 8193, 1, timeLimit),
		"an offset that wraps":           view(1, 1<<64-1, 8, timeLimit),
		"a region that is not there":     view(2, 0, 1, timeLimit),
		"an address that is not aligned": view(4, 4096, 8, timeLimit),
		"no answer":                      view(3, 0, 1, time.Millisecond),
		"no answer before":               view(1, 0, 1, time.Millisecond),
	} {
		if err == nil {
			t.Errorf("%s: a view", name)
		}
	}
	for range maxQuestions - 2 {
		if err := view(1, 0, 1, 0); err == nil {
			t.Error("a view although the peer answers nothing")
		}
	}
	if err := view(1, 0, 1, timeLimit); err == nil {
		t.Error("more questions than the limit")
	}
}
