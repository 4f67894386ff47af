package cma

import (
	"net/netip"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/cm"
	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// request creates an id for a connect request or an inquiry and queues the event
// for the listener, or refuses it. Like Linux's rdma_cm it refuses as a program
// would, with reject reason 28 or SIDR status 2.
func (m *Manager) request(r *report) {
	l := r.dev.listeners[r.Listener]
	if l == nil || l.state != cmid.Listen {
		r.discard(reason.Detail{Reason: reason.CMReleased}) // the listener was destroyed while the request was in the inbox
		return
	}
	var h mad.IPHeader
	if why := l.match(r, &h); why.Reason != reason.None {
		r.dev.refuse(why)
		r.discard(why)
		return
	}
	if why := r.dev.dev.RejectRequest(h.Src); why != 0 {
		r.discardFor(mad.RejectReason(why))
		return
	}
	id := l.ch.newID(l.space, l.kind)
	id.Context = l.Context
	id.state, id.waiting = cmid.Connect, true
	if l.space == cmid.PortSpaceIPoIB {
		id.datagram.qkey = l.datagram.qkey
	}
	id.local = netip.AddrPortFrom(r.dev.addr(), l.local.Port())
	id.remote = netip.AddrPortFrom(h.Src.WithZone(id.local.Addr().Zone()), h.Port)
	if outer := adapter.Translation(r.dev.dev, r.Source).Outer; outer.IsValid() { // what the peer says is of another network
		id.remote = netip.AddrPortFrom(outer.Addr(), h.Port)
	}
	r.dev.uses++
	id.use(r.dev)
	e := Event{Type: cmid.EventConnectRequest, ID: id, Listener: l}
	private := r.Private[mad.IPHeaderLen:]
	if r.Inquiry != nil {
		id.datagram.inquiry = r.Inquiry
		id.route = Route{Path: r.Inquiry.Path(), MTU: r.dev.dev.MTU(), PacketLifeTime: cm.DefaultPacketLifeTime}
		e.UD = cmid.UDParam{PrivateData: private}
	} else {
		x := &managed{dev: r.dev, c: r.Conn}
		id.conn, r.Conn.Context = x, id
		id.route = Route{Path: r.Conn.Path(), MTU: r.REQ.MTU.Bytes(), PacketLifeTime: cm.DefaultPacketLifeTime}
		if r.dev.fabric != nil {
			id.route.GID, id.route.PKey, id.route.Rate = r.REQ.Primary.LocalGID.Addr(), r.REQ.PKey, r.REQ.Primary.PacketRate
		}
		e.Conn = requested(r.REQ, private)
		// If the peer asks again, tell it to wait: the program may take a long
		// time.
		x.delay()
	}
	l.ch.push(e)
}

// requested returns the parameters of a request from the point of view of this
// side: the READs that the peer serves are those that this side may initiate.
func requested(q *mad.REQ, private []byte) cmid.ConnParam {
	return cmid.ConnParam{
		PrivateData: private, ResponderResources: q.InitiatorDepth, InitiatorDepth: q.ResponderResources,
		FlowControl: q.FlowControl, RetryCount: q.RetryCount, RNRRetryCount: q.RNRRetryCount, SRQ: q.SRQ, QPN: q.QPN,
	}
}

// match returns why a request is not for the listener, or no reason if it is (annex
// A11.3.2).
func (at *endpoint) match(r *report, h *mad.IPHeader) reason.Detail {
	if !h.Parse(r.Private) || h.Version != 0 {
		return reason.Detail{
			Reason: reason.CMIPHeader, Expected: 0, Found: uint64(h.Version)<<8 | uint64(h.IPVersion),
		}
	}
	local, dst := r.dev.addr().WithZone(""), h.Dst.Unmap()
	own := adapter.Translation(r.dev.dev, r.Source).Own
	if dst != local && dst != own || at.option.afOnly && dst.Is4() != at.local.Addr().Is4() {
		return reason.Detail{Reason: reason.CMIPAddress, Expected: low(local), Found: low(dst)}
	}
	if h.Src.IsUnspecified() || h.Src.IsMulticast() || h.Src.Is4() != h.Dst.Is4() {
		return reason.Detail{Reason: reason.CMIPAddress, Expected: low(r.Source.Addr()), Found: low(h.Src)}
	}
	if t := r.kind(); t != at.kind {
		return reason.Detail{Reason: reason.CMServiceType, Expected: uint64(at.kind), Found: uint64(t)}
	}
	return reason.Detail{}
}

// low returns the last four bytes of an address.
func low(a netip.Addr) (v uint64) {
	b := a.As16()
	for _, x := range b[12:] {
		v = v<<8 | uint64(x)
	}
	return v
}

// kind returns the service type that a request asks for.
func (r *report) kind() qp.Type {
	if r.Inquiry != nil {
		return qp.UD
	}
	return r.Conn.Type()
}

// discardFor rejects a request for a reason, which a rule of faults names.
func (r *report) discardFor(why mad.RejectReason) {
	if r.Inquiry == nil {
		_ = r.dev.do(func(_ *cm.Manager, now time.Duration) error { return r.Conn.Reject(now, why, nil, nil) })
	}
	r.discard(reason.Detail{Reason: reason.FaultInjected, Found: uint64(why)})
}

// discard refuses a request for which no id was created.
func (r *report) discard(why reason.Detail) {
	_ = r.dev.do(func(_ *cm.Manager, now time.Duration) error { // fails if the device is closed, which has forgotten the request
		if r.Inquiry != nil {
			r.Inquiry.Destroy(now)
		} else {
			r.Conn.Decline(now, why)
		}
		return nil
	})
}
