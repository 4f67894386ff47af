package carrier

import (
	"slices"
	"time"

	"softrdma/internal/session"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

const (
	notes         = 16  // control frames in flight
	noteSize      = 256 // bytes of a control frame
	maxReads      = 16  // READs in flight
	SpareReceives = 32  // receives beyond those that calls may hold
)

// The kind of a work request, in the upper bits of its number. The connection and an index
// follow.
const (
	workFrame   = iota // the frame of a slot
	workNote           // a control frame
	workReceive        // a receive
	workRead           // a READ
)

// A Conn carries frames to and from one peer. The engine's lock guards it.
type Conn struct {
	e      *Engine
	owner  Owner
	Number uint32
	Rail   *Rail
	Tag    any          // the owner's
	CM     *rdmacm.Conn // once it is established
	Err    error        // why the connection has failed

	room   int
	domain *Domain
	region *verbs.MR // of out
	qp     *verbs.QP
	flow   session.Flow

	out     *Frames // of the owner's slots
	in      Frames  // receives
	note    Frames  // control frames
	free    []int   // of note
	pending [][]byte
	queue   []outgoing // slots' frames that wait for credit
	posted  []bool     // slots whose frame is in flight here
	reads   [maxReads]int
	reading int
	wants   []Fetch // READs that wait until fewer are in flight
	held    int     // receives that calls keep
	dirty   bool

	started bool
	early   []verbs.WC // completions before Start
	gone    bool       // the queue pair is destroyed

	sge    [1]verbs.SGE
	header session.Header // of the frame that arrives
}

type outgoing struct{ slot, n int }

// A Fetch is a READ of a body of n bytes.
type Fetch struct {
	Slot    int
	To      *Span
	N       int
	Address uint64
	Key     uint32
}

// A ConnConfig is what a connection is made of.
type ConnConfig struct {
	Owner    Owner
	Domain   *Domain
	Rail     *Rail
	Tag      any
	Out      *Frames
	Slots    int
	Frame    int // bytes that this side accepts
	Receives int
	Timeout  time.Duration // see verbs.QPConfig.PeerTimeout
}

// NewConn makes a connection with its receives posted. After an error the caller discards the connection
// that it returns.
func (e *Engine) NewConn(cfg *ConnConfig, create func(*verbs.PD, verbs.QPConfig) (*verbs.QP, error)) (c *Conn, err error) {
	c = &Conn{e: e, owner: cfg.Owner, domain: cfg.Domain, Rail: cfg.Rail, Tag: cfg.Tag, out: cfg.Out, posted: make([]bool, cfg.Slots)}
	for i := range c.reads {
		c.reads[i] = -1
	}
	sends := cfg.Slots + notes + maxReads
	if err = e.reserve(c, sends+cfg.Receives); err != nil {
		return c, err
	}
	if c.in, err = c.domain.Frames(cfg.Receives, cfg.Frame, verbs.LocalWrite, c.Rail); err != nil {
		return c, err
	}
	if c.note, err = c.domain.Frames(notes, noteSize, 0, c.Rail); err != nil {
		return c, err
	}
	for i := range notes {
		c.free = append(c.free, i)
	}
	pd, err := c.domain.pd(c.Rail)
	if err != nil {
		return c, err
	}
	c.qp, err = create(pd, verbs.QPConfig{
		Type: verbs.RC, SendCQ: c.Rail.cq, MaxSend: sends, MaxRecv: cfg.Receives, MaxSendSGE: 1, MaxRecvSGE: 1,
		PeerTimeout: cfg.Timeout, SignalAll: true,
	})
	if err != nil {
		return c, err
	}
	for i := range cfg.Receives {
		if err := c.receive(i); err != nil {
			return c, err
		}
	}
	return c, nil
}

// id returns the number of a work request.
func (c *Conn) id(kind, i int) uint64 { return uint64(kind)<<48 | uint64(c.Number)<<16 | uint64(i) }

// entry returns a list of one entry, which is valid until the next call.
func (c *Conn) entry(e verbs.SGE) []verbs.SGE {
	c.sge[0] = e
	return c.sge[:]
}

func (c *Conn) receive(i int) error {
	return c.qp.PostRecv(verbs.RecvWR{WRID: c.id(workReceive, i), SGL: c.entry(c.in.entry(c.in.regions[0].MR, i, c.in.size))})
}

// Start begins to serve the connection, which was established.
func (c *Conn) Start(cm *rdmacm.Conn, own, peer int) {
	c.CM, c.flow, c.started = cm, session.NewFlow(own, peer), true
	region, err := c.out.On(c.Rail)
	if c.region = region; c.Err == nil && err != nil {
		c.Err = err
	}
	if c.Err != nil { // the device has closed meanwhile
		c.e.Ending.Add(1)
		go c.end()
		return
	}
	for i := range c.early {
		c.complete(&c.early[i])
	}
	c.early = nil
	c.e.Flush()
	c.e.Ending.Add(1)
	go c.watch(cm)
}

// watch notices that the peer has disconnected.
func (c *Conn) watch(cm *rdmacm.Conn) {
	defer c.e.Ending.Done()
	<-cm.Done()
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	c.e.Progress() // takes what arrived before the end
	c.Fail(cm.Err())
}

// complete takes a completion.
func (c *Conn) complete(wc *verbs.WC) {
	if !c.started {
		c.early = append(c.early, *wc)
		return
	}
	i := int(uint16(wc.WRID))
	kind := wc.WRID >> 48
	switch {
	case kind == workReceive && wc.Status == verbs.Success && c.Err == nil:
		c.arrived(i, int(wc.ByteLen))
	case kind == workFrame:
		c.posted[i] = false
		c.owner.Sent(c, i)
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
		c.owner.Fetched(c, slot, wc.Err())
	}
	if wc.Status != verbs.Success {
		err := wc.Err()
		if cause := c.CM.Err(); cause != nil {
			err = cause // names why work was flushed
		}
		c.Fail(err)
	}
}

// arrived takes a frame.
func (c *Conn) arrived(i, n int) {
	h := &c.header
	var body []byte
	var err error
	if *h, body, err = session.Parse(c.in.Bytes(i)[:n]); err == nil {
		err = c.flow.Learn(h.Consumed)
	}
	keep := false
	if err == nil {
		if len(c.queue) > 0 || len(c.pending) > 0 {
			c.mark()
		}
		keep, err = c.owner.Arrive(c, h, body, i)
	}
	switch {
	case err != nil:
		c.Fail(err)
	case keep:
		c.held++
	default:
		c.repost(i)
	}
}

// Release gives back a receive that Owner.Arrive kept.
func (c *Conn) Release(i int) {
	c.held--
	if c.gone && c.held == 0 {
		c.in.Free()
	}
	if c.Err == nil {
		c.repost(i)
	}
}

func (c *Conn) repost(i int) {
	if err := c.receive(i); err != nil {
		c.Fail(err)
		return
	}
	c.flow.Consume()
	if c.flow.Owes() {
		c.mark()
	}
}

// mark makes Engine.Flush call push.
func (c *Conn) mark() {
	if !c.dirty {
		c.dirty = true
		c.e.dirty = append(c.e.dirty, c)
	}
}

// Send sends the frame of n bytes in a slot, now or when the peer has a receive for it. The
// connection has not failed, and no frame of the slot is in flight on it.
func (c *Conn) Send(slot, n int) {
	c.posted[slot] = true
	if len(c.queue) > 0 || !c.flow.Ready() {
		c.queue = append(c.queue, outgoing{slot, n})
		return
	}
	c.post(slot, n)
}

func (c *Conn) post(slot, n int) {
	frame := c.out.Bytes(slot)
	session.PutConsumed(frame, c.flow.Send())
	var err error
	if far := c.owner.Far(slot); far != nil {
		var r *verbs.MR
		if r, err = far.On(c.Rail); err == nil {
			session.PutFar(frame, r.Addr(), r.RKey())
		}
	}
	if err == nil {
		err = c.qp.PostSend(verbs.SendWR{WRID: c.id(workFrame, slot), Op: verbs.OpSend, SGL: c.entry(c.out.entry(c.region, slot, n))})
	}
	if err != nil {
		c.Fail(err)
	}
}

// Telling reports whether control frames have not left yet.
func (c *Conn) Telling() bool { return len(c.free) < notes }

// Tell sends a control frame.
func (c *Conn) Tell(h session.Header, body []byte) {
	if c.Err != nil {
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

// takeNote takes the memory of a control frame. The caller has checked that some is free.
func (c *Conn) takeNote() int {
	i := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	return i
}

func (c *Conn) postNote(h *session.Header, body []byte) {
	i := c.takeNote()
	b := c.note.Bytes(i)
	h.Consumed = c.flow.Send()
	h.Put(b)
	c.sendNote(i, session.HeaderLen+copy(b[session.HeaderLen:], body))
}

// TellRaw sends bytes as they are, for tests of what the peer refuses. It reports whether there is room.
func (c *Conn) TellRaw(frame []byte) bool {
	if len(c.free) == 0 || !c.flow.Ready() {
		return false
	}
	i := c.takeNote()
	c.flow.Send()
	c.sendNote(i, copy(c.note.Bytes(i), frame))
	return true
}

func (c *Conn) sendNote(i, n int) {
	err := c.qp.PostSend(verbs.SendWR{WRID: c.id(workNote, i), Op: verbs.OpSend, SGL: c.entry(c.note.entry(c.note.regions[0].MR, i, n))})
	if err != nil {
		c.Fail(err)
	}
}

// Read reads a body. It ends with a call of Owner.Fetched.
func (c *Conn) Read(f Fetch) {
	if c.Err == nil && c.reading < maxReads {
		c.postRead(&f)
		return
	}
	c.wants = append(c.wants, f)
}

func (c *Conn) postRead(f *Fetch) {
	i := slices.Index(c.reads[:], -1)
	c.reads[i] = f.Slot
	c.reading++
	r, err := f.To.On(c.Rail)
	if err == nil {
		err = c.qp.PostSend(verbs.SendWR{WRID: c.id(workRead, i), Op: verbs.OpRead,
			SGL: c.entry(r.SGE(0, f.N)), RemoteAddr: f.Address, RKey: f.Key})
	}
	if err != nil {
		c.Fail(err)
	}
}

// push sends what can be sent now.
func (c *Conn) push() {
	c.dirty = false
	for c.Err == nil && len(c.queue) > 0 && c.flow.Ready() {
		c.post(c.queue[0].slot, c.queue[0].n)
		c.queue = slices.Delete(c.queue, 0, 1)
	}
	for c.Err == nil && len(c.pending) > 0 && len(c.free) > 0 && c.flow.Ready() {
		h, body, _ := session.Parse(c.pending[0]) // Tell made it
		c.postNote(&h, body)
		c.pending = slices.Delete(c.pending, 0, 1)
	}
	for c.Err == nil && len(c.wants) > 0 && c.reading < maxReads {
		c.postRead(&c.wants[0])
		c.wants = slices.Delete(c.wants, 0, 1)
	}
	if c.Err == nil && c.flow.Owes() && len(c.free) > 0 {
		c.postNote(&session.Header{Kind: session.Credit}, nil)
	}
}
