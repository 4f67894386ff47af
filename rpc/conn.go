package rpc

import (
	"slices"
	"time"

	"softrdma/internal/session"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

const (
	notes     = 16  // control frames in flight
	noteSize  = 256 // bytes of a control frame
	maxReads  = 16  // READs in flight
	spareRecv = 32  // receives beyond those that calls may hold
)

// The kind of a work request, in the upper bits of its number. The connection and an index
// follow.
const (
	workFrame   = iota // the frame of a slot
	workNote           // a control frame
	workReceive        // a receive
	workRead           // a READ
)

// An owner is a session of a client or of a server. The engine's lock is held in all calls.
type owner interface {
	// arrive takes a frame. It returns true to keep the receive until conn.release.
	arrive(c *conn, h *session.Header, body []byte, at int) (keep bool, err error)
	// sent tells that the frame of a slot was sent, or will never be.
	sent(c *conn, slot int)
	// fetched tells that the READ of a slot has ended.
	fetched(c *conn, slot int, err error)
	// far returns the memory of the body that the frame of a slot announces, nil if the body is in it.
	far(slot int) *Buffer
	// broken tells that the connection has ended and uses no memory any more.
	broken(c *conn)
}

// A conn carries frames to and from one peer. The engine's lock guards it.
type conn struct {
	e      *engine
	owner  owner
	number uint32
	room   int
	domain *domain
	rail   *rail
	path   *path     // of a client
	region *verbs.MR // of out
	cm     *rdmacm.Conn
	qp     *verbs.QP
	flow   session.Flow

	out     *frames // of the owner's slots
	in      frames  // receives
	note    frames  // control frames
	free    []int   // of note
	pending [][]byte
	queue   []outgoing // slots' frames that wait for credit
	posted  []bool     // slots whose frame is in flight here
	reads   [maxReads]int
	reading int
	wants   []fetch // READs that wait for room
	held    int     // receives that calls keep
	dirty   bool

	started bool
	early   []verbs.WC // completions before start
	err     error      // why the connection has failed
	gone    bool       // the queue pair is destroyed

	sge    [1]verbs.SGE
	header session.Header // of the frame that arrives
}

type outgoing struct{ slot, n int }

// A fetch is a READ of a body.
type fetch struct {
	slot    int
	buffer  *Buffer
	address uint64
	key     uint32
}

// connConfig is what a connection is made of.
type connConfig struct {
	owner    owner
	domain   *domain
	rail     *rail
	path     *path
	out      *frames
	slots    int
	frame    int // bytes that this side accepts
	receives int
	timeout  time.Duration // see verbs.QPConfig.PeerTimeout
}

// newConn makes a connection with its receives posted. After an error the caller discards what
// there is of it.
func (e *engine) newConn(cfg *connConfig, create func(*verbs.PD, verbs.QPConfig) (*verbs.QP, error)) (c *conn, err error) {
	c = &conn{e: e, owner: cfg.owner, domain: cfg.domain, rail: cfg.rail, path: cfg.path, out: cfg.out, posted: make([]bool, cfg.slots)}
	for i := range c.reads {
		c.reads[i] = -1
	}
	sends := cfg.slots + notes + maxReads
	if err = e.reserve(c, sends+cfg.receives); err != nil {
		return c, err
	}
	if c.in, err = c.domain.frames(cfg.receives, cfg.frame, verbs.LocalWrite, c.rail); err != nil {
		return c, err
	}
	if c.note, err = c.domain.frames(notes, noteSize, 0, c.rail); err != nil {
		return c, err
	}
	for i := range notes {
		c.free = append(c.free, i)
	}
	pd, err := c.domain.pd(c.rail)
	if err != nil {
		return c, err
	}
	c.qp, err = create(pd, verbs.QPConfig{
		Type: verbs.RC, SendCQ: c.rail.cq, MaxSend: sends, MaxRecv: cfg.receives, MaxSendSGE: 1, MaxRecvSGE: 1,
		PeerTimeout: cfg.timeout, SignalAll: true,
	})
	if err != nil {
		return c, err
	}
	for i := range cfg.receives {
		if err := c.receive(i); err != nil {
			return c, err
		}
	}
	return c, nil
}

// id returns the number of a work request.
func (c *conn) id(kind, i int) uint64 { return uint64(kind)<<48 | uint64(c.number)<<16 | uint64(i) }

// entry returns a list of one entry, which is valid until the next call.
func (c *conn) entry(e verbs.SGE) []verbs.SGE {
	c.sge[0] = e
	return c.sge[:]
}

func (c *conn) receive(i int) error {
	return c.qp.PostRecv(verbs.RecvWR{WRID: c.id(workReceive, i), SGL: c.entry(c.in.entry(c.in.regions[0].MR, i, c.in.size))})
}

// start begins to serve the connection, which is established.
func (c *conn) start(cm *rdmacm.Conn, own, peer int) {
	c.cm, c.flow, c.started = cm, session.NewFlow(own, peer), true
	region, err := c.out.on(c.rail)
	if c.region = region; c.err == nil && err != nil {
		c.err = err
	}
	if c.err != nil { // the device has closed meanwhile
		c.e.ending.Add(1)
		go c.end()
		return
	}
	for i := range c.early {
		c.complete(&c.early[i])
	}
	c.early = nil
	c.e.flush()
	c.e.ending.Add(1)
	go c.watch(cm)
}

// watch notices that the peer has disconnected.
func (c *conn) watch(cm *rdmacm.Conn) {
	defer c.e.ending.Done()
	<-cm.Done()
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	c.e.progress() // takes what arrived before the end
	c.fail(cm.Err())
}

// complete takes a completion.
func (c *conn) complete(wc *verbs.WC) {
	if !c.started {
		c.early = append(c.early, *wc)
		return
	}
	i := int(uint16(wc.WRID))
	kind := wc.WRID >> 48
	switch {
	case kind == workReceive && wc.Status == verbs.Success && c.err == nil:
		c.arrived(i, int(wc.ByteLen))
	case kind == workFrame:
		c.posted[i] = false
		c.owner.sent(c, i)
	case kind == workNote:
		c.free = append(c.free, i)
		if len(c.pending) > 0 {
			c.mark()
		}
	case kind == workRead:
		slot := c.reads[i]
		c.reads[i] = -1
		c.reading--
		if len(c.wants) > 0 {
			c.mark()
		}
		c.owner.fetched(c, slot, wc.Err())
	}
	if wc.Status != verbs.Success {
		err := wc.Err()
		if cause := c.cm.Err(); cause != nil {
			err = cause // names why work was flushed
		}
		c.fail(err)
	}
}

// arrived takes a frame.
func (c *conn) arrived(i, n int) {
	h := &c.header
	var body []byte
	var err error
	if *h, body, err = session.Parse(c.in.bytes(i)[:n]); err == nil {
		err = c.flow.Learn(h.Consumed)
	}
	keep := false
	if err == nil {
		if len(c.queue) > 0 || len(c.pending) > 0 {
			c.mark()
		}
		keep, err = c.owner.arrive(c, h, body, i)
	}
	switch {
	case err != nil:
		c.fail(err)
	case keep:
		c.held++
	default:
		c.repost(i)
	}
}

// release gives back a receive that arrive kept.
func (c *conn) release(i int) {
	c.held--
	if c.gone && c.held == 0 {
		c.in.free()
	}
	if c.err == nil {
		c.repost(i)
	}
}

func (c *conn) repost(i int) {
	if err := c.receive(i); err != nil {
		c.fail(err)
		return
	}
	c.flow.Consume()
	if c.flow.Owes() {
		c.mark()
	}
}

// mark makes flush call push.
func (c *conn) mark() {
	if !c.dirty {
		c.dirty = true
		c.e.dirty = append(c.e.dirty, c)
	}
}

// send sends the frame of n bytes in a slot, now or when the peer has a receive for it. The
// connection has not failed, and no frame of the slot is in flight on it.
func (c *conn) send(slot, n int) {
	c.posted[slot] = true
	if len(c.queue) > 0 || !c.flow.Ready() {
		c.queue = append(c.queue, outgoing{slot, n})
		return
	}
	c.post(slot, n)
}

func (c *conn) post(slot, n int) {
	frame := c.out.bytes(slot)
	session.PutConsumed(frame, c.flow.Send())
	var err error
	if b := c.owner.far(slot); b != nil {
		var r *verbs.MR
		if r, err = b.span.on(c.rail); err == nil {
			session.PutFar(frame, r.Addr(), r.RKey())
		}
	}
	if err == nil {
		err = c.qp.PostSend(verbs.SendWR{WRID: c.id(workFrame, slot), Op: verbs.OpSend, SGL: c.entry(c.out.entry(c.region, slot, n))})
	}
	if err != nil {
		c.fail(err)
	}
}

// tell sends a control frame.
func (c *conn) tell(h session.Header, body []byte) {
	if c.err != nil {
		return
	}
	h.Length = uint64(len(body))
	if len(c.pending) == 0 && len(c.free) > 0 && c.flow.Ready() {
		c.postNote(&h, body)
		return
	}
	b := make([]byte, session.HeaderLen, session.HeaderLen+len(body))
	h.Put(b)
	c.pending = append(c.pending, append(b, body...))
	c.mark()
}

func (c *conn) postNote(h *session.Header, body []byte) {
	i := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	b := c.note.bytes(i)
	h.Consumed = c.flow.Send()
	h.Put(b)
	n := session.HeaderLen + copy(b[session.HeaderLen:], body)
	err := c.qp.PostSend(verbs.SendWR{WRID: c.id(workNote, i), Op: verbs.OpSend, SGL: c.entry(c.note.entry(c.note.regions[0].MR, i, n))})
	if err != nil {
		c.fail(err)
	}
}

// read reads a body into a buffer. The owner learns by fetched.
func (c *conn) read(f fetch) {
	if c.err == nil && c.reading < maxReads {
		c.postRead(&f)
		return
	}
	c.wants = append(c.wants, f)
}

func (c *conn) postRead(f *fetch) {
	i := slices.Index(c.reads[:], -1)
	c.reads[i] = f.slot
	c.reading++
	r, err := f.buffer.span.on(c.rail)
	if err == nil {
		err = c.qp.PostSend(verbs.SendWR{WRID: c.id(workRead, i), Op: verbs.OpRead,
			SGL: c.entry(r.SGE(0, f.buffer.n)), RemoteAddr: f.address, RKey: f.key})
	}
	if err != nil {
		c.fail(err)
	}
}

// push sends what can be sent now.
func (c *conn) push() {
	c.dirty = false
	for c.err == nil && len(c.queue) > 0 && c.flow.Ready() {
		c.post(c.queue[0].slot, c.queue[0].n)
		c.queue = slices.Delete(c.queue, 0, 1)
	}
	for c.err == nil && len(c.pending) > 0 && len(c.free) > 0 && c.flow.Ready() {
		h, body, _ := session.Parse(c.pending[0]) // tell made it
		c.postNote(&h, body)
		c.pending = slices.Delete(c.pending, 0, 1)
	}
	for c.err == nil && len(c.wants) > 0 && c.reading < maxReads {
		c.postRead(&c.wants[0])
		c.wants = slices.Delete(c.wants, 0, 1)
	}
	if c.err == nil && c.flow.Owes() && len(c.free) > 0 {
		c.postNote(&session.Header{Kind: session.Credit}, nil)
	}
}
