package rdmacm

import (
	"errors"
	"fmt"

	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/verbs"
)

// QP returns the id's queue pair, or nil before CreateQP.
func (id *ID) QP() *verbs.QP {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.qp
}

// SendCQ returns the completion queue of sends that CreateQP made, or nil if the configuration
// had one.
func (id *ID) SendCQ() *verbs.CQ {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.sendCQ
}

// RecvCQ returns the completion queue of receives that CreateQP made, or nil if the
// configuration had one.
func (id *ID) RecvCQ() *verbs.CQ {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.recvCQ
}

// PD returns the id's own protection domain. The first call makes it, and Destroy
// deallocates it.
func (id *ID) PD() (*verbs.PD, error) {
	dev := id.Device()
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.ownPD(dev)
}

// ownPD implements PD. The caller holds mu.
func (id *ID) ownPD(dev *verbs.Device) (*verbs.PD, error) {
	if id.pd != nil && !id.destroyed {
		return id.pd, nil
	}
	if err := id.usable(dev); err != nil {
		return nil, err
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, err
	}
	id.pd = pd
	return pd, nil
}

// usable returns an error unless the id has a device that is open. The caller holds mu.
func (id *ID) usable(dev *verbs.Device) error {
	switch {
	case id.destroyed:
		return fmt.Errorf("id: %w", ErrClosed)
	case dev != nil:
		return nil
	case id.pd != nil || id.c.Removed() || id.c.Device().IsValid(): // the id had a device
		return fmt.Errorf("device of %v: %w", id.LocalAddr(), verbs.ErrClosed)
	}
	return reason.BadArgument(0, 0, "expected an id on a device, found none: bind the id or resolve an address first")
}

func (id *ID) deallocPD() error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.pd == nil {
		return nil
	}
	if err := id.pd.Dealloc(); errors.Is(err, ErrBusy) {
		return fmt.Errorf("protection domain of the id: %w", err)
	}
	id.pd = nil
	return nil
}

// CreateQP makes the id's queue pair (rdma_create_qp) and takes it to INIT, where
// receives can be posted, or in PortSpaceUDP to RTS. Next and the calls of the id
// move it on. A nil pd means the id's own. Type 0 in cfg means the type of the port
// space. If cfg has no completion queues CreateQP makes them, as deep as the work
// queues; DestroyQP destroys them.
func (id *ID) CreateQP(pd *verbs.PD, cfg verbs.QPConfig) (*verbs.QP, error) {
	dev := id.Device()
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.qp != nil {
		return nil, reason.BadArgument(0, 1, "create QP: expected an id without a queue pair, found one")
	}
	if err := id.usable(dev); err != nil {
		return nil, fmt.Errorf("create QP: %w", err)
	}
	own, err := id.ownPD(dev)
	if err != nil {
		return nil, fmt.Errorf("create QP: %w", err)
	}
	if pd == nil {
		pd = own
	}
	if pd.Device() != dev {
		return nil, reason.BadArgument(0, 0, "create QP: expected a protection domain of device %v, found one of %v", dev.Addr(), pd.Device().Addr())
	}
	service := verbs.QPType(id.c.Type())
	if cfg.Type == 0 {
		cfg.Type = service
	}
	if cfg.Type != service {
		return nil, reason.BadArgument(uint64(service), uint64(cfg.Type), "create QP: type: expected %v, found %v", service, cfg.Type)
	}
	if err := id.createCQs(dev, &cfg); err != nil {
		return nil, fmt.Errorf("create QP: %w", err)
	}
	q, err := pd.CreateQP(cfg)
	if err != nil {
		return nil, errors.Join(err, id.destroyCQs())
	}
	if err := id.begin(q); err != nil {
		return nil, errors.Join(err, q.Destroy(), id.destroyCQs())
	}
	id.qp, id.srq = q, cfg.SRQ != nil
	return q, nil
}

// createCQs makes the completion queues that cfg lacks.
func (id *ID) createCQs(dev *verbs.Device, cfg *verbs.QPConfig) (err error) {
	const depth = 128 // of a queue pair's queues by default
	if cfg.SendCQ == nil {
		if id.sendCQ, err = dev.CreateCQ(verbs.CQConfig{Depth: max(cfg.MaxSend, depth)}); err != nil {
			return err
		}
		cfg.SendCQ = id.sendCQ
		if cfg.RecvCQ == nil {
			n := max(cfg.MaxRecv, depth)
			if cfg.SRQ != nil {
				n = cfg.SRQ.Depth()
			}
			if id.recvCQ, err = dev.CreateCQ(verbs.CQConfig{Depth: n}); err != nil {
				return errors.Join(err, id.destroyCQs())
			}
			cfg.RecvCQ = id.recvCQ
		}
	}
	return nil
}

