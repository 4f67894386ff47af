package cma

import (
	"fmt"
	"time"

	"softrdma/internal/cm"
	"softrdma/internal/cmid"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// A datagram is what a UD id has instead of a connection: its Q_Key, and look-ups of peers.
type datagram struct {
	at      *endpoint
	qkey    uint32      // 0 if not set yet
	lookup  *cm.Lookup  // that this id has sent
	inquiry *cm.Inquiry // that this id answers
}

// ask sends the look-up of a UD id (IBTA 12.11).
func (u *datagram) ask(p *cmid.ConnParam, context any) error {
	if err := cmid.CheckPrivate("service ID request", p.PrivateData, mad.SIDRReqPrivateLen-mad.IPHeaderLen); err != nil {
		return err
	}
	o := &u.at.option
	err := u.at.dev.do(func(c *cm.Manager, now time.Duration) (err error) {
		u.lookup, err = c.Resolve(now, &cm.SIDRParams{
			Service: mad.ServiceOf(u.at.space, u.at.remote.Port()), Path: u.at.route.Path, PKey: u.at.route.PKey,
			Timeout: o.responseTime(), Retries: o.retries, Private: u.at.private(p.PrivateData), Context: context,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("look up %v: %w", u.at.remote, err)
	}
	return nil
}

// outcome is the event for the result of a look-up.
func (u *datagram) outcome(r *report) Event {
	e := Event{Detail: r.Detail}
	switch {
	case r.Kind == cm.EventSidrTimeout:
		e.Type, e.Status, e.Err = cmid.EventUnreachable, cmid.StatusTimedOut, &cmid.TimeoutError{Addr: u.at.remote, Detail: r.Detail}
	case r.SIDRRep.Status != mad.SIDRSuccess:
		e.Type, e.Status, e.UD.PrivateData = cmid.EventUnreachable, int(r.SIDRRep.Status), r.Private
		e.Err = &cmid.LookupError{Addr: u.at.remote, Status: r.SIDRRep.Status, PrivateData: r.Private, Detail: r.Detail}
	default:
		if err := u.decideQKey(r.SIDRRep.QKey); err != nil {
			e.Type, e.Status, e.Err, e.Detail = cmid.EventAddrError, cmid.StatusInvalid, err, err.Detail()
			break
		}
		e.Type = cmid.EventEstablished
		e.UD = cmid.UDParam{PrivateData: r.Private, Path: u.at.route.Path, QPN: r.SIDRRep.QPN, QKey: r.SIDRRep.QKey}
	}
	return e
}

// abandon releases the look-ups in the device's communication manager.
func (u *datagram) abandon() {
	if u.lookup == nil && u.inquiry == nil {
		return
	}
	_ = u.at.dev.do(func(_ *cm.Manager, now time.Duration) error { // fails if the device is closed, which needs no cleanup
		if u.lookup != nil {
			u.lookup.Destroy(now)
		}
		if u.inquiry != nil {
			u.inquiry.Destroy(now)
		}
		return nil
	})
	u.lookup, u.inquiry = nil, nil
}

// reply answers an inquiry with the id's queue pair.
func (u *datagram) reply(p *cmid.ConnParam) error {
	if p == nil {
		return reason.BadArgument(0, 0, "expected the queue pair that serves the peer, found no parameters")
	}
	if err := cmid.CheckPrivate("service ID reply", p.PrivateData, mad.SIDRRepPrivateLen); err != nil {
		return err
	}
	if p.QKey != 0 {
		if err := u.decideQKey(p.QKey); err != nil {
			return err
		}
	}
	return u.at.dev.do(func(_ *cm.Manager, now time.Duration) error {
		return u.inquiry.Reply(now, &cm.SIDRReply{
			Status: mad.SIDRSuccess, QPN: p.QPN, QKey: u.defaultQKey(), Private: p.PrivateData,
		})
	})
}

// refuse refuses an inquiry.
func (u *datagram) refuse(private []byte) error {
	if err := cmid.CheckPrivate("service ID reply", private, mad.SIDRRepPrivateLen); err != nil {
		return err
	}
	return u.at.dev.do(func(_ *cm.Manager, now time.Duration) error {
		return u.inquiry.Reply(now, &cm.SIDRReply{Status: mad.SIDRRejected, Private: private})
	})
}

// defaultQKey sets the id's Q_Key if it has none.
func (u *datagram) defaultQKey() uint32 {
	if u.qkey == 0 {
		u.qkey = cmid.DefaultQKey
	}
	return u.qkey
}

// findQKey gives an id of IP over InfiniBand the Q_Key of its partition's broadcast group, as Linux
// does (cma_set_qkey). It waits for the administrator. It fails if the id is not in the state that
// it had before.
func (u *datagram) findQKey(op string, state cmid.State) error {
	if u.at.space != cmid.PortSpaceIPoIB || u.qkey != 0 {
		return nil
	}
	f := u.at.dev.fabric
	var key uint32
	var err error
	u.at.m.apart(func() { key, err = f.DatagramKey() })
	if e := u.at.want(op, state); e != nil {
		return e
	}
	if err != nil {
		return fmt.Errorf("Q_Key of IP over InfiniBand: %w", err)
	}
	if e := u.decideQKey(key); e != nil {
		return e
	}
	return nil
}

// decideQKey sets the id's Q_Key. It fails if the id has another one.
func (u *datagram) decideQKey(k uint32) *cmid.QKeyError {
	if k == 0 || u.qkey != 0 && u.qkey != k {
		return &cmid.QKeyError{Expected: u.qkey, Found: k}
	}
	u.qkey = k
	return nil
}

// attr returns the attributes of a UD queue pair, which do not depend on a
// peer.
func (u *datagram) attr(to qp.State) (qp.Mask, qp.Attr, error) {
	switch to {
	case qp.Init:
		return qp.MaskState | qp.MaskPKeyIndex | qp.MaskPort | qp.MaskQKey,
			qp.Attr{State: qp.Init, Port: 1, QKey: u.defaultQKey(), PKeyIndex: u.at.pkeyIndex()}, nil
	case qp.RTR:
		return qp.MaskState, qp.Attr{State: qp.RTR}, nil
	case qp.RTS:
		return qp.MaskState | qp.MaskSQPSN, qp.Attr{State: qp.RTS, SQPSN: psn.PSN(u.at.m.random() >> 8)}, nil
	}
	return 0, qp.Attr{}, reason.BadArgument(0, 0, "expected INIT, RTR or RTS, found %v", to)
}
