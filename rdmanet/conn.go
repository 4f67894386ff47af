package rdmanet

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// The sizes of a connection's queues.
const (
	dataSlots    = 120 // data messages that are posted and not acknowledged
	controlSlots = 4   // credit messages and keep-alives, as in rsockets
	lastSlots    = 2   // SHUTDOWN and DISCONNECT

	credits       = 240 // data messages that the peer may send before this side reads
	spareRecvs    = 15  // receives for messages without credit
	maxInline     = 64
	maxTransfer   = 128 << 10 // largest message in bytes
	smallCopy     = 4 << 10   // up to this size copying holds the connection's lock
	retryInterval = time.Millisecond

	// probeAnswerTimeout is how long the peer's device may take to answer a probe
	// over iWARP: about as long as RoCE repeats a keep-alive.
	probeAnswerTimeout = 14 * time.Second
)

// A link is the connection of a queue pair. It comes from package rdmacm; tests
// have their own.
type link interface {
	// Err returns why the connection has ended, nil while it is established.
	Err() error
	// Done returns a channel that is closed when the connection has ended.
	Done() <-chan struct{}
	// Disconnect moves the queue pair to ERR and tells the peer.
	Disconnect() error
	// Close destroys the queue pair.
	Close() error
}

// A Conn is a connection. It implements net.Conn, and its methods may be called
// from any goroutine.
type Conn struct {
	local, remote net.Addr
	endpoint
}

// An endpoint is this end of the protocol: it moves messages between the queue pair and the buffers,
// and says what may continue. It never waits. Conn adds the calls of programs, and how they wait.
type endpoint struct {
	link link
	objects

	r, w, x side // reading, writing and closing

	users // written by each call: apart from the objects, which are only read

	mu      sync.Mutex // protects the fields below, polling and posting
	closed  bool
	linger  time.Duration
	err     error // why the connection failed
	noRead  bool  // set by CloseRead
	noWrite bool  // set by CloseWrite
	life    rsocket.Life
	tx      rsocket.Sender
	rx      *rsocket.Receiver
	out     *ring
	peer    rsocket.Remote
	maps    mappings
	inFlight
	leader *side // the side that waits on the completion queue for all sides
	stale  bool  // the channel may hold an old event
	pins   int   // foreign readers and writers that use the memory
	freed  bool  // free the memory when pins becomes 0
	timers
	growth
	dialect
	scratch
}

// objects are what a connection has of its device.
type objects struct {
	pd     *verbs.PD
	qp     *verbs.QP
	cq     *verbs.CQ
	events *verbs.CompChannel
	store  *storage
	spin   time.Duration
	busy   *spinner
}

// users counts the calls that use the connection's objects, plus one while it is open. The last
// one closes idle.
type users struct {
	count atomic.Int64
	idle  chan struct{}
}

// inFlight is what the queue pair has to do.
type inFlight struct {
	posted   int  // data messages
	lost     bool // the connection failed with data that was not acknowledged
	controls int  // credit messages and keep-alives
	lasts    int  // SHUTDOWN, DISCONNECT and the READ before them
	recvs    int  // receives to repost
}

// timers act while the program makes no calls.
type timers struct {
	keep  time.Duration // the period of keep-alives
	alive *time.Timer   // sends keep-alives
	retry *time.Timer   // retries a credit message that could not be posted
}

// A dialect is how the messages of both ends travel.
type dialect struct {
	sends    bool   // messages are SENDs, see message.go
	proves   bool   // a READ can prove that the peer's device has what was written; see proof.go
	unproven bool   // it has not yet
	skips    bool   // the peer understands that a part of its targets is skipped
	peerHalf uint32 // length of each of the peer's targets
}

// scratch is memory for calls of the queue pair.
type scratch struct {
	wcs    [16]verbs.WC
	wr     [2]verbs.SendWR
	sge    [1]verbs.SGE
	small  [rsocket.IomapLen]byte
	word   [rsocket.MessageLen]byte
	empty  []verbs.RecvWR // all receives
	repost int            // index of the receive to post next
}

// side is one direction of a connection, or its closing.
type side struct {
	turn     sync.Mutex // one call at a time
	deadline deadline
	wake     chan struct{}
	waiting  bool // under endpoint.mu
	want     want // under endpoint.mu: of a writer
}

func (s *side) init() {
	s.deadline.init()
	s.wake = make(chan struct{}, 1)
}