func (id *ID) destroyCQs() (err error) {
	for _, c := range []**verbs.CQ{&id.sendCQ, &id.recvCQ} {
		if *c != nil {
			err = errors.Join(err, (*c).Destroy())
			*c = nil
		}
	}
	return err
}

// DestroyQP destroys the queue pair (rdma_destroy_qp) and the completion queues
// that CreateQP made.
func (id *ID) DestroyQP() error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.qp == nil {
		return nil
	}
	err := id.qp.Destroy()
	id.qp = nil
	return errors.Join(err, id.destroyCQs())
}

// datagram reports whether the id's queue pair is UD.
func (id *ID) datagram() bool { return id.c.Type() == qp.UD }

// InitAttr returns the attributes that take a queue pair of the id to INIT
// (rdma_init_qp_attr), for a program that moves the queue pair itself.
func (id *ID) InitAttr() (verbs.InitAttr, error) {
	_, a, err := id.c.InitQPAttr(qp.Init)
	return verbs.InitAttr{Access: verbs.Access(a.Access), QKey: a.QKey, PKeyIndex: a.PKeyIndex}, err
}

// RTRAttr returns the attributes that take it to RTR, once the peer is known.
func (id *ID) RTRAttr() (verbs.RTRAttr, error) {
	_, a, err := id.c.InitQPAttr(qp.RTR)
	return verbs.RTRAttr{
		PathMTU: a.PathMTU, DestQPN: a.DestQPN, RQPSN: uint32(a.RQPSN), AV: id.addressVector(&a.Path),
		MaxDestRdAtomic: a.MaxDestRdAtomic, MinRNRTimer: a.MinRNRTimer,
	}, err
}

// RTSAttr returns the attributes that take it to RTS, once the peer is known.
func (id *ID) RTSAttr() (verbs.RTSAttr, error) {
	_, a, err := id.c.InitQPAttr(qp.RTS)
	return verbs.RTSAttr{
		SQPSN: uint32(a.SQPSN), Timeout: a.Timeout, RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry, MaxRdAtomic: a.MaxRdAtomic,
	}, err
}

// begin takes a new queue pair as far as is possible without a peer.
func (id *ID) begin(q *verbs.QP) error {
	a, err := id.InitAttr()
	if err != nil { // its connection ended before it began
		return fmt.Errorf("create QP: %w: %w", ErrRequestVoid, err)
	}
	if err := q.ToInit(a); err != nil || q.Type() != verbs.UD {
		return err
	}
	if err := q.ToRTR(verbs.RTRAttr{}); err != nil {
		return err
	}
	return q.ToRTS(verbs.RTSAttr{})
}

// toRTS takes the queue pair through RTR to RTS, once the peer is known. It sets INIT again,
// because the peer's rights are known only now. On the accepting side c has the agreed numbers
// of READs and atomics; on the other side the reply had them, which may be more than the
// device supports.
func (id *ID) toRTS(c *cmid.ConnParam) error {
	q := id.QP()
	if q == nil {
		return nil
	}
	first, err := id.InitAttr()
	if err != nil {
		return err
	}
	if err := q.ToInit(first); err != nil || id.speaks(verbs.IWARP) {
		return err // iWARP takes it to RTS with the connection
	}
	ready, err := id.RTRAttr()
	if err != nil {
		return err
	}
	if c != nil {
		ready.MaxDestRdAtomic = c.ResponderResources
	}
	ready.MaxDestRdAtomic = min(ready.MaxDestRdAtomic, verbs.MaxReadAtomic)
	if err := q.ToRTR(ready); err != nil {
		return err
	}
	last, err := id.RTSAttr()
	if err != nil {
		return err
	}
	if c != nil {
		last.MaxRdAtomic = c.InitiatorDepth
	}
	last.MaxRdAtomic = min(last.MaxRdAtomic, verbs.MaxReadAtomic)
	return q.ToRTS(last)
}

// speaks reports whether the id's device speaks a protocol.
func (id *ID) speaks(p verbs.Protocol) bool {
	dev := id.Device()
	return dev != nil && dev.Protocol() == p
}

// toErr flushes the queue pair, if it has left RESET.
func (id *ID) toErr() {
	if q := id.QP(); q != nil && q.State() != verbs.Reset {
		_ = q.ToErr() // fails only if the queue pair or its device is gone
	}
}
