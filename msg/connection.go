package msg

import (
	"errors"
	"fmt"
	"slices"

	"softrdma/internal/message"
	"softrdma/msg/internal/access"
	"softrdma/msg/internal/ring"
	"softrdma/msg/internal/slots"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

const (
	sendSlots = slots.RingLen // frames in flight
	spareRecv = 32            // receives beyond those for eager messages; a frame without one is sent again
	maxReads  = 16            // READs and WRITEs of messages in flight

	receiveBatch = 8 // receives that are posted at once; less than spareRecv
)

// The kind of a work request, in the upper bits of its number. The connection and the slot follow.
const (
	workSend = iota
	workReceive
	workRead
	workAccess
)

// id returns the number of a work request.
func (c *connection) id(kind, i int) uint64 {
	return uint64(kind)<<48 | uint64(c.number)<<16 | uint64(i)
}

// A connection carries frames to and from one worker. The worker's lock guards it.
type connection struct {
	w          *Worker
	rail       *rail
	group      *group // nil if the endpoint has one rail
	pair       int    // of the group
	generation uint32 // of the connections of that rail, from 1
	takes      message.Config
	number     uint32 // of the worker's connections, in completions
	worker     uint64 // the peer's; 0 if it is not known
	private    []byte // from the peer's program
	peer       *message.Peer
	conn       *rdmacm.Conn
	qp         *verbs.QP
	room       int // completions in the device's queue
	extra      int // bytes before each frame

	endpoint Endpoint
	out, in  slots.Memory
	vacant   []int // slots of out
	sent     slots.Ring
	actives  []Active // by slot of in
	arriving int      // the slot of the frame that the machine takes
	taken    bool     // an active message keeps that slot
	held     int      // slots that active messages keep
	released bool     // only active messages use memory of in
	backlog  []work
	unposted []verbs.SendWR // frames that Worker.flush posts, all with one doorbell
	pipeline access.Pipeline
	reads    [maxReads]work // READs and WRITEs of messages in flight
	reading  int
	started  bool       // conn is established and set
	early    []verbs.WC // completions before that
	ended    bool       // conn has ended
	broken   error      // why work could not be posted
	err      error      // why the connection failed
	flushes  []flush    // that wait for sends, oldest first
	added    uint64     // work that was ever in backlog
	closing  bool       // no sends begin any more
	idle     []*Request // end when nothing is in flight

	rings   ringPair
	sge     [1]verbs.SGE
	frames  [sendSlots]verbs.SGE // of unposted, by slot
	empty   []int                // slots of in without a receive
	entries [receiveBatch]verbs.SGE
}

// work is a frame, or a READ or WRITE of a message, that waits for room in the send queue.
type work struct {
	frame   []byte
	request *Request // whose message is read or written
	write   bool
	data    []byte // what a READ fills or a WRITE sends
	address uint64
	key     uint32

	peers   []message.Segment // of a group: the memory of the whole message for all rails, and
	segment int               // where in it
	offset  uint64
}

// newConnection makes a connection on a device, with its receives posted, for frames of extra bytes more.
// After an error the caller releases what there is of it.
func (w *Worker) newConnection(r *rail, extra int, create func(verbs.QPConfig) (*verbs.QP, error)) (c *connection, err error) {
	c = &connection{w: w, rail: r, extra: extra}
	c.endpoint.c = c
	c.pipeline.Config = access.Config{Port: port{c}, Domain: r.pd, Cache: r.cache, Repeat: extra > 0}
	receives := w.config.Unexpected + w.config.Active + spareRecv
	c.actives = make([]Active, receives)
	sends := sendSlots + maxReads + maxAccesses
	if extra > 0 {
		sends += maxReads + maxAccesses // for the READs that follow WRITEs
	}
	if err = w.reserve(c, sends+receives); err != nil {
		return c, err
	}
	if c.in, err = slots.New(r.pd, receives, extra+w.address.Accepts.FrameLen()); err != nil {
		return c, err
	}
	c.qp, err = create(verbs.QPConfig{
		Type: verbs.RC, SendCQ: r.cq, MaxSend: sends, MaxRecv: receives, MaxSendSGE: 1, MaxRecvSGE: 1,
		MaxInline: shortAccess, PeerTimeout: w.config.PeerTimeout,
	})
	if err != nil {
		return c, err
	}
	for i := range receives {
		if err := c.receive(i); err != nil {
			return c, err
		}
	}
	return c, c.postReceives()
}

// meet prepares the connection to send to a worker with a configuration.
func (c *connection) meet(takes message.Config) (err error) {
	c.takes = takes
	for i := range sendSlots {
		c.vacant = append(c.vacant, i)
	}
	c.out, err = slots.New(c.rail.pd, sendSlots, c.extra+takes.FrameLen())
	return err
}

// entry returns a list of one entry, which is valid until the next call.
func (c *connection) entry(e verbs.SGE) []verbs.SGE {
	c.sge[0] = e
	return c.sge[:]
}

// receive posts a receive to a slot, together with others: up to receiveBatch - 1 slots wait.
func (c *connection) receive(i int) error {
	c.empty = append(c.empty, i)
	if len(c.empty) < receiveBatch {
		return nil
	}
	return c.postReceives()
}

// postReceives posts the receives that wait, at most receiveBatch.
func (c *connection) postReceives() error {
	var list [receiveBatch]verbs.RecvWR
	for k, i := range c.empty {
		c.entries[k] = c.in.SGE(i, c.in.Size())
		list[k] = verbs.RecvWR{WRID: c.id(workReceive, i), SGL: c.entries[k : k+1]}
	}
	n := len(c.empty)
	c.empty = c.empty[:0]
	return c.qp.PostRecv(list[:n]...)
}

// complete takes a completion.
func (c *connection) complete(wc *verbs.WC) {
	switch {
	case c.err != nil:
		return
	case !c.started:
		c.early = append(c.early, *wc)
		return
	}
	if wc.Status != verbs.Success {
		c.drainRing()
		c.fail(access.Cause(wc, c.conn.Err()))
		return
	}
	i := int(uint16(wc.WRID))
	switch wc.WRID >> 48 {
	case workSend:
		if c.vacant = c.sent.UpTo(i, c.vacant); c.rings.bellDue {
			c.ringBell()
		}
	case workReceive:
		c.arriving, c.taken = i, false
		err := c.arrive(c.in.Bytes(i)[:wc.ByteLen])
		if err == nil && !c.taken {
			err = c.receive(i)
		}
		if err != nil {
			c.fail(err)
		}
	case workRead:
		c.moved(i)
	case workAccess:
		c.pipeline.Complete(i)
	}
	if c.group != nil {
		c.group.wake(c)
	} else if len(c.backlog) > 0 || len(c.flushes) > 0 || c.closing {
		c.w.dirty = append(c.w.dirty, c)
	}
}

// arrive takes what arrived in the current slot.
func (c *connection) arrive(b []byte) error {
	switch {
	case c.group != nil:
		return c.group.arrive(c, b)
	case len(b) > 0 && b[0] == ring.Magic:
		return c.control(b)
	}
	return c.w.machine.Arrive(c.peer, b)
}

// add queues work for Worker.flush.
func (c *connection) add(x work) {
	c.backlog = append(c.backlog, x)
	c.added++
	c.w.dirty = append(c.w.dirty, c)
}

// push posts what waits for room.
func (c *connection) push() {
	if c.logical() {
		c.group.push()
		return
	}
	n := 0
	for c.broken == nil && c.err == nil && n < len(c.backlog) && c.post(&c.backlog[n]) {
		n++
	}
	c.backlog = slices.Delete(c.backlog, 0, n)
	c.postFrames()
	if c.broken != nil {
		c.fail(c.broken)
		return
	}
	if c.group != nil {
		c.group.pull(c)
		return
	}
	c.passFlushes()
	if c.closing && c.err == nil && len(c.flushes) == 0 && len(c.vacant) == sendSlots && c.peer.Waiting() == 0 && c.pipeline.Idle() {
		c.close()
	}
}

// post posts work, and reports whether there was room.
func (c *connection) post(x *work) bool {
	switch {
	case x.request == nil && c.rings.entered && x.frame[0] != ring.Magic:
		return c.postRing(x.frame)
	case x.request == nil && len(c.vacant) > 0:
		i := c.slot()
		c.send(i, copy(c.out.Bytes(i), x.frame))
		c.rings.entered = c.rings.entered || ring.IsEntered(x.frame)
	case x.request != nil && c.reading < maxReads:
		c.broken = c.move(x)
	default:
		return false
	}
	return true
}

// slot takes a free slot.
func (c *connection) slot() int {
	i := c.vacant[len(c.vacant)-1]
	c.vacant = c.vacant[:len(c.vacant)-1]
	return i
}

// fail ends the connection and everything that waits for it. The caller holds the lock.
func (c *connection) fail(err error) {
	if c.err != nil {
		return
	}
	if c.group != nil && !c.logical() {
		c.group.fail(c, err)
		return
	}
	c.err = fmt.Errorf("%w: %w", ErrPeer, err)
	if errors.Is(err, rdmacm.ErrDisconnected) {
		c.err = fmt.Errorf("%w: %w", ErrPeerClosed, err)
	}
	w := c.w
	if c.group != nil {
		c.group.end()
	} else {
		c.disconnect()
	}
	w.machine.Fail(c.peer, c.err)
	c.pipeline.End(c.err)
	if f := w.config.Failed; f != nil && !errors.Is(err, ErrClosed) {
		w.calls = append(w.calls, call{failed: f, from: &c.endpoint, err: c.err})
	}
	for _, f := range c.flushes {
		f.access.End(c.err)
	}
	for _, r := range c.idle {
		r.end(Info{}, c.err)
	}
	c.flushes, c.idle = nil, nil
	same := func(x *connection) bool { return x == c }
	w.conns = slices.DeleteFunc(w.conns, same)
	w.rings = slices.DeleteFunc(w.rings, same)
}

// disconnect ends the use of the queue pair. Afterwards the peer's READs and WRITEs do not access a
// buffer. The caller holds the lock.
func (c *connection) disconnect() {
	w := c.w
	c.backlog = nil
	_ = c.conn.Disconnect() // it may have ended
	delete(w.numbers, c.number)
	if c.rings.cancel != nil {
		c.rings.cancel()
	}
	w.running.Go(c.release)
}

// watch tells the worker of the connection's end.
func (c *connection) watch() {
	w := c.w
	select {
	case <-c.conn.Done():
	case <-w.context.Done():
		return
	}
	w.mu.Lock()
	c.ended = true
	w.ending = true
	w.event()
	w.unlock()
}

// release gives back everything that the connection owns. Memory that active messages use is given
// back when they are over.
func (c *connection) release() {
	if c.conn != nil {
		_ = c.conn.Close()
	}
	if c.qp != nil {
		_ = c.qp.Destroy()
	}
	c.w.mu.Lock()
	d := c.rings // nobody uses its memory from now on
	if c.rings = (ringPair{}); d.region != nil {
		c.w.ringed--
	}
	c.w.mu.Unlock()
	d.free()
	c.in.Deregister()
	c.out.Deregister()
	c.out.Free()
	c.pipeline.Release()
	w := c.w
	w.mu.Lock()
	w.turns.All = true
	w.progress() // takes what is left of this connection
	c.rail.room -= c.room
	delete(w.numbers, c.number)
	c.released = true
	c.free()
	w.unlock()
}

// free frees the memory of frames that arrived when nothing uses it any more. The caller holds the
// lock.
func (c *connection) free() {
	if c.released && c.held == 0 {
		c.in.Free()
	}
}
