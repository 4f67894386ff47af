package rdmanet

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// The sizes of a connection's queues.
const (
	dataSlots    = 120 // messages of data that were posted and not acknowledged
	controlSlots = 4   // messages of credit and keep-alives, as rsockets have it
	lastSlots    = 2   // SHUTDOWN and DISCONNECT

	credits      = 240 // messages of data that the peer may send before we read
	spareRecvs   = 15  // receives for messages that need no credit
	maxInline    = 64
	maxTransfer  = 128 << 10 // bytes of a message
	smallCopy    = 4 << 10   // up to which copying holds the connection's lock
	kickInterval = time.Millisecond

	// peerPatience is how long the answer to a question over iWARP may take: about as
	// long as RoCE repeats a keep-alive.
	peerPatience = 14 * time.Second
)

// A link is what connects a connection's queue pair: package rdmacm, but for
// tests.
type link interface {
	// Err is why the connection has ended, nil while it stands.
	Err() error
	// Done is closed when it has.
	Done() <-chan struct{}
	// Disconnect moves the queue pair to ERR and tells the peer.
	Disconnect() error
	// Close gives the queue pair up.
	Close() error
}

// A Conn is a connection: a net.Conn. Its methods may be called from any
// goroutine.
type Conn struct {
	local, remote net.Addr

	link   link
	pd     *verbs.PD
	qp     *verbs.QP
	cq     *verbs.CQ
	events *verbs.CompChannel
	store  *storage
	spin   time.Duration
	busy   *spinner

	r, w, x side // who reads, who writes, who closes

	// users are the calls that use the connection's objects, and one for its
	// being open; when they are gone the last closes idle.
	users atomic.Int64
	idle  chan struct{}

	mu       sync.Mutex // what follows, polling and posting
	closed   bool
	linger   time.Duration
	err      error // why the connection failed
	noRead   bool  // CloseRead
	noWrite  bool  // CloseWrite
	life     rsocket.Life
	tx       rsocket.Sender
	rx       *rsocket.Receiver
	out      *rsocket.SendBuffer
	peer     rsocket.Remote
	maps     mappings
	posted   int   // messages of data
	lost     bool  // some were not acknowledged when the connection failed
	controls int   // other messages
	lasts    int   // of them those of lastSlots
	recvs    int   // receives to post again
	leader   *side // who waits on the completion queue, for all
	stale    bool  // an event may wait in the channel that nobody waits for
	pins     int   // foreign calls that use the memory
	freed    bool  // the memory must go when no pin is left
	keep     time.Duration
	alive    *time.Timer // sends keep-alives
	kick     *time.Timer // tries again to tell the peer what is due

	sends    bool   // messages are sent, see message.go
	peerHalf uint32 // how long the peer's targets are

	wcs    [16]verbs.WC
	wr     [2]verbs.SendWR
	sge    [1]verbs.SGE
	small  [rsocket.IomapLen]byte
	word   [rsocket.MessageLen]byte
	empty  []verbs.RecvWR // all receives
	repost int            // the one of them that is posted next
}

// side is one direction of a connection, or its closing.
type side struct {
	turn     sync.Mutex // one call at a time
	deadline deadline
	wake     chan struct{}
	waiting  bool // under Conn.mu
	want     want // under Conn.mu: of a writer
}

func (s *side) init() {
	s.deadline.init()
	s.wake = make(chan struct{}, 1)
}

func (s *side) tell() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// newConn makes all of a connection but its queue pair.
func newConn(dev *verbs.Device, o *Options) (c *Conn, err error) {
	half, send := o.sizes()
	c = &Conn{
		spin: o.spin(), linger: o.linger(), keep: o.keepAlive(), idle: make(chan struct{}), sends: dev.Protocol() == verbs.IWARP,
		rx: rsocket.NewReceiver(half, credits), out: rsocket.NewSendBuffer(send, spans),
	}
	for _, s := range []*side{&c.r, &c.w, &c.x} {
		s.init()
	}
	c.users.Store(1)
	if c.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	if c.store, err = newStorage(c.pd, 2*half, send, o.iomaps(), c.words()); err != nil {
		return nil, errors.Join(err, c.pd.Dealloc())
	}
	c.empty = c.receives()
	if c.events, err = dev.CreateCompChannel(); err != nil {
		return nil, errors.Join(err, c.discard())
	}
	if c.cq, err = dev.CreateCQ(verbs.CQConfig{Depth: c.qpConfig().MaxSend + c.qpConfig().MaxRecv, Channel: c.events}); err != nil {
		return nil, errors.Join(err, c.discard())
	}
	c.busy = holdSpinner(dev)
	c.maps.init(o.iomaps())
	return c, nil
}

