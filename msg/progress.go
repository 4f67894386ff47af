package msg

import (
	"context"

	"softrdma/internal/waiting"
	"softrdma/msg/internal/wakeup"
)

// Progress takes what has arrived, posts what waits, and ends requests. It returns how many
// completions it took; 0 means that nothing happened. It does not block.
func (w *Worker) Progress() int {
	w.mu.Lock()
	defer w.unlock()
	return w.progress()
}

// progress is Progress for a caller that holds the lock.
func (w *Worker) progress() (total int) {
	total = w.takeRings()
	if !w.devicesDue(total > 0) {
		return total
	}
	for _, r := range w.rails {
		total += w.take(r)
	}
	if w.turns.All { // a peer may have entered its ring
		total += w.takeRings()
		w.turns.All = false
	}
	if w.ending { // all that arrived before the end was taken
		w.ending = false
		for _, c := range w.connections() {
			if c.ended {
				c.drainRing()
			}
			if c.ended && c.err == nil {
				c.fail(c.conn.Err())
				total++
			}
		}
		w.flush()
	}
	return total
}

// take takes the completions of a device.
func (w *Worker) take(r *rail) (total int) {
	for !r.gone.Load() && !w.closed {
		n, err := r.cq.Poll(w.list[:])
		for i := range w.list[:n] {
			wc := &w.list[i]
			if c := w.numbers[uint32(wc.WRID>>16)]; c != nil {
				c.complete(wc)
			}
		}
		if err != nil {
			w.lose(r, err)
		}
		w.flush()
		if total += n; n == 0 || n < len(w.list) && !w.ending {
			break
		}
	}
	return total
}

// failAll ends all connections. The caller holds the lock.
func (w *Worker) failAll(err error) {
	for len(w.conns) > 0 {
		w.conns[0].fail(err)
	}
}

// reserve makes room for a connection's completions and numbers it.
func (w *Worker) reserve(c *connection, room int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := c.rail
	if r.room+room > r.cq.Depth() {
		if err := r.cq.Resize(2 * (r.room + room)); err != nil {
			return err
		}
	}
	r.room += room
	c.room = room
	w.number++
	c.number = w.number
	w.numbers[c.number] = c
	return nil
}

// Arm prepares the worker for sleep: the next event makes the channel of Wakeup and the
// descriptor ready. It reports whether the program may sleep; if not, events were pending and
// Arm has handled them, and the program calls it again.
func (w *Worker) Arm() bool {
	w.mu.Lock()
	defer w.unlock()
	w.alarm.Reset()
	w.arm()
	return w.progress() == 0
}

// arm asks for an event. The caller holds the lock, and polls then.
func (w *Worker) arm() {
	for _, r := range w.rails {
		if !r.gone.Load() {
			r.cq.Arm(false)
			wakeup.Token(r.armed)
		}
	}
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
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, ErrClosed
	}
	return w.alarm.Descriptor()
}

// Signal makes the channel of Wakeup and the descriptor ready, as an event does, and wakes waiting
// calls. So a program can wake its own goroutine that makes progress.
func (w *Worker) Signal() {
	w.mu.Lock()
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
			w.mu.Lock()
			if w.sleepers > 0 {
				wakeup.Token(w.wake)
			}
			w.mu.Unlock()
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
	w.mu.Lock()
	w.sleepers++
	w.arm()
	w.progress()
	w.unlock()
	select {
	case <-done:
	case <-wake:
	case <-ctx.Done():
	}
	w.mu.Lock()
	w.sleepers--
	w.mu.Unlock()
}

// poll makes progress until a request has ended, for Spin of the device at most.
func (w *Worker) poll(r *Request) {
	spin := waiting.Spin{For: w.dev.Spin(), Every: 32}
	w.mu.Lock()
	w.pollers++
	for {
		w.progress()
		if r.ended.Load() || !spin.More() {
			break
		}
		w.unlock() // for those who send
		w.mu.Lock()
	}
	w.pollers--
	if w.pollers == 0 && w.config.Progress == ProgressPackage {
		w.arm()
		w.progress()
	}
	w.unlock()
}
