package cma

import (
	"softrdma/internal/cm"
	"softrdma/internal/cmid"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// report queues the event for what the communication manager reports about the id's
// connection.
func (id *ID) report(r *report) {
	after := id.state == cmid.Disconnect && r.Kind == cm.EventTimewaitExit
	if id.state != cmid.Connect && !after {
		return
	}
	e := Event{Detail: r.Detail}
	switch r.Kind {
	case cm.EventReqTimeout, cm.EventRepTimeout:
		e.Type, e.Status, e.Err = cmid.EventUnreachable, cmid.StatusTimedOut, &cmid.TimeoutError{Addr: id.remote, Detail: r.Detail}
	case cm.EventRepReceived:
		e.Type, e.Conn = cmid.EventConnectResponse, replied(r.REP, r.Private)
		x := id.conn.(*managed)
		x.asked = nil
		x.delay()
	case cm.EventRtuReceived, cm.EventEstablished:
		e.Type = cmid.EventEstablished
	case cm.EventRejReceived:
		if r.requestNarrower(id) {
			return
		}
		r.tellQP(id)
		e.Type, e.Status, e.Conn.PrivateData = cmid.EventRejected, int(r.Reject), r.Private
		e.Err = &cmid.RejectedError{Addr: id.remote, Reason: r.Reject, PrivateData: r.Private, Detail: r.Detail, Said: r.Said}
	case cm.EventDreqTimeout:
		e.Type, e.Status, e.Err = cmid.EventDisconnected, cmid.StatusTimedOut, &cmid.TimeoutError{Addr: id.remote, Detail: r.Detail}
		id.state = cmid.Disconnect
	case cm.EventDreqReceived, cm.EventDrepReceived, cm.EventStaleConnection:
		e.Type, e.Said = cmid.EventDisconnected, r.Said
		id.state = cmid.Disconnect
		r.tellQP(id)
	case cm.EventTimewaitExit:
		if !after {
			return // the connection was never established, and another event said so
		}
		e.Type = cmid.EventTimewaitExit
	default:
		return // EventMraReceived: the peer asks for more time
	}
	if id.waiting {
		// The program does not know the id as its own yet. Accept returns the
		// error.
		if id.lost == nil {
			id.lost = e.Err
		}
		return
	}
	id.push(e)
}

// tellQP tells the queue pair of an id why the peer rejects or ends the connection, if it says so.
func (r *report) tellQP(id *ID) {
	if x, ok := id.conn.(*managed); ok && r.Said.Reason != reason.None {
		id.dev.dev.PeerLeft(x.c.LocalQPN(), r.Said)
	}
}

// replied returns the parameters of a reply from the point of view of this side.
func replied(p *mad.REP, private []byte) cmid.ConnParam {
	return cmid.ConnParam{
		PrivateData: private, ResponderResources: p.InitiatorDepth, InitiatorDepth: p.ResponderResources,
		FlowControl: p.FlowControl, RNRRetryCount: p.RNRRetryCount, SRQ: p.SRQ, QPN: p.QPN,
	}
}
