package rpc

import (
	"context"
	"sync"
	"time"

	"softrdma/verbs"
)

// An engine is the completion queue of connections on one device. Its lock guards them and
// everything that their owners know. Whoever holds the lock makes progress.
type engine struct {
	dev    *verbs.Device
	events *verbs.CompChannel
	cq     *verbs.CQ

	mu     sync.Mutex
	conns  map[uint32]*conn // until their memory is released
	number uint32           // of the last connection
	room   int              // completions that connections may have
	list   [32]verbs.WC
	dirty  []*conn // with frames that wait for credit, or with credit to give
	dead   error   // why the completion queue is of no use any more
	ending sync.WaitGroup
}

func newEngine(dev *verbs.Device) (*engine, error) {
	e := &engine{dev: dev, conns: map[uint32]*conn{}}
	var err error
	if e.events, err = dev.CreateCompChannel(); err != nil {
		return nil, err
	}
	if e.cq, err = dev.CreateCQ(verbs.CQConfig{Channel: e.events}); err != nil {
		_ = e.events.Destroy() // nothing uses it
		return nil, err
	}
	return e, nil
}

// close destroys the queue. No connection is left.
func (e *engine) close() {
	e.ending.Wait()
	_ = e.cq.Destroy() // fails if the device is closed, which destroyed it
	_ = e.events.Destroy()
}

// progress handles completions, and sends what they allow. It returns how many there were. The
// caller holds the lock.
func (e *engine) progress() (total int) {
	for {
		n, err := e.cq.Poll(e.list[:])
		for i := range e.list[:n] {
			wc := &e.list[i]
			if c := e.conns[uint32(wc.WRID>>16)]; c != nil {
				c.complete(wc)
			}
		}
		if err != nil && e.dead == nil {
			e.fail(err)
		}
		e.flush()
		if total += n; n < len(e.list) {
			return total
		}
	}
}

// fail ends all connections. The caller holds the lock.
func (e *engine) fail(err error) {
	e.dead = err
	for _, c := range e.conns {
		c.fail(err)
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
	if e.dead != nil {
		return e.dead
	}
	if e.room+room > e.cq.Depth() {
		if err := e.cq.Resize(2 * (e.room + room)); err != nil {
			return err
		}
	}
	e.room += room
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

// Arm asks for an event.
func (e *engine) Arm() { e.cq.Arm(false) }

// Next waits for the event.
func (e *engine) Next(ctx context.Context) error {
	_, err := e.events.Next(ctx)
	return err
}

// Dead returns why the queue is of no use any more.
func (e *engine) Dead() error { return e.dead }

// Spin returns how long to poll before a sleep.
func (e *engine) Spin() time.Duration { return e.dev.Spin() }

// Fail ends all connections.
func (e *engine) Fail(err error) { e.fail(err) }
