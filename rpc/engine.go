package rpc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/verbs"
)

// An engine is the completion queues of connections, one on each device. Its lock guards them and
// everything that their owners know. Whoever holds the lock makes progress.
type engine struct {
	context context.Context // of pumps, until close
	stop    context.CancelFunc
	first   *rail         // never changes once there is one
	several atomic.Bool   // there are pumps
	event   chan struct{} // from pumps

	mu     sync.Mutex
	rails  []*rail
	conns  map[uint32]*conn // until their memory is released
	number uint32           // of the last connection
	list   [32]verbs.WC
	dirty  []*conn // with frames that wait for credit, or with credit to give
	dead   error   // why no completion queue is of use any more
	ending sync.WaitGroup
	pumps  sync.WaitGroup
}

// newEngine makes an engine with one rail.
func newEngine(dev *verbs.Device) (*engine, error) {
	e := &engine{conns: map[uint32]*conn{}, event: make(chan struct{}, 1)}
	e.context, e.stop = context.WithCancel(context.Background())
	_, err := e.on(dev)
	return e, err
}

// close destroys the queues. No connection is left.
func (e *engine) close() {
	e.ending.Wait()
	e.stop()
	e.pumps.Wait()
	for _, r := range e.rails {
		_ = r.cq.Destroy() // fails if the device is closed, which destroyed it
		_ = r.events.Destroy()
	}
}

// progress handles completions, and sends what they allow. It returns how many there were. The
// caller holds the lock.
func (e *engine) progress() (total int) {
	for _, r := range e.rails {
		if !r.gone.Load() {
			total += e.poll(r)
		}
	}
	return total
}

// poll handles the completions of a rail.
func (e *engine) poll(r *rail) (total int) {
	for {
		n, err := r.cq.Poll(e.list[:])
		for i := range e.list[:n] {
			wc := &e.list[i]
			if c := e.conns[uint32(wc.WRID>>16)]; c != nil {
				c.complete(wc)
			}
		}
		if err != nil {
			e.lose(r, err)
		}
		e.flush()
		if total += n; n < len(e.list) {
			return total
		}
	}
}

// flush posts what waits. The caller holds the lock.
func (e *engine) flush() {
	for i := 0; i < len(e.dirty); i++ {
		e.dirty[i].push()
	}
	clear(e.dirty)
	e.dirty = e.dirty[:0]
}

// reserve makes room for a connection's completions and numbers it.
func (e *engine) reserve(c *conn, room int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := c.rail
	if r.gone.Load() {
		return verbs.ErrClosed
	}
	if r.room+room > r.cq.Depth() {
		if err := r.cq.Resize(2 * (r.room + room)); err != nil {
			return err
		}
	}
	r.room += room
	c.room = room
	e.number++
	c.number = e.number
	e.conns[c.number] = c
	return nil
}

// Lock implements waiting.Queue, as the methods below do.
func (e *engine) Lock() { e.mu.Lock() }

// Unlock releases the lock.
func (e *engine) Unlock() { e.mu.Unlock() }

// Progress handles completions.
func (e *engine) Progress() { e.progress() }

// Dead returns why the queue is of no use any more.
func (e *engine) Dead() error { return e.dead }

// Spin returns how long to poll before a sleep.
func (e *engine) Spin() (d time.Duration) {
	for _, r := range e.rails {
		d = max(d, r.dev.Spin())
	}
	return d
}

// Fail says that Next has failed on the only rail.
func (e *engine) Fail(err error) { e.lose(e.first, err) }
