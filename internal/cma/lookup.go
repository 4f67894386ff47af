package cma

import (
	"fmt"
	"time"

	"softrdma/internal/cm"
	"softrdma/internal/cmid"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// ask sends the look-up of a UD id (IBTA 12.11).
func (id *ID) ask(p *cmid.ConnParam) error {
	if err := cmid.CheckPrivate("service ID request", p.PrivateData, mad.SIDRReqPrivateLen-mad.IPHeaderLen); err != nil {
		return err
	}
	o := &id.option
	err := id.dev.do(func(c *cm.Manager, now time.Duration) (err error) {
		id.lookup, err = c.Resolve(now, &cm.SIDRParams{
			Service: mad.ServiceOf(id.space, id.remote.Port()), Path: id.route.Path, PKey: id.route.PKey,
			Timeout: o.responseTime(), Retries: o.retries, Private: id.private(p.PrivateData), Context: id,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("look up %v: %w", id.remote, err)
	}
	id.state = cmid.Connect
	return nil
}

// answered queues the event for the result of a look-up.
func (id *ID) answered(r *report) {
	if id.state != cmid.Connect || id.lookup != r.Lookup {
		return
	}
	e := Event{Detail: r.Detail}
	switch {
	case r.Kind == cm.EventSidrTimeout:
		e.Type, e.Status, e.Err = cmid.EventUnreachable, cmid.StatusTimedOut, &cmid.TimeoutError{Addr: id.remote, Detail: r.Detail}
	case r.SIDRRep.Status != mad.SIDRSuccess:
		e.Type, e.Status, e.UD.PrivateData = cmid.EventUnreachable, int(r.SIDRRep.Status), r.Private
		e.Err = &cmid.LookupError{Addr: id.remote, Status: r.SIDRRep.Status, PrivateData: r.Private, Detail: r.Detail}
	default:
		if err := id.decideQKey(r.SIDRRep.QKey); err != nil {
			e.Type, e.Status, e.Err, e.Detail = cmid.EventAddrError, cmid.StatusInvalid, err, err.Detail()
			break
		}
		e.Type = cmid.EventEstablished
		e.UD = cmid.UDParam{PrivateData: r.Private, Path: id.route.Path, QPN: r.SIDRRep.QPN, QKey: r.SIDRRep.QKey}
	}
	id.push(e)
}

// reply answers an inquiry with the id's queue pair.
func (id *ID) reply(p *cmid.ConnParam) error {
	if p == nil {
		return reason.BadArgument(0, 0, "expected the queue pair that serves the peer, found no parameters")
	}
	if err := cmid.CheckPrivate("service ID reply", p.PrivateData, mad.SIDRRepPrivateLen); err != nil {
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

// refuse refuses an inquiry.
func (id *ID) refuse(private []byte) error {
	if err := cmid.CheckPrivate("service ID reply", private, mad.SIDRRepPrivateLen); err != nil {
		return err
	}
	return id.dev.do(func(_ *cm.Manager, now time.Duration) error {
		return id.inquiry.Reply(now, &cm.SIDRReply{Status: mad.SIDRRejected, Private: private})
	})
}

// defaultQKey sets the id's Q_Key if it has none.
func (id *ID) defaultQKey() uint32 {
	if id.qkey == 0 {
		id.qkey = cmid.DefaultQKey
	}
	return id.qkey
}

// findQKey gives an id of IP over InfiniBand the Q_Key of its partition's broadcast group, as Linux
// does (cma_set_qkey). It waits for the administrator. It fails if the id is not in the state that
// it had before.
func (id *ID) findQKey(op string, state cmid.State) error {
	if id.space != cmid.PortSpaceIPoIB || id.qkey != 0 {
		return nil
	}
	f := id.dev.fabric
	var key uint32
	var err error
	id.m.apart(func() { key, err = f.DatagramKey() })
	if e := id.want(op, state); e != nil {
		return e
	}
	if err != nil {
		return fmt.Errorf("Q_Key of IP over InfiniBand: %w", err)
	}
	if e := id.decideQKey(key); e != nil {
		return e
	}
	return nil
}

// decideQKey sets the id's Q_Key. It fails if the id has another one.
func (id *ID) decideQKey(k uint32) *cmid.QKeyError {
	if k == 0 || id.qkey != 0 && id.qkey != k {
		return &cmid.QKeyError{Expected: id.qkey, Found: k}
	}
	id.qkey = k
	return nil
}
