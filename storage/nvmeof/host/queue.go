package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"softrdma/rdmacm"
	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/status"
	"softrdma/verbs"
)

// slotBytes is how much data one command moves at most.
const slotBytes = 128 << 10

// A queue is one connection to a controller.
type queue struct {
	number  uint16
	entries int
	conn    *rdmacm.Conn
	cq      *verbs.CQ
	memory  *verbs.Memory
	mr      *verbs.MR
	pd      *verbs.PD
	capsule int // bytes of data that fit in a capsule

	slots chan *slot // free ones
	all   []*slot
	done  chan struct{} // closed when the queue has ended
	work  sync.WaitGroup

	mu     sync.Mutex
	err    error // why it has ended
	events func(result uint64)
}

// A slot has the memory of one command.
type slot struct {
	number int
	data   []byte
	off    int // of data in the memory
	answer chan capsule.Completion
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
func dialQueue(ctx context.Context, addr string, d rdmacm.Dialer, number uint16, entries int) (_ *queue, err error) {
	q := &queue{number: number, entries: entries, slots: make(chan *slot, entries), done: make(chan struct{})}
	e, err := d.Resolve(ctx, addr)
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
	q.work.Go(q.receive)
	return q, nil
}

// prepare makes the queue pair, its memory, and its receives.
func (q *queue) prepare(e *rdmacm.Endpoint) (err error) {
	dev := e.Device()
	if q.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	// For each slot: data, a capsule to send, and a completion to receive.
	perSlot := slotBytes + capsule.CommandLen + capsule.CompletionLen
	if q.memory, err = verbs.AllocMemory(q.entries*perSlot, verbs.AllocConfig{Device: dev}); err != nil {
		return err
	}
	if q.mr, err = q.pd.RegisterMemory(q.memory.Bytes(), verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite); err != nil {
		return err
	}
	if q.cq, err = dev.CreateCQ(verbs.CQConfig{Depth: 3 * q.entries}); err != nil {
		return err
	}
	qp, err := e.CreateQP(q.pd, verbs.QPConfig{Type: verbs.RC, SendCQ: q.cq, MaxSend: 2 * q.entries, MaxRecv: q.entries, MaxSendSGE: 2})
	if err != nil {
		return err
	}
	for i := range q.entries {
		if err := qp.PostRecv(q.receiveOf(i)); err != nil {
			return err
		}
	}
	for i := range q.entries - 1 { // a full queue has one entry free
		s := &slot{number: i, off: i * slotBytes, answer: make(chan capsule.Completion, 1)}
		s.data = q.memory.Bytes()[s.off : s.off+slotBytes]
		q.all = append(q.all, s)
		q.slots <- s
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

// receive passes completions to their commands until the queue ends.
func (q *queue) receive() {
	err := q.loop()
	q.mu.Lock()
	q.err = err
	q.mu.Unlock()
	close(q.done)
}

func (q *queue) loop() error {
	for {
		wc, err := q.cq.WaitOne(context.Background())
		if err != nil {
			var failed *verbs.CompletionError
			if errors.As(err, &failed) && failed.Status == verbs.WRFlushErr {
				<-q.conn.Done()
				err = q.conn.Err()
			}
			return err
		}
		if wc.WRID&workKind != workReceive {
			continue
		}
		number := int(wc.WRID &^ workKind)
		at := q.completionAt(number)
		c, err := capsule.ParseCompletion(q.memory.Bytes()[at : at+int(wc.ByteLen)])
		if err != nil {
			return err
		}
		if err := q.conn.QP().PostRecv(q.receiveOf(number)); err != nil {
			return err
		}
		switch {
		case int(c.ID) < len(q.all):
			select {
			case q.all[c.ID].answer <- c:
			default:
				return fmt.Errorf("the controller has completed command %d twice", c.ID)
			}
		case c.ID == eventID && q.events != nil:
			q.events(c.Result)
		default:
			return fmt.Errorf("the controller has completed command %d, which was not sent", c.ID)
		}
	}
}

// eventID is the identifier of the asynchronous event request.
const eventID = 0xff00

// reason returns why the queue has ended.
func (q *queue) reason() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// do runs a command. Data is sent if the command sends data, and filled in if it returns data. It has at
// most slotBytes.
func (q *queue) do(ctx context.Context, cmd capsule.Command, data []byte) (result uint64, err error) {
	var s *slot
	select {
	case s = <-q.slots:
	case <-q.done:
		return 0, q.reason()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	cmd.ID, cmd.Flags = uint16(s.number), capsule.FlagSGL
	cmd.SGL = capsule.KeyedSGL(q.mr.Addr()+uint64(s.off), q.mr.RKey(), uint32(len(data)), false)
	inCapsule := 0
	switch {
	case len(data) == 0:
		cmd.SGL = capsule.KeyedSGL(0, 0, 0, false)
	case cmd.ToController():
		copy(s.data, data)
		if q.number != 0 && len(data) <= q.capsule {
			cmd.SGL = capsule.OffsetSGL(0, uint32(len(data)))
			inCapsule = len(data)
		}
	}
	if err := q.send(&cmd, s, inCapsule); err != nil {
		q.slots <- s
		return 0, err
	}
	select {
	case c := <-s.answer:
		if c.Status == status.Success && cmd.ToHost() {
			copy(data, s.data)
		}
		q.slots <- s
		if c.Status != status.Success {
			return c.Result, &status.Error{Status: c.Status, Result: c.Result}
		}
		return c.Result, nil
	case <-q.done:
		return 0, q.reason()
	case <-ctx.Done():
		// The controller may still access the slot's memory.
		q.work.Go(func() {
			select {
			case <-s.answer:
				q.slots <- s
			case <-q.done:
			}
		})
		return 0, ctx.Err()
	}
}

// send sends a command's capsule.
func (q *queue) send(cmd *capsule.Command, s *slot, inCapsule int) error {
	at := q.capsuleAt(s.number)
	cmd.Append(q.memory.Bytes()[:at][at:at])
	wr := verbs.SendWR{WRID: uint64(workSend | s.number), Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{q.mr.SGE(at, capsule.CommandLen)}}
	if inCapsule > 0 {
		wr.SGL = append(wr.SGL, q.mr.SGE(s.off, inCapsule))
	}
	return q.conn.QP().PostSend(wr)
}

// close ends the connection and releases everything.
func (q *queue) close() (err error) {
	if q.conn != nil {
		if e := q.conn.Disconnect(); !errors.Is(e, rdmacm.ErrDisconnected) {
			err = e
		}
	}
	q.work.Wait()
	if q.conn != nil {
		err = errors.Join(err, q.conn.Close())
	}
	return errors.Join(err, q.release())
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
	if q.pd != nil {
		err = errors.Join(err, q.pd.Dealloc())
	}
	return err
}
