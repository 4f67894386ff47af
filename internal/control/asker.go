package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// An Asker asks processes again and again, and waits for one that does not answer, as one that is stopped,
// only the first time. From then on it asks it in the background until it answers. The zero value is ready.
// Any number of goroutines may use it.
type Asker struct {
	mu     sync.Mutex
	silent map[question]bool // those that were not answered; true while one is asked in the background
}

// A question is a route of a process.
type question struct{ socket, route string }

// backgroundTime bounds a question in the background. The next question begins another one.
const backgroundTime = time.Minute

// Ask is [Socket.Ask] for questions that change nothing. It returns at once if the process has not answered
// the one before on the same route.
func (a *Asker) Ask(ctx context.Context, s Socket, method, path string, in []byte, out any) error {
	q := question{s.Path, path}
	a.mu.Lock()
	asked, silent := a.silent[q]
	if silent && !asked {
		a.silent[q] = true
		go a.background(q, s, method, path, in)
	}
	a.mu.Unlock()
	if !silent {
		err := s.Ask(ctx, method, path, in, out)
		if !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		a.note(q)
	}
	return fmt.Errorf("process %d: does not answer", s.PID)
}

func (a *Asker) background(q question, s Socket, method, path string, in []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), backgroundTime)
	defer cancel()
	if err := s.Ask(ctx, method, path, in, io.Discard); errors.Is(err, context.DeadlineExceeded) {
		a.note(q)
		return
	}
	a.mu.Lock()
	delete(a.silent, q)
	a.mu.Unlock()
}

// note notes that a question was not answered.
func (a *Asker) note(q question) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent == nil {
		a.silent = make(map[question]bool)
	}
	a.silent[q] = false
}
