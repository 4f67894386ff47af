package stream

import (
	"context"
	"sync"
	"sync/atomic"

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

	gathered []byte        // what the handler has written and no call has taken; nil if there is none
	most     int           // bytes that the last call wanted
	budget   *atomic.Int64 // bytes that meetings have gathered
}

// maxGathered bounds what the streams of a method gather.
const maxGathered = 256 << 20

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
	case m.ended && len(m.gathered) == 0:
		defer m.mu.Unlock()
		return m.conclude(x)
	case chunk < m.next || chunk-m.next >= MaxWindow || m.waiting[chunk] != nil:
		defer m.mu.Unlock()
		return rpc.Errorf(rpc.InvalidArgument, "chunk %d out of turn, the next one is %d", chunk, m.next)
	}
	m.waiting[chunk] = x
	m.deliver()
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
		m.wake()
	}
}

func (m *meeting) wake() {
	select {
	case m.arrived <- struct{}{}:
	default:
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
				m.pass(x, nil)
				m.notify()
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

// pass lets the call that waits for the next chunk return.
func (m *meeting) pass(x *party, err error) {
	delete(m.waiting, m.next)
	m.next++
	x.done <- err
}

// deliver gives what is gathered to calls. The caller holds the lock.
func (m *meeting) deliver() {
	for x := m.waiting[m.next]; x != nil && len(m.gathered) > 0; x = m.waiting[m.next] {
		n := min(len(m.gathered), x.most)
		err := x.fill(m.gathered[:n], false)
		m.most = x.most
		m.budget.Add(-int64(n))
		if m.gathered = m.gathered[n:]; len(m.gathered) == 0 {
			m.gathered = nil
		}
		m.pass(x, err)
		m.notify()
		m.wake()
	}
	if m.ended && len(m.gathered) == 0 {
		m.concludeAll()
	}
}

// write gives bytes to the next call, or gathers up to a chunk of them if there is none. It waits while
// neither is possible.
func (m *meeting) write(ctx context.Context, b []byte) (n int, err error) {
	for {
		if n, err = m.put(b); n > 0 || err != nil {
			return n, err
		}
		select {
		case <-m.arrived:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// put is write without waiting.
func (m *meeting) put(b []byte) (n int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return 0, m.err
	}
	if x := m.waiting[m.next]; x != nil { // so nothing is gathered
		n, m.most = min(len(b), x.most), x.most
		err = x.fill(b[:n], false)
		m.pass(x, err)
		m.notify()
		return n, err
	}
	n = min(len(b), m.most-len(m.gathered))
	if n <= 0 || m.budget.Add(int64(n)) > maxGathered {
		m.budget.Add(-int64(max(n, 0)))
		return 0, nil
	}
	m.gathered = append(m.gathered, b[:n]...)
	return n, nil
}

// end ends the meeting: calls that wait or come later get what is gathered, and then the error, or the end
// if it is nil.
func (m *meeting) end(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	if m.ended, m.err = true, err; len(m.gathered) == 0 {
		m.concludeAll()
	}
	m.wake()
}

// abort ends the meeting, and drops what is gathered.
func (m *meeting) abort(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.gathered) > 0 {
		m.budget.Add(-int64(len(m.gathered)))
		m.gathered = nil
	}
	if !m.ended {
		m.ended, m.err = true, err
	}
	m.concludeAll()
	m.wake()
}

func (m *meeting) concludeAll() {
	for chunk, x := range m.waiting {
		x.done <- m.conclude(x)
		delete(m.waiting, chunk)
	}
}
