package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"softrdma/rdmacm"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/verbs"
)

// slotBytes is how much data one command moves at most, if the data is not in memory of Alloc.
const slotBytes = 128 << 10

// A queue is one connection to a controller. A goroutine handles its completions.
type queue struct {
	l       *link
	number  uint16
	entries int
	conn    *rdmacm.Conn
	cq      *verbs.CQ
	memory  *verbs.Memory
	mr      *verbs.MR
	capsule int // bytes of data that fit in a capsule
	all     []slot
	work    sync.WaitGroup
	recvs   []verbs.RecvWR // of each receive
	spare   []verbs.SendWR // memory for gathered, of the goroutine
	trains  trains         // of the goroutine

	mu       sync.Mutex // of all below
	free     []*slot
	waiting  []*command // for a free slot
	posted   int
	gathers  bool // commands are sent together
	packet   int  // of trains, at the last gather
	gathered []verbs.SendWR
	tick     uint32 // advances with time
	closed   bool
	why      error // it was closed
}

// A slot has the memory of one command.
type slot struct {
	number int
	off    int // of its data in the queue's memory
	cmd    *command
	tick   uint32 // when the command was sent
	wr     [1]verbs.SendWR
	sge    [2]verbs.SGE
}

// The identifiers of work requests above the number of a slot or of a receive.
const (
	workSend = iota << 32
	workReceive
	workKind = 0xff << 32
)

// RejectError is a controller's rejection of a connection.
type RejectError struct {
	Status fabrics.Reject
	Err    error
}

// Error returns the status and what it means.
func (e *RejectError) Error() string {
	return fmt.Sprintf("the controller rejects the queue: %v: %s", e.Status, e.Status.Text())
}

// Unwrap returns the connection manager's error.
func (e *RejectError) Unwrap() error { return e.Err }

// dialQueue connects a queue of a number of entries.
func (l *link) dialQueue(ctx context.Context, number uint16, entries int) (_ *queue, err error) {
	q := &queue{l: l, number: number, entries: entries}
	d := l.c.dialer
	e, err := d.Resolve(ctx, l.c.addr)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close(), q.release())
		}
	}()
	if err := q.prepare(e); err != nil {
		return nil, err
	}
	asked := fabrics.Request{Queue: number, HostReceives: uint16(entries), HostSends: uint16(entries - 1)}
	q.conn, err = e.Connect(ctx, rdmacm.ConnParam{PrivateData: asked.Append(nil)})
	if err != nil {
		var rejected *rdmacm.RejectedError
		if errors.As(err, &rejected) {
			if status, e := fabrics.ParseReject(rejected.PrivateData); e == nil && status != 0 {
				err = &RejectError{status, err}
			}
		}
		return nil, err
	}
	if _, err := fabrics.ParseReply(q.conn.PrivateData()); err != nil {
		return nil, errors.Join(err, q.conn.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, q)
	q.work.Go(q.receive)
	select {
	case <-l.failed:
		_ = q.conn.QP().ToErr()
	default:
	}
	return q, nil
}

// prepare makes the queue pair, its memory, and its receives.
func (q *queue) prepare(e *rdmacm.Endpoint) (err error) {
	dev := e.Device()
	if err := q.l.on(dev); err != nil {
		return err
	}
	// For each slot: data, a capsule to send, and a completion to receive.
	perSlot := slotBytes + capsule.CommandLen + capsule.CompletionLen
	if q.memory, err = verbs.AllocMemory(q.entries*perSlot, verbs.AllocConfig{Device: dev}); err != nil {
		return err
	}
	if q.mr, err = q.l.pd.RegisterMemory(q.memory.Bytes(), hostAccess); err != nil {
		return err
	}
	// The controller may answer before its device has acknowledged the command.
	sends := 4*q.entries + signalEvery
	if q.cq, err = dev.CreateCQ(verbs.CQConfig{Depth: sends + q.entries}); err != nil {
		return err
	}
	qp, err := e.CreateQP(q.l.pd, verbs.QPConfig{
		Type: verbs.RC, SendCQ: q.cq, MaxSend: sends, MaxRecv: q.entries, MaxSendSGE: 2, MaxRecvSGE: 1, MaxInline: capsule.CommandLen,
	})
	if err != nil {
		return err
	}
	for i := range q.entries {
		q.recvs = append(q.recvs, q.receiveOf(i))
	}
	if err := qp.PostRecv(q.recvs...); err != nil {
		return err
	}
	slots := q.entries - 1 // a full queue has one entry free
	if q.number == 0 {
		slots-- // for the asynchronous event request
	}
	q.all = make([]slot, slots)
	for i := range q.all {
		q.all[i] = slot{number: i, off: i * slotBytes}
		q.free = append(q.free, &q.all[i])
	}
	return nil
}

func (q *queue) capsuleAt(number int) int {
	return q.entries*slotBytes + number*capsule.CommandLen
}

func (q *queue) completionAt(number int) int {
	return q.entries*(slotBytes+capsule.CommandLen) + number*capsule.CompletionLen
}

func (q *queue) receiveOf(number int) verbs.RecvWR {
	return verbs.RecvWR{WRID: uint64(workReceive | number), SGL: []verbs.SGE{q.mr.SGE(q.completionAt(number), capsule.CompletionLen)}}
}

// start sends a command, at once or when a slot is free.
func (q *queue) start(c *command) {
	q.mu.Lock()
	if q.closed {
		err := q.why
		q.mu.Unlock()
		c.lost(err)
		return
	}
	last := len(q.free) - 1
	if last < 0 {
		q.waiting = append(q.waiting, c)
		q.mu.Unlock()
		return
	}
	s := q.free[last]
	q.free = q.free[:last]
	signal := q.occupy(s, c)
	q.mu.Unlock()
	q.send(s, c, signal)
}

