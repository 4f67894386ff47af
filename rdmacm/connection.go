package rdmacm

import (
	"errors"
	"fmt"

	"softrdma/internal/cmid"
	"softrdma/internal/reason"
	"softrdma/verbs"
)

// Connect asks the destination for a connection or, in PortSpaceUDP, for its queue
// pair (rdma_connect). EventEstablished, EventConnectResponse, EventRejected,
// EventUnreachable or EventConnectError follows. Nil means the zero ConnParam.
func (id *ID) Connect(p *ConnParam) error {
	if p == nil {
		p = &ConnParam{}
	}
	c, err := p.request(id.PortSpace())
	if err == nil {
		err = id.c.Connect(id.describe(c))
	}
	if err != nil {
		return fmt.Errorf("connect to %v: %w", id.RemoteAddr(), public(err))
	}
	return nil
}

// describe adds the id's queue pair, if it has one.
func (id *ID) describe(c *cmid.ConnParam) *cmid.ConnParam {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.qp != nil {
		c.QPN, c.SRQ = id.qp.Number(), id.srq
	}
	return c
}

// Accept accepts a connect request or lookup (rdma_accept). It moves the queue pair
// to RTS; EventEstablished follows when the peer is ready. No event follows the
// answer to a lookup. Nil means the zero ConnParam. The error wraps ErrRequestVoid
// if the request cannot be accepted.
func (id *ID) Accept(p *ConnParam) error {
	if p == nil {
		p = &ConnParam{}
	}
	c, err := p.accept(id.PortSpace(), &id.asked)
	if err != nil {
		return fmt.Errorf("accept %v: %w", id.RemoteAddr(), err)
	}
	if !id.datagram() {
		err = id.toRTS(c)
	}
	if err == nil {
		err = id.c.Accept(id.describe(c))
	}
	if err != nil {
		id.toErr()
		return fmt.Errorf("accept %v: %w: %w", id.RemoteAddr(), ErrRequestVoid, public(err))
	}
	return nil
}

// Reject rejects a connect request or lookup (rdma_reject) with up to
// MaxPrivateReject bytes of private data, in PortSpaceUDP MaxPrivateAnswer.
func (id *ID) Reject(private []byte) error {
	limit := MaxPrivateReject
	if id.datagram() {
		limit = MaxPrivateAnswer
	}
	err := checkPrivate(private, limit)
	if err == nil {
		err = id.c.Reject(private)
	}
	if err != nil {
		return fmt.Errorf("reject %v: %w", id.RemoteAddr(), public(err))
	}
	return nil
}

// Disconnect ends the connection, or answers a peer that ended it
// (rdma_disconnect). It moves the queue pair to ERR. EventDisconnected follows when
// the peer has answered.
func (id *ID) Disconnect() error {
	// An iWARP stream ends in order while the queue pair works, and then moves it to
	// ERR. Data of completed requests may still be in flight.
	if !id.speaks(verbs.IWARP) {
		id.toErr()
	}
	err := id.c.Disconnect()
	id.toErr()
	if err != nil {
		return fmt.Errorf("disconnect from %v: %w", id.RemoteAddr(), public(err))
	}
	return nil
}

// Establish completes the connection of an id without a queue pair after
// EventConnectResponse (rdma_establish).
func (id *ID) Establish() error {
	if id.QP() != nil {
		return reason.BadArgument(0, 1, "establish: expected an id without a queue pair, found one: Next establishes it")
	}
	if err := id.c.Accept(nil); err != nil {
		return fmt.Errorf("establish the connection to %v: %w", id.RemoteAddr(), public(err))
	}
	return nil
}

// Notify reports an event of the id's queue pair (rdma_notify).
// verbs.EventCommEst establishes an accepted connection whose peer already sends
// although its last message of the set-up was lost. Other events are refused.
func (id *ID) Notify(e verbs.EventType) error {
	if e != verbs.EventCommEst {
		return reason.BadArgument(uint64(verbs.EventCommEst), uint64(e), "notify: expected %v, found %v", verbs.EventCommEst, e)
	}
	if err := id.c.Establish(); err != nil {
		return fmt.Errorf("notify: %w", public(err))
	}
	return nil
}

// progress does what librdmacm does with an event before the program sees it. It
// reports whether the program sees the event.
func (id *ID) progress(e *Event) bool {
	if id.gone() {
		return false
	}
	id.mu.Lock()
	broken, hasQP := id.broken, id.qp != nil
	id.mu.Unlock()
	switch e.Type {
	case EventConnectResponse:
		if hasQP {
			return id.respond(e)
		}
	case EventRejected:
		if broken {
			return false
		}
		if id.deliver == nil { // otherwise the end does, after it has set the reason
			id.toErr()
		}
	case EventDisconnected:
		return !broken
	case EventMulticastJoin:
		id.joined(e)
	}
	return true
}

// respond moves the queue pair to RTS and tells the peer. It reports false if the
// peer has given up or the device was closed: the event that says so follows.
func (id *ID) respond(e *Event) bool {
	err := id.toRTS(nil)
	if err == nil {
		err = id.c.Accept(nil)
	}
	if err == nil {
		e.Type = EventEstablished
		return true
	}
	id.toErr()
	if errors.Is(err, cmid.ErrOver) || id.c.Removed() {
		return false
	}
	id.mu.Lock()
	id.broken = true
	id.mu.Unlock()
	e.Type, e.Status = EventConnectError, cmid.StatusInvalid
	e.Err = fmt.Errorf("establish the connection to %v: %w", id.RemoteAddr(), public(err))
	return true
}
