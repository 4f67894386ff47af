package adapter

import (
	"fmt"
	"sync"
	"syscall"

	"softrdma/internal/object"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// An XRCD is an XRC domain (annex A14): its target queue pairs take what peers send to its
// shared receive queues.
type XRCD struct {
	pd   PD  // of the target queue pairs before they are aimed; it has no memory
	none *CQ // stands for the completion queues that target queue pairs have not
}

// OpenXRCD makes an XRC domain.
func (d *Device) OpenXRCD() (*XRCD, error) {
	if _, err := d.transportOf(qp.XRCRecv); err != nil {
		return nil, err
	}
	if err := d.Closed(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nextPD++
	x := &XRCD{pd: PD{dev: d, ID: d.nextPD}, none: &CQ{dev: d}}
	x.none.arm = &x.none.armed
	x.none.ring.Store(queue.NewCompletionRing(1))
	return x, nil
}

// Close ends the domain. It is refused while the domain has queues or queue pairs.
func (x *XRCD) Close() error {
	_, err := x.pd.uses.End("XRC domain")
	return err
}

// CreateTarget makes a target queue pair in state RESET.
func (x *XRCD) CreateTarget() (*QP, error) {
	return x.pd.CreateQP(&QPConfig{Type: qp.XRCRecv, SendCQ: x.none, RecvCQ: x.none, SendDepth: 1, SendSGE: 1, xrcd: x})
}

// An xrcQueues is a device's XRC shared receive queues, by number. The zero value is empty.
type xrcQueues struct {
	mu       sync.RWMutex
	byNumber map[uint32]*SRQ
}

// add gives a queue an unpredictable number of 24 bits.
func (t *xrcQueues) add(s *SRQ, random func() uint32) error {
	const most, tries = 1 << 20, 100
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byNumber == nil {
		t.byNumber = make(map[uint32]*SRQ)
	}
	for range tries {
		n := random() >> 8
		if n == 0 || t.byNumber[n] != nil || len(t.byNumber) >= most {
			continue
		}
		s.Number = n
		t.byNumber[n] = s
		return nil
	}
	return fmt.Errorf("%d XRC shared receive queues exist: %w", len(t.byNumber), syscall.ENOMEM)
}

func (t *xrcQueues) remove(s *SRQ) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byNumber, s.Number)
}

// find returns a domain's queue with a number, or nil and how many queues the domain has.
func (t *xrcQueues) find(x *XRCD, number uint32) (s *SRQ, n int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if s = t.byNumber[number]; s != nil && s.xrcd == x {
		return s, 0
	}
	for _, s := range t.byNumber {
		if s.xrcd == x {
			n++
		}
	}
	return nil, n
}

// CreateXRCSRQ makes a shared receive queue of an XRC domain. What arrives for it may use keys
// of this protection domain and completes on cq.
func (p *PD) CreateXRCSRQ(x *XRCD, cq *CQ, depth, maxSGE int) (*SRQ, error) {
	for i, u := range []*object.Uses{&x.pd.uses, &cq.uses} {
		if !u.Hold() {
			if i > 0 {
				x.pd.uses.Drop()
			}
			return nil, fmt.Errorf("%s of the shared receive queue: %w", []string{"XRC domain", "completion queue"}[i], ErrDestroyed)
		}
	}
	s, err := p.CreateSRQ(depth, maxSGE)
	if err == nil {
		s.xrcd, s.cq = x, cq
		if err = p.dev.xrc.add(s, p.dev.cfg.Random); err != nil {
			p.remove(&p.dev.counts.SRQ)
		}
	}
	if err != nil {
		x.pd.uses.Drop()
		cq.uses.Drop()
		return nil, err
	}
	p.dev.each(cq.serve) // the domain's target queue pairs are on any of them
	return s, nil
}

// withdraw ends what target queue pairs have to do with a queue that is being destroyed.
func (s *SRQ) withdraw() {
	d := s.pd.dev
	d.xrc.remove(s)
	d.locked(func(l *lane) {
		for _, q := range l.qps {
			if q.target == s {
				q.unaim()
			}
		}
	})
	s.cq.uses.Drop()
	s.xrcd.pd.uses.Drop()
}

// aim implements machine.Aim. The caller has the lane.
func (q *QP) aim(number uint32) reason.Detail {
	if q.target != nil && q.target.Number == number {
		return reason.Detail{}
	}
	s, n := q.pd.dev.xrc.find(q.xrcd, number)
	if s == nil {
		return reason.Detail{Reason: reason.XRCQueue, Expected: uint64(n), Found: uint64(number)}
	}
	if s.cq.overflowed.Load() {
		return reason.Detail{Reason: reason.CQOverflow, Expected: uint64(s.cq.Depth()), Found: uint64(s.cq.Depth() + 1)}
	}
	q.target, q.RQ, q.PD, q.RecvPD = s, s, s.pd.ID, s.pd.ID
	return reason.Detail{}
}

// unaim undoes aim.
func (q *QP) unaim() {
	if m := q.can.Withdrawer; m != nil {
		m.Withdraw()
	}
	q.target, q.RQ, q.PD, q.RecvPD = nil, nil, q.pd.ID, q.pd.ID
}

// receiveCQ is where receives complete.
func (q *QP) receiveCQ() *CQ {
	if q.target != nil {
		return q.target.cq
	}
	return q.recvCQ
}