// signalEvery is how many commands are sent for one completion of the send queue.
const signalEvery = 16

// occupy gives a slot to a command. It reports whether the command's send must be signaled.
func (q *queue) occupy(s *slot, c *command) (signal bool) {
	s.cmd, s.tick = c, q.tick
	q.posted++
	return q.posted%min(signalEvery, max(1, q.entries/2)) == 0
}

// vacate frees a slot, or gives it to a command that waits.
func (q *queue) vacate(s *slot) {
	q.mu.Lock()
	s.cmd = nil
	if q.closed || len(q.waiting) == 0 {
		q.free = append(q.free, s)
		q.mu.Unlock()
		return
	}
	c := q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	signal := q.occupy(s, c)
	q.mu.Unlock()
	q.send(s, c, signal)
}

// send sends the capsule of a command in its slot.
func (q *queue) send(s *slot, c *command, signal bool) {
	c.mu.Lock()
	if !q.holds(s, c) { // the queue has ended, or the controller has completed what it does not have
		c.mu.Unlock()
		return
	}
	if c.state == ended { // given up while it waited
		c.mu.Unlock()
		q.vacate(s)
		return
	}
	c.state, c.direct = flying, false
	mr, off := q.l.find(c.data)
	if mr != nil {
		c.direct = true
	} else {
		mr, off = q.mr, s.off
	}
	entry := c.entry
	entry.ID, entry.Flags = uint16(s.number), capsule.FlagSGL
	sent := 0
	switch n := len(c.data); {
	case n == 0:
		entry.SGL = capsule.KeyedSGL(0, 0, 0, false)
	case entry.ToController() && q.number != 0 && n <= q.inCapsule():
		entry.SGL, sent = capsule.OffsetSGL(0, uint32(n)), n
	default:
		entry.SGL = capsule.KeyedSGL(mr.Addr()+uint64(off), mr.RKey(), uint32(n), false)
	}
	if entry.ToController() && !c.direct {
		copy(q.memory.Bytes()[s.off:s.off+slotBytes], c.data)
	}
	at := q.capsuleAt(s.number)
	b := entry.Append(q.memory.Bytes()[:at][at:at])
	wr := &s.wr[0]
	*wr = verbs.SendWR{WRID: uint64(workSend | s.number), Op: verbs.OpSend}
	if signal {
		wr.Flags = verbs.Signaled
	}
	if sent > 0 {
		s.sge = [2]verbs.SGE{q.mr.SGE(at, capsule.CommandLen), mr.SGE(off, sent)}
		wr.SGL = s.sge[:]
	} else {
		wr.Inline = b
	}
	err := q.post(s)
	c.mu.Unlock()
	if err != nil { // the command ends with the queue
		q.l.fail(err)
	}
}

// holds reports whether a slot has a command.
func (q *queue) holds(s *slot, c *command) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return s.cmd == c
}

// post posts the request of a slot, at once or with those of a batch of completions.
func (q *queue) post(s *slot) error {
	q.mu.Lock()
	gathers := q.gathers
	if gathers {
		q.gathered = append(q.gathered, s.wr[0])
	}
	q.mu.Unlock()
	if gathers {
		return nil
	}
	return q.conn.QP().PostSend(s.wr[:]...)
}

// gather makes post gather requests.
func (q *queue) gather() {
	q.trains.look(q.conn.QP())
	q.mu.Lock()
	q.gathers, q.packet = true, q.trains.packet
	q.mu.Unlock()
}

// scatter posts the requests that were gathered.
func (q *queue) scatter() error {
	q.mu.Lock()
	q.gathers = false
	list := q.gathered
	q.gathered, q.spare = q.spare[:0], nil
	q.mu.Unlock()
	if len(list) == 0 {
		q.spare = list
		return nil
	}
	err := q.conn.QP().PostSend(list...)
	clear(list)
	q.spare = list[:0]
	return err
}

// sendEvents sends the request that the controller completes when there is an asynchronous event.
func (q *queue) sendEvents() error {
	entry := capsule.Command{Opcode: capsule.AdminAsyncEvent, ID: eventID, Flags: capsule.FlagSGL, SGL: capsule.KeyedSGL(0, 0, 0, false)}
	return q.conn.QP().PostSend(verbs.SendWR{WRID: workSend | eventID, Op: verbs.OpSend, Flags: verbs.Signaled, Inline: entry.Append(nil)})
}

// eventID is the identifier of the asynchronous event request.
const eventID = 0xff00

// do runs a command that is not repeated.
func (q *queue) do(ctx context.Context, entry capsule.Command, data []byte) (uint64, error) {
	return run(ctx, &command{entry: entry, data: data}, q.start)
}

// overdue advances the queue's clock, and reports whether a command has been in flight for a number of
// ticks.
func (q *queue) overdue(most uint32) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tick++
	for i := range q.all {
		if s := &q.all[i]; s.cmd != nil && q.tick-s.tick > most {
			return true
		}
	}
	return false
}

// close ends the connection and releases everything.
func (q *queue) close() (err error) {
	if e := q.conn.Disconnect(); !errors.Is(e, rdmacm.ErrDisconnected) {
		err = e
	}
	q.work.Wait()
	return errors.Join(err, q.conn.Close(), q.release())
}

// release releases the memory of a queue without a queue pair.
func (q *queue) release() (err error) {
	if q.cq != nil {
		err = errors.Join(err, q.cq.Destroy())
	}
	if q.mr != nil {
		err = errors.Join(err, q.mr.Deregister())
	}
	if q.memory != nil {
		err = errors.Join(err, q.memory.Free())
	}
	return err
}
