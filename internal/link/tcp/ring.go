package tcp

import (
	"sync"

	"softrdma/internal/link"
)

// ringLen is the buffer length of one direction of a connection.
const ringLen = 128 << 10

// A ring is the buffer of one direction. The lane uses one end and never waits. A goroutine
// uses the other and may wait.
type ring struct {
	mu     sync.Mutex
	moved  sync.Cond // signals a change to the waiting goroutine
	buf    []byte
	start  int
	n      int
	err    error // the goroutine's error, after the data in the buffer
	last   bool  // the lane writes no more
	closed bool  // the lane has closed the stream
	full   bool  // the lane found the buffer full, and waits for room
	asked  bool  // the lane found bytes in the buffer, and waits until they are written
	ending bool  // the lane holds back the peer's end until nothing can be written
}

func newRing() *ring {
	r := &ring{}
	r.moved.L = &r.mu
	return r
}

// free returns the contiguous free part of the buffer, and held the contiguous used part.
func (r *ring) free() []byte {
	if r.buf == nil {
		r.buf = make([]byte, ringLen)
	}
	at := (r.start + r.n) % ringLen
	return r.buf[at:min(at+ringLen-r.n, ringLen)]
}

func (r *ring) held() []byte { return r.buf[r.start:min(r.start+r.n, ringLen)] }

func (r *ring) drop(n int) {
	r.n -= n
	r.start = (r.start + n) % ringLen
}

// room waits, for the reading goroutine, until there is room. It returns nil when the lane has
// closed the stream. The room belongs to the goroutine until filled is called.
func (r *ring) room() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.n == ringLen && !r.closed {
		r.moved.Wait()
	}
	if r.closed {
		return nil
	}
	return r.free()
}

// filled adds the bytes that were read, and the error of the read.
func (r *ring) filled(n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n += n
	r.err = err
}

// read copies received bytes to the lane's pieces. If it does not fill them, there was no
// more.
func (r *ring) read(pieces [][]byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == 0 {
		if r.err != nil {
			return 0, r.err
		}
		return 0, link.ErrWouldBlock
	}
	total := 0
	for _, p := range pieces {
		for len(p) > 0 && r.n > 0 {
			n := copy(p, r.held())
			r.drop(n)
			p, total = p[n:], total+n
		}
	}
	r.moved.Signal()
	return total, nil
}

// write copies the lane's data as far as there is room.
func (r *ring) write(pieces [][]byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return 0, r.err
	}
	total, length := 0, 0
	for _, p := range pieces {
		length += len(p)
		for len(p) > 0 && r.n < ringLen {
			n := copy(r.free(), p)
			r.n += n
			p, total = p[n:], total+n
		}
	}
	if total > 0 {
		r.moved.Signal()
	}
	if total < length {
		r.full = true
		if total == 0 {
			return 0, link.ErrWouldBlock
		}
	}
	return total, nil
}

// next waits until there are bytes to write. They belong to the caller until sent is called.
// Only the writing goroutine calls it. last reports that no more will come, and closed that
// the lane has closed the stream.
func (r *ring) next() (b []byte, last, closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.idle() && !r.last && !r.closed {
		r.moved.Wait()
	}
	if !r.idle() {
		return r.held(), false, false
	}
	return nil, r.last, r.closed
}

// idle reports whether there is nothing to write. After an error the rest of the buffer is
// never written.
func (r *ring) idle() bool { return r.n == 0 || r.err != nil }

// sent drops the bytes that were written, or records the error of the write. tell reports
// whether the lane waits for that, and ended whether the lane holds back the peer's end.
func (r *ring) sent(n int, err error) (tell, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(n)
	if err != nil {
		r.err = err
	}
	ended = r.ending && r.idle()
	// Notify a lane that waits for completions only when all is written. If it were notified
	// of each write, it would post a few requests at a time, and each write would be short.
	drained := r.asked && r.n == 0
	tell = r.full || drained || ended || err != nil
	r.full = false
	r.asked = r.asked && !drained
	return tell, ended
}

// count returns how many bytes of the lane were not written.
func (r *ring) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = r.n > 0
	return r.n
}

// finished reports whether nothing more will be written of the lane's data. If it is false,
// sent reports the change as ended.
func (r *ring) finished() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ending = !r.idle()
	return !r.ending
}

// ends records that the lane writes no more, or has closed the stream.
func (r *ring) ends(closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.closed = true, r.closed || closed
	r.moved.Signal()
}

// waitClosed waits until the lane closes the stream, after its writing has ended.
func (r *ring) waitClosed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.closed {
		r.moved.Wait()
	}
}
