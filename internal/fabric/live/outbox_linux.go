package live

import (
	"sync"
	"sync/atomic"

	"softrdma/internal/fabric/attach"
)

// outboxLen is the number of packets of queue pair 0 that may wait for a program.
const outboxLen = 512

// An outbox sends to a program what the loop has for it. The loop never waits.
type outbox struct {
	conn  *attach.Conn
	mads  chan []byte
	news  chan struct{}
	ended chan struct{}
	once  sync.Once
	queue atomic.Int32 // messages in mads, the one of them that is being sent, and one before open

	mu   sync.Mutex
	last *attach.InfoBody // that was not sent
}

// newOutbox makes an outbox. Its messages wait until open, behind the Welcome.
func newOutbox(c *attach.Conn) *outbox {
	o := &outbox{conn: c, mads: make(chan []byte, outboxLen), news: make(chan struct{}, 1), ended: make(chan struct{})}
	o.queue.Store(1)
	return o
}

// open lets messages leave.
func (o *outbox) open() { o.queue.Add(-1) }

// close ends the connection.
func (o *outbox) close() {
	o.once.Do(func() {
		close(o.ended)
		_ = o.conn.Close()
	})
}

// mad sends a message, and reports whether there was room for it. A program that reads gets it
// at once: to wake a goroutine takes longer than the call.
func (o *outbox) mad(message []byte) bool {
	if o.queue.Load() == 0 && o.conn.TrySend(message) {
		return true
	}
	o.queue.Add(1)
	select {
	case o.mads <- message:
		return true
	default:
		o.queue.Add(-1)
		return false
	}
}

// info sends what the port is now. It replaces an earlier one that was not sent.
func (o *outbox) info(m *attach.InfoBody) {
	o.mu.Lock()
	if o.last != nil {
		m.Reregister = m.Reregister || o.last.Reregister
	}
	o.last = m
	o.mu.Unlock()
	select {
	case o.news <- struct{}{}:
	default:
	}
}

// run sends until the connection ends.
func (o *outbox) run() {
	defer o.close()
	for {
		var message []byte
		var err error
		queued := false
		select {
		case <-o.ended:
			return
		case message = <-o.mads:
			queued = true
		case <-o.news:
			o.mu.Lock()
			m := o.last
			o.last = nil
			o.mu.Unlock()
			if m == nil { // an earlier turn sent it
				continue
			}
			message, err = attach.Protocol.Message(attach.Changed, m)
		}
		if err != nil || o.conn.Send(message) != nil {
			return
		}
		if queued {
			o.queue.Add(-1)
		}
	}
}
