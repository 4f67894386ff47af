package cma

import (
	"errors"
	"fmt"
	"time"

	"softrdma/internal/cm"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// ask sends the look-up of a UD id (IBTA 12.11).
func (id *ID) ask(p *ConnParam) error {
	if err := limit("service ID request", p.PrivateData, mad.SIDRReqPrivateLen-mad.IPHeaderLen); err != nil {
		return err
	}
	o := &id.option
	err := id.dev.do(func(c *cm.Manager, now time.Duration) (err error) {
		id.lookup, err = c.Resolve(now, &cm.SIDRParams{
			Service: mad.ServiceOf(id.space, id.remote.Port()), Path: id.route.Path,
			Timeout: o.responseTime(), Retries: o.retries, Private: id.private(p.PrivateData), Context: id,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("look up %v: %w", id.remote, err)
	}
	id.state = Connect
	return nil
}

// answered turns the outcome of a look-up into an event.
func (id *ID) answered(r *report) {
	if id.state != Connect || id.lookup != r.Lookup {
		return
	}
	e := Event{Detail: r.Detail}
	switch {
	case r.Kind == cm.EventSidrTimeout:
		e.Type, e.Status, e.Err = EventUnreachable, StatusTimedOut, &TimeoutError{id.remote, r.Detail}
	case r.SIDRRep.Status != mad.SIDRSuccess:
		e.Type, e.Status, e.UD.PrivateData = EventUnreachable, int(r.SIDRRep.Status), r.Private
		e.Err = &LookupError{id.remote, r.SIDRRep.Status, r.Private, r.Detail}
	default:
		if err := id.decideQKey(r.SIDRRep.QKey); err != nil {
			e.Type, e.Status, e.Err, e.Detail = EventAddrError, StatusInvalid, err, err.detail()
			break
		}
		e.Type = EventEstablished
		e.UD = UDParam{PrivateData: r.Private, Path: id.route.Path, QPN: r.SIDRRep.QPN, QKey: r.SIDRRep.QKey}
	}
	id.push(e)
}

// reply answers an inquiry with the id's queue pair.
func (id *ID) reply(p *ConnParam) error {
	if p == nil {
		return errors.New("expected the queue pair that serves the peer, found no parameters")
	}
	if err := limit("service ID reply", p.PrivateData, mad.SIDRRepPrivateLen); err != nil {
		return err
	}
	if p.QKey != 0 {
		if err := id.decideQKey(p.QKey); err != nil {
			return err
		}
	}
	return id.dev.do(func(_ *cm.Manager, now time.Duration) error {
		return id.inquiry.Reply(now, &cm.SIDRReply{
			Status: mad.SIDRSuccess, QPN: p.QPN, QKey: id.defaultQKey(), Private: p.PrivateData,
		})
	})
}

// refuse answers an inquiry with a refusal.
func (id *ID) refuse(private []byte) error {
	if err := limit("service ID reply", private, mad.SIDRRepPrivateLen); err != nil {
		return err
	}
	return id.dev.do(func(_ *cm.Manager, now time.Duration) error {
		return id.inquiry.Reply(now, &cm.SIDRReply{Status: mad.SIDRRejected, Private: private})
	})
}

// DefaultQKey is the Q_Key of datagrams in the port spaces of IP:
// RDMA_UDP_QKEY.
const DefaultQKey = 0x01234567

// defaultQKey decides the id's Q_Key, unless it is decided.
func (id *ID) defaultQKey() uint32 {
	if id.qkey == 0 {
		id.qkey = DefaultQKey
	}
	return id.qkey
}

// A QKeyError is a second Q_Key for an id, whose queue pair can have one.
type QKeyError struct{ Expected, Found uint32 }

// Error gives both.
func (e *QKeyError) Error() string { return e.detail().String() }

func (e *QKeyError) detail() reason.Detail {
	return reason.Detail{Reason: reason.CMQKey, Expected: uint64(e.Expected), Found: uint64(e.Found)}
}

// decideQKey makes a Q_Key the id's, if it has no other one.
func (id *ID) decideQKey(k uint32) *QKeyError {
	if k == 0 || id.qkey != 0 && id.qkey != k {
		return &QKeyError{id.qkey, k}
	}
	id.qkey = k
	return nil
}
