package carrier

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/verbs"
)

// An Engine has the completion queues of a set of connections, one on each device. Its lock guards the
// connections and the state of their owners. Whoever holds the lock makes progress.
type Engine struct {
	context context.Context // of pumps, until close
	stop    context.CancelFunc
	first   *Rail         // never changes once there is one
	several atomic.Bool   // there are pumps
	event   chan struct{} // from pumps

	mu     sync.Mutex
	rails  []*Rail
	conns  map[uint32]*Conn // until their memory is released
	number uint32           // of the last connection
	list   [32]verbs.WC
	dirty  []*Conn        // with frames that wait for credit, or with credit to give
	dead   error          // why no completion queue works any more
	Ending sync.WaitGroup // goroutines that use the engine
	pumps  sync.WaitGroup
}

// NewEngine makes an engine with one rail.
func NewEngine(dev *verbs.Device) (*Engine, error) {
	e := &Engine{conns: map[uint32]*Conn{}, event: make(chan struct{}, 1)}
	e.context, e.stop = context.WithCancel(context.Background())
	_, err := e.On(dev)
	return e, err
}

// Close destroys the queues. The caller has ended all connections.
func (e *Engine) Close() {
	e.Ending.Wait()
	e.stop()
	e.pumps.Wait()
	for _, r := range e.rails {
		_ = r.cq.Destroy() // fails if the device is closed, which destroyed it
		_ = r.events.Destroy()
	}
}

// Progress handles completions, and sends what they allow. The caller holds the lock.
func (e *Engine) Progress() {
	for _, r := range e.rails {
		if !r.Gone.Load() {
			e.poll(r)
		}
	}
}

// poll handles the completions of a rail.
func (e *Engine) poll(r *Rail) {
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
		e.Flush()
		if n < len(e.list) {
			return
		}
	}
}

// Flush posts what waits on the connections. The caller holds the lock.
func (e *Engine) Flush() {
	for i := 0; i < len(e.dirty); i++ {
		e.dirty[i].push()
	}
	clear(e.dirty)
	e.dirty = e.dirty[:0]
}

// reserve makes room for a connection's completions and numbers it.
func (e *Engine) reserve(c *Conn, room int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := c.Rail
	if r.Gone.Load() {
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
	c.Number = e.number
	e.conns[c.Number] = c
	return nil
}

// unreserve removes a connection, which has no completions any more, and its room. The caller holds the
// lock.
func (e *Engine) unreserve(c *Conn) {
	delete(e.conns, c.Number)
	c.Rail.room -= c.room
}

// First returns the engine's first rail.
func (e *Engine) First() *Rail { return e.first }

// Made returns how many connections were made.
func (e *Engine) Made() int { return int(e.number) }

// Each calls f for each connection whose memory is in use. The caller holds the lock.
func (e *Engine) Each(f func(*Conn)) {
	for _, c := range e.conns {
		f(c)
	}
}

// Lock implements waiting.Queue, as the methods below do.
func (e *Engine) Lock() { e.mu.Lock() }

// Unlock releases the lock.
func (e *Engine) Unlock() { e.mu.Unlock() }

// Dead returns why the queue is of no use any more.
func (e *Engine) Dead() error { return e.dead }

// Spin returns how long to poll before a sleep.
func (e *Engine) Spin() (d time.Duration) {
	for _, r := range e.rails {
		d = max(d, r.Dev.Spin())
	}
	return d
}

// Fail ends the only rail, because Next has failed on it.
func (e *Engine) Fail(err error) { e.lose(e.first, err) }