// spans is how many pieces of the send buffer are in use at most: one for each
// message and some that are being filled.
const spans = 128

// discard gives up what newConn made; the queue pair must be gone.
func (c *Conn) discard() error {
	errs := []error{c.store.deregister()}
	if c.cq != nil {
		errs = append(errs, c.cq.Destroy())
	}
	if c.events != nil {
		errs = append(errs, c.events.Destroy())
	}
	if c.busy != nil {
		c.busy.release()
	}
	return errors.Join(append(errs, c.pd.Dealloc(), c.store.mem.Free())...)
}

// qpConfig is what the queue pair must be made of.
func (c *Conn) qpConfig() verbs.QPConfig {
	slots := dataSlots + controlSlots + lastSlots
	q := verbs.QPConfig{
		Type: verbs.RC, SendCQ: c.cq, RecvCQ: c.cq, SignalAll: true,
		MaxSend: slots, MaxRecv: receiveCount,
		MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: maxInline,
	}
	if c.sends {
		q.MaxSend *= 2
		// A keep-alive is done when TCP has it, so the device asks the peer's.
		if c.keep > 0 {
			q.PeerProbe, q.PeerTimeout = c.keep, c.keep+peerPatience
		}
	}
	return q
}

// connData is what the peer must know.
func (c *Conn) connData() []byte {
	d := rsocket.ConnData{
		Flags: rsocket.FlagIomap, Credits: credits, IomapSize: c.maps.announced,
		Target: rsocket.SGE{Addr: c.store.tableMR.Addr(), Key: c.store.tableMR.RKey(), Length: rsocket.TargetEntries},
		Data:   rsocket.SGE{Addr: c.store.recvMR.Addr(), Key: c.store.recvMR.RKey(), Length: uint32(len(c.store.recv) / 2)},
	}
	b := make([]byte, rsocket.ConnDataLen)
	d.Put(b)
	return b
}

// attach gives the connection its queue pair, in INIT or later, and posts its
// receives.
func (c *Conn) attach(qp *verbs.QP) error {
	c.qp = qp
	return qp.PostRecv(c.empty...)
}

// start starts the connection: the queue pair is in RTS.
func (c *Conn) start(peer *rsocket.ConnData, l link, local, remote net.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link, c.local, c.remote = l, local, remote
	c.tx.Start(peer)
	c.peerHalf = peer.Data.Length
	c.peer.Start(peer)
	c.update()
	c.keepAlive(c.keep)
}

// begin counts a call that uses the connection's objects. It fails when they
// are going away.
func (c *Conn) begin() bool {
	for {
		n := c.users.Load()
		if n == 0 {
			return false
		}
		if c.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// end ends begin.
func (c *Conn) end() {
	if c.users.Add(-1) == 0 {
		close(c.idle)
	}
}

// LocalAddr is the local address and port: a *net.TCPAddr.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the peer's address and port: a *net.TCPAddr.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadline(t, &c.r, &c.w) }

// SetReadDeadline sets until when Read and WriteTo wait; zero means no limit.
// It counts for calls that wait already. They fail with an error that is
// os.ErrDeadlineExceeded.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(t, &c.r) }

// SetWriteDeadline sets until when Write and ReadFrom wait; zero means no
// limit. A Write that it ends may have written some of its data.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(t, &c.w) }

func (c *Conn) setDeadline(t time.Time, sides ...*side) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", net.ErrClosed)
	}
	for _, s := range sides {
		s.deadline.set(t)
	}
	return nil
}

// opError makes an error of this connection's.
func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "rdma", Source: c.local, Addr: c.remote, Err: err}
}

// errPipe is what writing meets where nobody reads.
var errPipe error = syscall.EPIPE
