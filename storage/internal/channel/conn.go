package channel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"softrdma/rdmacm"
	"softrdma/storage/internal/buffers"
	"softrdma/verbs"
)

// ErrClosed says that this side has closed the connection.
var ErrClosed = errors.New("connection closed")

// A Config configures a connection. All numbers are required.
type Config struct {
	Receives    int           // receives that are posted
	ReceiveSize int           // bytes of each
	Sends       int           // depth of the send queue
	Memory      int           // bytes of buffers that may be in use at a time
	PeerTimeout time.Duration // as in verbs.QPConfig
}

// A Message is a message of the peer. Data is the caller's until Release.
type Message struct {
	Data        []byte
	Invalidated uint32 // the key that the message has invalidated, 0 if none
	slot        int
}

// A Conn is a connection.
type Conn struct {
	cfg  Config
	conn *rdmacm.Conn
	pd   *verbs.PD
	cq   *verbs.CQ
	qp   *verbs.QP

	receives *verbs.MR
	arrived  chan Message
	sends    *buffers.Budget
	memory   *buffers.Budget // of the pool
	pool     *buffers.Pool

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]*waiter
	err     error         // why the connection ends
	failed  chan struct{} // closed with err
	flushed chan struct{} // closed when nothing is posted any more
	stop    context.CancelFunc
	posted  int // receives
}

// A waiter waits for the last of some requests.
type waiter struct {
	err  error
	done chan error
}

// Work request ids: receives have the high bit and the number of their slot, the others the number of
// their waiter, doubled, and 1 for the last of its requests.
const receiveID = 1 << 63

// An end is a side that is not connected yet.
type end interface {
	Device() *verbs.Device
	CreateQP(pd *verbs.PD, cfg verbs.QPConfig) (*verbs.QP, error)
}

// Accept accepts a peer's request. Its receives are posted before the peer can send.
func Accept(ctx context.Context, r *rdmacm.Request, cfg Config, p rdmacm.ConnParam) (*Conn, error) {
	c, err := prepare(r, cfg)
	if err != nil {
		return nil, errors.Join(err, r.Reject(nil))
	}
	conn, err := r.Accept(ctx, p)
	return c.start(conn, err)
}

// Connect connects an endpoint.
func Connect(ctx context.Context, e *rdmacm.Endpoint, cfg Config, p rdmacm.ConnParam) (*Conn, error) {
	c, err := prepare(e, cfg)
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	conn, err := e.Connect(ctx, p)
	if err != nil {
		err = errors.Join(err, e.Close())
	}
	return c.start(conn, err)
}

// prepare makes the objects of a connection and posts its receives.
func prepare(e end, cfg Config) (c *Conn, err error) {
	c = &Conn{
		cfg: cfg, arrived: make(chan Message, cfg.Receives), sends: buffers.NewBudget(cfg.Sends), memory: buffers.NewBudget(cfg.Memory), waiting: make(map[uint64]*waiter),
		failed: make(chan struct{}), flushed: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.release())
		}
	}()
	dev := e.Device()
	if c.pd, err = dev.AllocPD(); err != nil {
		return c, err
	}
	c.pool = buffers.NewPool(c.pd, cfg.Memory)
	if c.cq, err = dev.CreateCQ(verbs.CQConfig{Depth: cfg.Receives + cfg.Sends + 1}); err != nil {
		return c, err
	}
	if c.receives, err = c.pd.RegisterMemory(make([]byte, cfg.Receives*cfg.ReceiveSize), verbs.LocalWrite); err != nil {
		return c, err
	}
	c.qp, err = e.CreateQP(c.pd, verbs.QPConfig{
		Type: verbs.RC, SendCQ: c.cq, MaxSend: cfg.Sends, MaxRecv: cfg.Receives, MaxSendSGE: 2, MaxRecvSGE: 1, PeerTimeout: cfg.PeerTimeout,
	})
	if err != nil {
		return c, err
	}
	for i := range cfg.Receives {
		if err = c.post(i); err != nil {
			return c, err
		}
	}
	return c, nil
}

// start begins to take completions, once the connection is established.
func (c *Conn) start(conn *rdmacm.Conn, err error) (*Conn, error) {
	if err != nil {
		return nil, errors.Join(err, c.release())
	}
	c.conn = conn
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.complete(ctx)
	go func() {
		select {
		case <-conn.Done():
			c.fail(conn.Err())
		case <-c.failed:
		}
	}()
	return c, nil
}

// release destroys what prepare made, except the queue pair, which is that of the request, endpoint or
// connection.
func (c *Conn) release() (err error) {
	if c.receives != nil {
		err = errors.Join(err, c.receives.Deregister())
	}
	if c.pool != nil {
		err = errors.Join(err, c.pool.Close())
	}
	if c.cq != nil {
		err = errors.Join(err, c.cq.Destroy())
	}
	if c.pd != nil {
		err = errors.Join(err, c.pd.Dealloc())
	}
	return err
}

// post posts the receive of a slot. It counts it before, because the completion may come at once.
func (c *Conn) post(slot int) error {
	c.count(1)
	err := c.qp.PostRecv(verbs.RecvWR{
		WRID: receiveID | uint64(slot), SGL: []verbs.SGE{c.receives.SGE(slot*c.cfg.ReceiveSize, c.cfg.ReceiveSize)},
	})
	if err != nil {
		c.count(-1)
	}
	return err
}

// count counts receives that are posted, or that are not.
func (c *Conn) count(n int) {
	c.mu.Lock()
	c.posted += n
	c.mu.Unlock()
	c.settle()
}

