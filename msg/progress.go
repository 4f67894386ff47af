package msg

import (
	"context"

	"softrdma/internal/waiting"
	"softrdma/msg/internal/wakeup"
)

// Progress takes what has arrived, posts what waits, and ends requests. It returns how many
// completions it took; 0 means that nothing happened. It does not block.
func (w *Worker) Progress() int {
	w.e.Lock()
	defer w.unlock()
	return w.progress()
}

// progress is Progress for a caller that holds the lock.
func (w *Worker) progress() (total int) {
	total = w.takeRings()
	if !w.devicesDue(total > 0) {
		return total
	}
	total += w.e.Progress()
	if w.turns.All { // a peer may have entered its ring
		total += w.takeRings()
		w.turns.All = false
	}
	return total
}

// failAll ends all connections. The caller holds the lock.
func (w *Worker) failAll(err error) {
	for len(w.conns) > 0 {
		w.conns[0].fail(err)
	}
}

// Arm prepares the worker for sleep: the next event makes the channel of Wakeup and the
// descriptor ready. It reports whether the program may sleep; if not, events were pending and
// Arm has handled them, and the program calls it again.
func (w *Worker) Arm() bool {
	w.e.Lock()
	defer w.unlock()
	w.alarm.Reset()
	w.arm()
	return w.progress() == 0
}

// arm asks for an event. The caller holds the lock, and polls then.
func (w *Worker) arm() {
	w.e.Arm()
	for _, c := range w.rings {
		c.rings.reader.Sleep()
	}
	w.turns.All = true
}

// Wakeup returns a channel that has a value when something happened since Arm. It is for
// ProgressCaller.
func (w *Worker) Wakeup() <-chan struct{} { return w.alarm.Channel() }

// Descriptor returns a file descriptor that is readable when something happened since Arm, for
// poll or epoll. It is for ProgressCaller. The worker reads it and closes it. On Windows the error
// matches errors.ErrUnsupported.
func (w *Worker) Descriptor() (uintptr, error) {
	w.e.Lock()
	defer w.e.Unlock()
	if w.closed {
		return 0, ErrClosed
	}
	return w.alarm.Descriptor()
}

// Signal makes the channel of Wakeup and the descriptor ready, as an event does, and wakes waiting
// calls. So a program can wake its own goroutine that makes progress.
func (w *Worker) Signal() {
	w.e.Lock()
	defer w.unlock()
	if !w.closed {
		w.signal()
	}
}

// signal wakes all goroutines that sleep. The caller holds the lock.
func (w *Worker) signal() {
	w.alarm.Signal()
	wakeup.Token(w.wake)
}

// event handles an event. The caller holds the lock.
func (w *Worker) event() {
	if w.config.Progress == ProgressCaller {
		w.signal()
		return
	}
	w.progress()
	if w.pollers == 0 { // the last poller arms otherwise
		w.arm()
		w.progress()
	}
}

// wait makes progress until a request has ended. It polls for a short time before it sleeps.
func (w *Worker) wait(ctx context.Context, r *Request) error {
	for slept := false; ; slept = true {
		w.poll(r)
		err := ctx.Err()
		if err == nil && !r.ended.Load() {
			w.sleep(ctx, r)
			continue
		}
		if slept { // perhaps with the event of another goroutine
			w.e.Lock()
			if w.sleepers > 0 {
				wakeup.Token(w.wake)
			}
			w.e.Unlock()
		}
		if r.ended.Load() {
			return nil
		}
		return err
	}
}

// sleep waits until a request has ended, something has happened, or ctx has ended.
func (w *Worker) sleep(ctx context.Context, r *Request) {
	done, wake := r.Done(), w.wake
	if w.config.Progress == ProgressPackage {
		wake = nil // drive ends the request
	}
	w.e.Lock()
	w.sleepers++
	w.arm()
	w.progress()
	w.unlock()
	select {
	case <-done:
	case <-wake:
	case <-ctx.Done():
	}
	w.e.Lock()
	w.sleepers--
	w.e.Unlock()
}

// poll makes progress until a request has ended, for Spin of the device at most.
func (w *Worker) poll(r *Request) {
	spin := waiting.Spin{For: w.on.Dev.Spin(), Every: 32}
	w.e.Lock()
	w.pollers++
	for {
		w.progress()
		if r.ended.Load() || !spin.More() {
			break
		}
		w.unlock() // for those who send
		w.e.Lock()
	}
	w.pollers--
	if w.pollers == 0 && w.config.Progress == ProgressPackage {
		w.arm()
		w.progress()
	}
	w.unlock()
}
