package cma

import (
	"bytes"
	"errors"
	"net/netip"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/cmid"
	"softrdma/internal/iwarp"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// A streamed is a connection over a stream of an iWARP device.
type streamed struct {
	id *ID
	s  *adapter.Stream
}

// streamRights are the access rights of a queue pair over iWARP; memory regions
// restrict them further. The number of READs and atomics is negotiated when it
// connects.
const streamRights = qp.RemoteWrite | qp.RemoteRead | qp.RemoteAtomic

// streamAttr returns the attributes of a queue pair over iWARP. It moves to RTS by
// itself when it connects, as with Linux's iw_cm.
func streamAttr(to qp.State) (qp.Mask, qp.Attr, error) {
	switch to {
	case qp.Init, qp.RTR:
		return qp.MaskState | qp.MaskPKeyIndex | qp.MaskPort | qp.MaskAccess, qp.Attr{State: to, Port: 1, Access: streamRights}, nil
	case qp.RTS:
		return 0, qp.Attr{State: to}, nil
	}
	return 0, qp.Attr{}, reason.BadArgument(0, 0, "expected INIT, RTR or RTS, found %v", to)
}

func (x *streamed) attr(to qp.State) (qp.Mask, qp.Attr, error) { return streamAttr(to) }

func (x *streamed) ready() error {
	return reason.BadArgument(0, 0, "expected a connect response, found none: iWARP connects queue pairs without one")
}

func (x *streamed) accept(p *cmid.ConnParam) error {
	if err := cmid.CheckPrivate("connect reply", p.PrivateData, mad.REPPrivateLen); err != nil {
		return err
	}
	return x.s.Accept(p.QPN, streamParams(p))
}

func (x *streamed) reject(_ mad.RejectReason, private []byte) error {
	if err := cmid.CheckPrivate("rejection", private, mad.REJPrivateLen); err != nil {
		return err
	}
	return x.s.Reject(private)
}

func (x *streamed) disconnect() error { return x.s.Disconnect() }

// establish has nothing to do: TCP does not lose set-up messages.
func (x *streamed) establish() error { return nil }

func (x *streamed) release() { x.s.Release() }

// streamParams converts the parameters for a stream.
func streamParams(p *cmid.ConnParam) *iwarp.Params {
	return &iwarp.Params{IRD: uint16(p.ResponderResources), ORD: uint16(p.InitiatorDepth), Private: p.PrivateData}
}

// dial connects the id's queue pair over a stream.
func (id *ID) dial(p *cmid.ConnParam) error {
	params := streamParams(p)
	// Peer-to-peer mode exists to let a responder send first. The first FPDU of the
	// requester, which the stream sends in any case, is enough for that. Linux's
	// iw_cm crashes if a peer-to-peer connection ends before its first frame.
	params.ClientServer = true
	o := &id.option
	if o.responseTimeout != 0 || o.retries != 0 {
		wait := o.responseTime()
		if wait == 0 {
			wait = 4096 * time.Nanosecond << 20
		}
		params.Timeout = wait * time.Duration(o.retries+1)
	}
	d := id.dev
	cfg := &adapter.DialConfig{Dst: id.remote, TOS: o.tos, QPN: p.QPN, Params: *params, Context: id}
	if !id.ephemeral {
		cfg.Port = id.local.Port()
	}
	s, err := d.dev.Dial(cfg, func(e *adapter.StreamEvent) { d.m.inbox.addStream(d, e) })
	if err != nil {
		return err
	}
	id.conn = &streamed{id, s}
	if at := s.Local(); at.Port() != 0 { // chosen by the system if this side did not
		id.local = netip.AddrPortFrom(id.local.Addr(), at.Port())
	}
	return nil
}

// listenStream listens on an iWARP device. Another program may use an ephemeral
// port that was chosen here; then it chooses another one.
func (id *ID) listenStream(d *device) error {
	for tries := 64; ; tries-- {
		l, err := d.dev.ListenStream(id.local.Port(), id.backlog, func(e *adapter.StreamEvent) { d.m.inbox.addStream(d, e) })
		if err == nil {
			id.listens = append(id.listens, listening{dev: d, s: l})
			d.listeners[l] = id
			return nil
		}
		if !errors.Is(err, adapter.ErrPortTaken) {
			return err
		}
		if !id.ephemeral || len(id.listens) > 0 || tries == 0 {
			return &cmid.PortError{Space: id.space, Addr: id.local, Owner: id.local, Err: cmid.ErrAddrInUse}
		}
		id.m.dropPort(id)
		if err := id.m.drawPort(id); err != nil {
			return err
		}
	}
}

// addStream queues an event of a stream.
func (b *inbox) addStream(d *device, e *adapter.StreamEvent) {
	k := *e
	k.Private = bytes.Clone(e.Private)
	b.put(report{dev: d, stream: &k})
}

// streamRequest creates an id for a connect request.
func (m *Manager) streamRequest(d *device, e *adapter.StreamEvent) {
	l := d.listeners[e.Listener]
	if l == nil || l.state != cmid.Listen {
		e.On.Release() // the listener was destroyed while the request was in the inbox
		return
	}
	if d.dev.RejectRequest(e.On.Remote().Addr()) != 0 {
		_ = e.On.Reject(nil) // MPA has one reason; fails if the peer has gone
		e.On.Release()
		return
	}
	id := l.ch.newID(l.space, l.kind)
	id.Context = l.Context
	id.state, id.waiting, id.option.device.Protocol = cmid.Connect, true, cmid.IWARP
	id.local, id.remote = e.On.Local(), e.On.Remote()
	d.uses++
	id.use(d)
	id.conn, e.On.Context = &streamed{id, e.On}, id
	id.route = Route{Path: qp.Path{Dst: id.remote, HopLimit: hopLimit}, MTU: d.dev.MTU()}
	a := &e.Agreement
	p := cmid.ConnParam{
		PrivateData:        padded(e.Private, mad.REQPrivateLen-mad.IPHeaderLen),
		ResponderResources: depth(a.IRD), InitiatorDepth: depth(a.ORD),
	}
	if a.Revision < 2 { // revision 1 does not transmit them
		p.ResponderResources, p.InitiatorDepth = adapter.MaxReadAtomic, adapter.MaxReadAtomic
	}
	l.ch.push(Event{Type: cmid.EventConnectRequest, ID: id, Listener: l, Conn: p})
}

// depth limits a number of READs to what the verbs support.
func depth(n uint16) uint8 { return uint8(min(n, adapter.MaxReadAtomic)) }

// padded extends private data with zeros to its length over InfiniBand, which
// programs expect.
func padded(b []byte, n int) []byte {
	if len(b) >= n {
		return b
	}
	return append(b, make([]byte, n-len(b))...)
}

// streamReport queues the event for what is reported about the id's stream.
func (id *ID) streamReport(r *adapter.StreamEvent) {
	if id.state != cmid.Connect {
		return
	}
	if x, ok := id.conn.(*streamed); !ok || x.s != r.On {
		return
	}
	e := Event{Detail: r.Detail}
	switch r.Kind {
	case iwarp.Established:
		if at := r.On.Local(); at.Port() != 0 { // if the link did not know it before
			id.local = netip.AddrPortFrom(id.local.Addr(), at.Port())
		}
		e.Type = cmid.EventEstablished
		e.Conn = cmid.ConnParam{
			PrivateData:        padded(r.Private, mad.REPPrivateLen),
			ResponderResources: depth(r.Agreement.IRD), InitiatorDepth: depth(r.Agreement.ORD),
		}
	case iwarp.Rejected:
		e.reject(id.remote, mad.RejectConsumer, padded(r.Private, mad.REJPrivateLen))
	case iwarp.Refused:
		e.refuse(id.remote, r.Err)
	case iwarp.Closed:
		e.Type = cmid.EventDisconnected
		if r.Detail.Reason == reason.StreamTimeout || r.Detail.Reason == reason.PeerSilent {
			e.Err = &cmid.TimeoutError{Addr: id.remote, Detail: r.Detail} // the peer has not ended it
		}
		id.state = cmid.Disconnect
	default:
		return
	}
	if id.waiting {
		// The program does not know the id as its own yet. Accept returns the
		// error.
		id.lost = &cmid.StreamError{Addr: id.remote, Detail: r.Detail, Err: r.Err}
		return
	}
	id.push(e)
}

// reject makes e the event of a refusal by the peer.
func (e *Event) reject(peer netip.AddrPort, why mad.RejectReason, private []byte) {
	e.Type, e.Status, e.Conn.PrivateData = cmid.EventRejected, int(why), private
	e.Err = &cmid.RejectedError{Addr: peer, Reason: why, PrivateData: private, Detail: e.Detail}
}

// refuse makes e the event of a failed set-up, with the same values as over
// InfiniBand.
func (e *Event) refuse(peer netip.AddrPort, behind error) {
	switch e.Detail.Reason {
	case reason.ConnectRefused:
		e.reject(peer, mad.RejectInvalidServiceID, nil)
	case reason.StreamClosed, reason.StreamLost:
		// A driver that cannot serve the request closes the stream, as Linux's siw does.
		e.reject(peer, mad.RejectNoResources, nil)
	case reason.ConnectFailed, reason.MPATimeout, reason.StreamTimeout:
		e.Type, e.Status, e.Err = cmid.EventUnreachable, cmid.StatusTimedOut, &cmid.TimeoutError{Addr: peer, Detail: e.Detail}
	default:
		e.Type, e.Status, e.Err = cmid.EventConnectError, cmid.StatusInvalid, &cmid.StreamError{Addr: peer, Detail: e.Detail, Err: behind}
	}
}