func (s *side) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// newConn makes a connection without its queue pair.
func newConn(dev *verbs.Device, o *Options) (c *Conn, err error) {
	half, send := o.sizes()
	c = &Conn{endpoint: endpoint{
		objects: objects{spin: o.spin()}, users: users{idle: make(chan struct{})}, linger: o.linger(),
		timers: timers{keep: o.keepAlive()}, dialect: dialect{sends: dev.Protocol() == verbs.IWARP},
		rx: rsocket.NewReceiver(half, credits), growth: growth{fixedRead: o.ReadBuffer != 0, fixedWrite: o.WriteBuffer != 0},
	}}
	for _, s := range []*side{&c.r, &c.w, &c.x} {
		s.init()
	}
	c.users.count.Store(1)
	if c.pd, err = dev.AllocPD(); err != nil {
		return nil, err
	}
	if c.store, err = newStorage(c.pd, 2*half, send, o.iomaps(), c.words()); err != nil {
		return nil, errors.Join(err, c.pd.Dealloc())
	}
	c.out = &ring{rsocket.NewSendBuffer(send, spans), &c.store.sendArea}
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

// spans returns the largest number of pieces of the send buffer in use: one for
// each message and a few being filled.
const spans = 128

// discard frees what newConn made. The queue pair must be destroyed before.
func (o *objects) discard() error {
	errs := []error{o.store.deregister()}
	if o.cq != nil {
		errs = append(errs, o.cq.Destroy())
	}
	if o.events != nil {
		errs = append(errs, o.events.Destroy())
	}
	if o.busy != nil {
		o.busy.release()
	}
	return errors.Join(append(errs, o.pd.Dealloc(), o.store.free())...)
}

// qpConfig returns the configuration of the connection's queue pair.
func (e *endpoint) qpConfig() verbs.QPConfig {
	slots := dataSlots + controlSlots + lastSlots
	q := verbs.QPConfig{
		Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq, SignalAll: true,
		MaxSend: slots, MaxRecv: receiveCount,
		MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: maxInline,
	}
	if e.sends {
		q.MaxSend *= 2
		// A keep-alive completes when TCP has taken it, so the device probes the peer's device.
		if e.keep > 0 {
			q.PeerProbe, q.PeerTimeout = e.keep, e.keep+probeAnswerTimeout
		}
	}
	return q
}

// connData returns the connection data for the peer.
func (e *endpoint) connData() []byte {
	d := rsocket.ConnData{
		Flags: rsocket.FlagIomap | rsocket.FlagSkip, Credits: credits, IomapSize: e.maps.announced,
		Target: rsocket.SGE{Addr: e.store.tableMR.Addr(), Key: e.store.tableMR.RKey(), Length: rsocket.TargetEntries},
		Data:   rsocket.SGE{Addr: e.store.recvMR.Addr(), Key: e.store.recvMR.RKey(), Length: uint32(e.store.half())},
	}
	if e.sends {
		d.Flags |= rsocket.FlagProof | rsocket.FlagSizes
	}
	b := make([]byte, rsocket.ConnDataLen)
	d.Put(b)
	return b
}

// attach sets the connection's queue pair, which is in INIT or later, and posts its
// receives.
func (e *endpoint) attach(qp *verbs.QP) error {
	e.qp = qp
	return qp.PostRecv(e.empty...)
}

// start starts the connection: the queue pair is in RTS.
func (c *Conn) start(peer *rsocket.ConnData, l link, local, remote net.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link, c.local, c.remote = l, local, remote
	c.tx.Start(peer)
	c.peerHalf = peer.Data.Length
	c.peer.Start(peer)
	c.fixedRead = c.fixedRead || c.sends && peer.Flags&rsocket.FlagSizes == 0
	c.skips = peer.Flags&rsocket.FlagSkip != 0
	c.proves = c.sends && peer.Flags&rsocket.FlagProof != 0 && c.qp.Query().MaxRdAtomic > 0
	c.update()
	c.keepAlive(c.keep)
}

// begin counts a call that uses the connection's objects. It fails if they are
// being freed.
func (u *users) begin() bool {
	for {
		n := u.count.Load()
		if n == 0 {
			return false
		}
		if u.count.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// end ends begin.
func (u *users) end() {
	if u.count.Add(-1) == 0 {
		close(u.idle)
	}
}

// LocalAddr returns the local address and port, a *net.TCPAddr.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the peer's address and port, a *net.TCPAddr.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Path returns how the connection's packets reach the peer now.
func (c *Conn) Path() verbs.Path { return c.qp.Path() }

// SetDeadline sets the deadlines of SetReadDeadline and SetWriteDeadline.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadline(t, &c.r, &c.w) }

// SetReadDeadline sets the deadline of Read and WriteTo, including calls that are
// waiting; zero means none. After it they fail with an error that wraps
// os.ErrDeadlineExceeded.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(t, &c.r) }

// SetWriteDeadline sets the deadline of Write and ReadFrom, including calls that
// are waiting; zero means none. A Write that fails because of it may have written a
// part of its data.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(t, &c.w) }

func (c *Conn) setDeadline(t time.Time, sides ...*side) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.opError("set", errClosed)
	}
	for _, s := range sides {
		s.deadline.set(t)
	}
	return nil
}

// opError returns a *net.OpError of this connection.
func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "rdma", Source: c.local, Addr: c.remote, Err: err}
}
