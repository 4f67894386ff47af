package stream

import (
	"context"
	"sync"

	"softrdma/rpc"
)

// A meeting is where the handler of a stream and the calls of its client meet, in one direction. A
// call with a chunk waits there until the handler has come to that chunk.
type meeting struct {
	mu      sync.Mutex
	next    uint64 // chunk that the handler comes to next
	waiting map[uint64]*party
	arrived chan struct{} // the chunk next is waiting
	ended   bool
	err     error // with which it has ended
}

// A party is a call that waits.
type party struct {
	data []byte // what the client has written
	end  bool   // and that nothing follows
	call *rpc.Call
	most int // bytes that the client wants
	done chan error
}

func newMeeting() meeting {
	return meeting{waiting: map[uint64]*party{}, arrived: make(chan struct{}, 1)}
}

// fill answers a client that wants to read.
func (x *party) fill(b []byte, end bool) error {
	to, err := x.call.Reserve(1 + len(b))
	if err != nil {
		return err
	}
	to[0] = 0
	if end {
		to[0] = last
	}
	copy(to[1:], b)
	return nil
}

// wait makes a call wait until the handler is done with its chunk.
func (m *meeting) wait(ctx context.Context, chunk uint64, x *party) error {
	x.done = make(chan error, 1)
	m.mu.Lock()
	switch {
	case m.ended:
		defer m.mu.Unlock()
		return m.conclude(x)
	case chunk < m.next || chunk-m.next >= MaxWindow || m.waiting[chunk] != nil:
		defer m.mu.Unlock()
		return rpc.Errorf(rpc.InvalidArgument, "chunk %d out of turn, the next one is %d", chunk, m.next)
	}
	m.waiting[chunk] = x
	m.notify()
	m.mu.Unlock()
	select {
	case err := <-x.done:
		return err
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case err := <-x.done: // at the same time
		return err
	default:
		delete(m.waiting, chunk)
		return ctx.Err()
	}
}

// notify tells the handler that its chunk is there. The caller holds the lock.
func (m *meeting) notify() {
	if m.waiting[m.next] != nil || m.ended {
		select {
		case m.arrived <- struct{}{}:
		default:
		}
	}
}

// conclude is the result of a call that comes after the end.
func (m *meeting) conclude(x *party) error {
	if m.err == nil && x.call != nil {
		return x.fill(nil, true)
	}
	return m.err
}

// with runs f with the next chunk, when it is there. If f returns true, the chunk is done.
func (m *meeting) with(ctx context.Context, f func(*party) bool) error {
	for {
		m.mu.Lock()
		x := m.waiting[m.next]
		switch {
		case m.ended:
			defer m.mu.Unlock()
			return m.err
		case x != nil:
			defer m.mu.Unlock()
			if f(x) {
				delete(m.waiting, m.next)
				m.next++
				m.notify()
				x.done <- nil
			}
			return nil
		}
		m.mu.Unlock()
		select {
		case <-m.arrived:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// end ends the meeting: calls that wait or come later get the error, or the end if it is nil.
func (m *meeting) end(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	m.ended, m.err = true, err
	for chunk, x := range m.waiting {
		x.done <- m.conclude(x)
		delete(m.waiting, chunk)
	}
	m.notify()
}
