package cma

import (
	"bytes"
	"fmt"
	"time"

	"softrdma/internal/cm"
	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// Connect sends a connect request, or for a UD id a look-up. The answer arrives as
// an event. EventConnectResponse must be accepted with Accept(nil) when the queue
// pair is in RTS. A UD id gets EventEstablished. EventRejected and EventUnreachable
// report failure.
func (id *ID) Connect(p *cmid.ConnParam) error {
	id.m.lock()
	defer id.m.unlock()
	if err := id.want("connect", cmid.RouteResolved); err != nil {
		return err
	}
	if id.kind == qp.UD {
		err := id.datagram.ask(p, id)
		if err == nil {
			id.state = cmid.Connect
		}
		return err
	}
	if err := cmid.CheckPrivate("connect request", p.PrivateData, mad.REQPrivateLen-mad.IPHeaderLen); err != nil {
		return err
	}
	connect := id.request
	if id.iwarp() {
		connect = id.dial
	}
	if err := connect(p); err != nil {
		return fmt.Errorf("connect to %v: %w", id.remote, err)
	}
	id.state = cmid.Connect
	return nil
}

// request sends a connect request with the device's communication manager.
func (id *ID) request(p *cmid.ConnParam) error {
	o, x := &id.option, &managed{dev: id.dev, asked: remember(p)}
	err := id.dev.do(func(c *cm.Manager, now time.Duration) (err error) {
		x.c, err = c.Connect(now, &cm.ConnectParams{
			Service: mad.ServiceOf(id.space, id.remote.Port()), Path: id.route.Path, Type: id.kind,
			QPN: p.QPN, PathMTU: id.route.MTU, PacketLifeTime: id.route.PacketLifeTime,
			RemoteGID: id.route.GID, PKey: id.route.PKey, PacketRate: id.route.Rate,
			ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
			RetryCount: min(p.RetryCount, 7), RNRRetryCount: min(p.RNRRetryCount, 7),
			FlowControl: p.FlowControl, SRQ: p.SRQ,
			RemoteResponseTimeout: o.responseTimeout, LocalResponseTimeout: o.responseTimeout, Retries: o.retries,
			Private: id.private(p.PrivateData), Context: id,
		})
		return err
	})
	if err == nil {
		id.conn = x
	}
	return err
}

// remember keeps a copy of the parameters of a request, because the caller owns the
// private data.
func remember(p *cmid.ConnParam) *cmid.ConnParam {
	q := *p
	q.PrivateData = bytes.Clone(p.PrivateData)
	return &q
}

// requestNarrower repeats a request that the peer rejected for its path MTU, with
// the MTU that the rejection allows (IBTA 12.6.7.2, reason 26). Each repetition has
// a smaller MTU, so a peer that rejects every MTU ends the sequence. It reports
// whether it repeated the request.
func (r *report) requestNarrower(id *ID) bool {
	x, ok := id.conn.(*managed)
	if !ok || x.asked == nil || r.Reject != mad.RejectInvalidMTU {
		return false
	}
	mtu := mad.AcceptableMTU(r.ARI).Bytes()
	if mtu == 0 || mtu >= id.route.MTU {
		return false
	}
	id.route.MTU = mtu
	x.release()
	return id.request(x.asked) == nil
}

// private returns the private data of a request with the IP header in front (annex
// A11.3.2).
func (at *endpoint) private(data []byte) []byte {
	b := make([]byte, mad.IPHeaderLen+len(data))
	h := mad.NewIPHeader(at.local, at.remote.Addr())
	h.Put(b)
	copy(b[mad.IPHeaderLen:], data)
	return b
}

// Accept accepts a connect request. p names the queue pair, which the program has
// moved to RTS. With a nil p it completes a connect response. If the peer of the
// request has gone away the error is a *VoidError.
func (id *ID) Accept(p *cmid.ConnParam) error {
	id.m.lock()
	defer id.m.unlock()
	if err := id.want("accept", cmid.Connect); err != nil {
		return err
	}
	var err error
	switch {
	case id.lost != nil:
		err = &cmid.VoidError{Addr: id.remote, Err: id.lost}
	case id.datagram.inquiry != nil:
		err = id.datagram.reply(p)
	case id.conn == nil:
		return reason.BadArgument(0, 0, "accept: expected a connect request or response, found none")
	case p == nil:
		err = id.conn.ready()
	default:
		err = id.conn.accept(p)
	}
	if err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	id.waiting = false
	return nil
}

// Reject refuses a connect request, an inquiry or a connect response as a program
// does (reason 28). The program should then destroy the id.
func (id *ID) Reject(private []byte) error { return id.RejectFor(mad.RejectConsumer, private) }

// RejectFor is Reject with another reason. An inquiry has only one reason.
func (id *ID) RejectFor(why mad.RejectReason, private []byte) error {
	id.m.lock()
	defer id.m.unlock()
	if err := id.want("reject", cmid.Connect); err != nil {
		return err
	}
	var err error
	switch {
	case id.datagram.inquiry != nil:
		err = id.datagram.refuse(private)
	case id.conn == nil:
		return reason.BadArgument(0, 0, "reject: expected a connect request or response, found none")
	default:
		err = id.conn.reject(why, private)
	}
	if err != nil {
		return fmt.Errorf("reject: %w", err)
	}
	return nil
}

// Decline says why Destroy rejects a request that was not answered: a softrdma peer is told.
func (id *ID) Decline(why reason.Detail) {
	id.m.lock()
	defer id.m.unlock()
	if x, ok := id.conn.(*managed); ok {
		x.why = why
	}
}

// Disconnect ends the connection or answers the peer's request to end it. The
// program must move the queue pair to ERR before.
func (id *ID) Disconnect() error {
	id.m.lock()
	defer id.m.unlock()
	if err := id.want("disconnect", cmid.Connect, cmid.Disconnect); err != nil {
		return err
	}
	if id.conn == nil {
		return reason.BadArgument(0, 0, "disconnect: expected a connection, found an id of service type %v", id.kind)
	}
	if err := id.conn.disconnect(); err != nil {
		return fmt.Errorf("disconnect: %w", err)
	}
	return nil
}

// Establish reports that the queue pair received a packet before the peer's
// ready-to-use message, which may be lost (the asynchronous event
// IBV_EVENT_COMM_EST; rdma_notify).
func (id *ID) Establish() error {
	id.m.lock()
	defer id.m.unlock()
	if err := id.want("establish", cmid.Connect); err != nil {
		return err
	}
	if id.conn == nil {
		return reason.BadArgument(0, 0, "establish: expected a connection, found an id of service type %v", id.kind)
	}
	return id.conn.establish()
}

// abandon releases everything that the id has at its device's communication
// manager.
func (id *ID) abandon() {
	if id.conn != nil {
		id.conn.release()
		id.conn = nil
	}
	id.datagram.abandon()
}
