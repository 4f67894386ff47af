package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/status"
	"softrdma/verbs"
)

// receive passes completions to their commands until the queue ends. Then its commands have lost their
// connection.
func (q *queue) receive() {
	err := q.l.fail(q.loop())
	q.mu.Lock()
	q.closed, q.why = true, err
	lost := q.waiting
	q.waiting = nil
	for i := range q.all {
		if c := q.all[i].cmd; c != nil {
			q.all[i].cmd = nil
			lost = append(lost, c)
		}
	}
	q.mu.Unlock()
	for _, c := range lost {
		c.lost(err)
	}
}

// batch is how many completions the queue handles at once. The target handles half as many, so that
// both ends work at the same time. Here, the more commands leave together the fewer datagrams carry them.
const batch = 32

func (q *queue) loop() error {
	var wcs [batch]verbs.WC
	var list [batch]capsule.Completion
	for {
		n, err := q.cq.Poll(wcs[:])
		if err != nil {
			return err
		}
		if n == 0 {
			if err := q.cq.Wait(context.Background()); err != nil {
				return err
			}
			continue
		}
		done, err := q.take(wcs[:n], list[:0])
		if len(done) > 1 {
			q.gather()
		}
		for i := range done {
			if e := q.dispatch(&done[i]); e != nil {
				return e
			}
		}
		if len(done) > 1 {
			err = errors.Join(err, q.scatter())
		}
		if err != nil {
			return err
		}
	}
}

// take parses completions, and posts their receives again before the commands end, because those that
// follow need them.
func (q *queue) take(wcs []verbs.WC, list []capsule.Completion) ([]capsule.Completion, error) {
	var again [batch]verbs.RecvWR
	for i := range wcs {
		wc := &wcs[i]
		if wc.Status != verbs.Success {
			return list, q.flushed(wc.Err())
		}
		if wc.WRID&workKind != workReceive {
			continue
		}
		number := int(wc.WRID &^ workKind)
		at := q.completionAt(number)
		c, err := capsule.ParseCompletion(q.memory.Bytes()[at : at+int(wc.ByteLen)])
		if err != nil {
			return list, err
		}
		again[len(list)] = q.recvs[number]
		list = append(list, c)
	}
	if len(list) == 0 {
		return list, nil
	}
	return list, q.conn.QP().PostRecv(again[:len(list)]...)
}

// flushed returns why the connection has ended, if a completion has only been flushed.
func (q *queue) flushed(err error) error {
	var failed *verbs.CompletionError
	if !errors.As(err, &failed) || failed.Status != verbs.WRFlushErr {
		return err
	}
	select {
	case <-q.conn.Done():
		return q.conn.Err()
	case <-q.l.failed:
	case <-time.After(time.Second):
	}
	return err
}

// dispatch completes the command of a completion.
func (q *queue) dispatch(k *capsule.Completion) error {
	if k.ID == eventID && q.number == 0 {
		return q.l.event(uint32(k.Result))
	}
	if int(k.ID) >= len(q.all) {
		return fmt.Errorf("the controller has completed command %d, which was not sent", k.ID)
	}
	s := &q.all[k.ID]
	q.mu.Lock()
	c := s.cmd
	s.cmd = nil
	q.mu.Unlock()
	if c == nil {
		return fmt.Errorf("the controller has completed command %d, which was not sent or has completed already", k.ID)
	}
	c.mu.Lock()
	if c.state == flying && k.Status == status.Success && c.entry.ToHost() && !c.direct {
		copy(c.data, q.memory.Bytes()[s.off:s.off+slotBytes])
	}
	c.mu.Unlock()
	q.vacate(s)
	c.completed(q.l, k)
	return nil
}
