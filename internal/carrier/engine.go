package carrier

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/verbs"
)

// An Engine has the completion queues of a set of connections, one on each device. Its lock guards the
// connections and the state of their owners. The holder of the lock makes progress.
type Engine struct {
	host    Host
	context context.Context // of pumps, until close
	stop    context.CancelFunc
	first   *Rail         // never changes once there is one
	pumped  atomic.Bool   // there are pumps
	event   chan struct{} // from pumps, for Next

	mu     sync.Mutex
	rails  []*Rail
	conns  []*Conn // until their memory is released; nil if there is none
	number uint32  // of the last connection
	ending bool    // a connection has ended
	list   [32]verbs.WC
	dirty  []*Conn        // to be pushed
	busy   bool           // pushing them
	dead   error          // why no completion queue works any more
	Ending sync.WaitGroup // goroutines that use the engine
	pumps  sync.WaitGroup
}

// NewEngine makes an engine with one rail. Without a host, the caller of Next makes progress.
func NewEngine(dev *verbs.Device, h Host) (*Engine, error) {
	e := &Engine{host: h, event: make(chan struct{}, 1)}
	e.context, e.stop = context.WithCancel(context.Background())
	if h == nil {
		e.host = engineHost{e}
	} else {
		e.pumped.Store(true)
	}
	_, err := e.On(dev)
	return e, err
}

// An engineHost is the host of an engine that has no other.
type engineHost struct{ *Engine }

// Event makes progress, and wakes the caller of Next.
func (h engineHost) Event() {
	if h.Progress(); h.pumped.Load() {
		token(h.event)
	}
}

// token puts a value into a channel unless it is full.
func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is one already
	}
}

// Close destroys the queues. The caller has ended all connections. An error is that of a device that has
// not closed.
func (e *Engine) Close() (err error) {
	e.Ending.Wait()
	e.stop()
	e.pumps.Wait()
	for _, r := range e.rails {
		if first := errors.Join(r.cq.Destroy(), r.events.Destroy()); err == nil && !r.Gone.Load() {
			err = first
		}
	}
	return err
}

// Progress handles completions, and sends what they allow. It returns their number. The caller holds the
// lock.
func (e *Engine) Progress() (total int) {
	for _, r := range e.rails {
		total += e.poll(r)
	}
	if e.ending { // all that arrived before the end was taken
		e.ending = false
		for _, c := range e.conns {
			if c != nil && c.ended && c.Err == nil {
				c.lose(c.CM.Err())
				total++
			}
		}
		e.Flush()
	}
	return total
}

// poll handles the completions of a rail.
func (e *Engine) poll(r *Rail) (total int) {
	for !r.Gone.Load() {
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
		if total += n; n == 0 || n < len(e.list) && !e.ending {
			break
		}
	}
	return total
}

// Due reports whether connections have ended, which Progress will notice.
func (e *Engine) Due() bool { return e.ending }

// Marked reports whether connections wait for Flush.
func (e *Engine) Marked() bool { return len(e.dirty) > 0 }

// Flush pushes the connections that are marked. The caller holds the lock.
func (e *Engine) Flush() {
	if len(e.dirty) > 0 && !e.busy {
		e.push()
	}
}

func (e *Engine) push() {
	e.busy = true // an owner may call Flush in Push
	for i := 0; i < len(e.dirty); i++ {
		e.dirty[i].push()
	}
	clear(e.dirty)
	e.dirty, e.busy = e.dirty[:0], false
}

// reserve makes room for a connection's completions and numbers it.
func (e *Engine) reserve(c *Conn, room int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.Rail.Gone.Load() {
		return verbs.ErrClosed
	}
	if err := e.widen(c, room); err != nil {
		return err
	}
	e.number++
	c.Number = e.number
	i := slices.Index(e.conns, nil)
	if i < 0 {
		i = len(e.conns)
		e.conns = append(e.conns, nil)
	}
	c.index, e.conns[i] = uint32(i), c
	return nil
}

// widen makes room for more completions of a connection. The caller holds the lock.
func (e *Engine) widen(c *Conn, room int) error {
	r := c.Rail
	if r.room+room > r.cq.Depth() {
		if err := r.cq.Resize(2 * (r.room + room)); err != nil {
			return err
		}
	}
	r.room += room
	c.room += room
	return nil
}

// unreserve removes a connection, which has no completions any more, and its room. The caller holds the
// lock.
func (e *Engine) unreserve(c *Conn) {
	if c.Number > 0 {
		e.conns[c.index] = nil
		c.Rail.room -= c.room
	}
}

// First returns the engine's first rail.
func (e *Engine) First() *Rail { return e.first }

// Made returns how many connections were made.
func (e *Engine) Made() int { return int(e.number) }

// Each calls f for each connection whose memory is in use. The caller holds the lock.
func (e *Engine) Each(f func(*Conn)) {
	for _, c := range e.conns {
		if c != nil {
			f(c)
		}
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
