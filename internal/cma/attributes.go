package cma

import (
	"fmt"

	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// InitQPAttr returns the attributes for the transition of the id's queue pair to
// INIT, RTR or RTS. Those of a connection are known once there is a request or
// reply; before that INIT has no access rights. If the peer of a request has gone
// away the error is a *VoidError.
func (id *ID) InitQPAttr(to qp.State) (qp.Mask, qp.Attr, error) {
	id.m.lock()
	defer id.m.unlock()
	switch {
	case id.dev != nil:
	case id.state == cmid.DeviceRemoval, id.state == cmid.Destroying:
		return 0, qp.Attr{}, id.want(fmt.Sprintf("attributes for %v", to), cmid.AddrBound, cmid.AddrResolved, cmid.RouteResolved, cmid.Connect)
	default:
		return 0, qp.Attr{}, fmt.Errorf("attributes for %v: %w", to, errNotResolved)
	}
	mask, attr, err := id.attr(to)
	if err != nil {
		return 0, qp.Attr{}, fmt.Errorf("attributes for %v: %w", to, err)
	}
	o := &id.option
	if mask&qp.MaskTimeout != 0 && o.ackTimeoutSet {
		attr.Timeout = o.ackTimeout
	}
	if mask&qp.MaskMinRNRTimer != 0 && o.minRNRSet {
		attr.MinRNRTimer = o.minRNR
	}
	return mask, attr, nil
}

var errNotResolved = reason.BadArgument(0, 0, "expected an id with a device, found none: its address is not resolved")

func (id *ID) attr(to qp.State) (mask qp.Mask, attr qp.Attr, err error) {
	if id.kind == qp.UD {
		return id.datagram.attr(to)
	}
	if id.lost != nil {
		return 0, attr, &cmid.VoidError{Addr: id.remote, Err: id.lost}
	}
	if id.iwarp() {
		return streamAttr(to)
	}
	if id.conn == nil {
		if to != qp.Init {
			return 0, attr, reason.BadArgument(0, 0, "expected a connection, found none")
		}
		return qp.MaskState | qp.MaskPKeyIndex | qp.MaskPort | qp.MaskAccess, qp.Attr{State: qp.Init, Port: 1, PKeyIndex: id.pkeyIndex()}, nil
	}
	return id.conn.attr(to)
}

// pkeyIndex is the place of the P_Key of queue pairs that no connection has chosen one for.
func (at *endpoint) pkeyIndex() (index uint16) {
	if f := at.dev.fabric; f != nil {
		_, index = f.Partition()
	}
	return index
}