// withdraw removes a waiter whose requests could not be posted.
func (c *Conn) withdraw(id uint64) {
	c.mu.Lock()
	delete(c.waiting, id)
	c.mu.Unlock()
	c.settle()
}

// settle ends the wait for completions if the connection has failed and none can come.
func (c *Conn) settle() {
	if c.idle() {
		c.stop()
	}
}

// complete takes completions until nothing is posted any more.
func (c *Conn) complete(ctx context.Context) {
	defer close(c.flushed)
	defer close(c.arrived)
	wcs := make([]verbs.WC, 64)
	for {
		n, err := c.cq.Poll(wcs)
		if n == 0 && err == nil {
			err = c.cq.Wait(ctx)
		}
		for _, wc := range wcs[:n] {
			c.completed(&wc)
		}
		if err != nil {
			c.fail(err)
			c.abandon(err)
			return
		}
		if c.idle() {
			return
		}
	}
}

// completed handles a completion.
func (c *Conn) completed(wc *verbs.WC) {
	err := wc.Err()
	if err != nil {
		c.fail(c.ended(err))
	}
	if wc.WRID&receiveID != 0 {
		c.mu.Lock()
		c.posted--
		c.mu.Unlock()
		if slot := int(wc.WRID &^ receiveID); err == nil {
			from := slot * c.cfg.ReceiveSize
			m := Message{Data: c.receives.Bytes()[from : from+int(wc.ByteLen)], slot: slot}
			if wc.Flags&verbs.WCWithInv != 0 {
				m.Invalidated = wc.InvalidatedKey
			}
			c.arrived <- m
		}
		return
	}
	c.mu.Lock()
	w := c.waiting[wc.WRID>>1]
	if wc.WRID&1 != 0 {
		delete(c.waiting, wc.WRID>>1)
	}
	c.mu.Unlock()
	if w == nil {
		return // of a post that failed in part
	}
	if w.err == nil {
		w.err = err
	}
	if wc.WRID&1 != 0 {
		w.done <- w.err
	}
}

// ended returns why the connection has ended, of which a failed completion is the first sign. A request that was
// flushed because a side disconnected only says so, and the connection knows which side. The end of a stream of
// iWARP flushes requests before the connection's event arrives.
func (c *Conn) ended(err error) error {
	var failed *verbs.CompletionError
	if errors.As(err, &failed) && failed.Status == verbs.WRFlushErr && (failed.Cause() == "" || failed.Cause() == "STREAM_CLOSED") {
		select {
		case <-c.conn.Done():
			return c.conn.Err()
		case <-c.failed:
		case <-time.After(time.Second):
		}
	}
	return fmt.Errorf("connection failed: %w", err)
}

// idle reports whether the connection has failed and nothing is posted.
func (c *Conn) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil && c.posted == 0 && len(c.waiting) == 0
}

// abandon ends the waits for requests whose completions will not come, because the device is closed.
func (c *Conn) abandon(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, w := range c.waiting {
		delete(c.waiting, id)
		w.done <- err
	}
}

// fail ends the connection with an error, once. The queue pair then flushes what is posted.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	close(c.failed)
	c.mu.Unlock()
	c.settle()
	_ = c.conn.Disconnect() // the peer may have done so already
}

// Receive returns the next message, or why the connection ended.
func (c *Conn) Receive() (Message, error) {
	m, ok := <-c.arrived
	if !ok {
		return m, c.Err()
	}
	return m, nil
}

// Release posts the receive of a message again.
func (c *Conn) Release(m Message) {
	if c.Err() != nil {
		return
	}
	if err := c.post(m.slot); err != nil {
		c.fail(err)
	}
}

// Do posts requests and waits until they have completed. Flags and ids are set here. There may be as
// many as the send queue is deep.
func (c *Conn) Do(wrs ...verbs.SendWR) error {
	if len(wrs) == 0 {
		return nil
	}
	if !c.sends.Take(len(wrs), c.failed) {
		return c.Err()
	}
	defer c.sends.Release(len(wrs))
	w := &waiter{done: make(chan error, 1)}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return c.err
	}
	id := c.next
	c.next++
	c.waiting[id&(1<<62-1)] = w
	c.mu.Unlock()
	for i := range wrs {
		wrs[i].WRID = id << 1
	}
	last := &wrs[len(wrs)-1]
	last.WRID |= 1
	last.Flags |= verbs.Signaled
	if err := c.qp.PostSend(wrs...); err != nil {
		c.fail(err)
		c.withdraw(id)
		return err
	}
	return <-w.done
}

// Err returns nil until the connection has ended, and then why.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Done returns a channel that is closed when the connection has ended. Err then returns why.
func (c *Conn) Done() <-chan struct{} { return c.failed }

// Fail ends the connection with an error.
func (c *Conn) Fail(err error) { c.fail(err) }

// RemoteAddr returns the peer's address and port.
func (c *Conn) RemoteAddr() netip.AddrPort { return c.conn.RemoteAddr() }

// PrivateData returns the private data of the peer.
func (c *Conn) PrivateData() []byte { return c.conn.PrivateData() }

// PD returns the protection domain, for memory of the caller's own. It must be deregistered before Close.
func (c *Conn) PD() *verbs.PD { return c.pd }

// Close ends the connection and waits until the device uses none of its memory. No caller may use
// messages or buffers any more.
func (c *Conn) Close() error {
	c.fail(ErrClosed)
	<-c.flushed
	c.stop()
	return errors.Join(c.conn.Close(), c.release())
}
