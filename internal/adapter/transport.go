package adapter

import (
	"errors"
	"fmt"

	"softrdma/internal/iwarp"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/rc"
	"softrdma/internal/uc"
	"softrdma/internal/ud"
)

// transports is the table of the transports of packets, by the type of queue pair that they
// serve. A new transport is a line here.
var transports = [...]machine.Transport{
	qp.RC: rc.Transport,
	qp.UC: uc.Transport,
	qp.UD: ud.Transport,

	qp.XRCSend: rc.XRCTransport,
	qp.XRCRecv: rc.XRCTransport,
}

// streamTransport is the transport of queue pairs over streams, which is iWARP's. Their machines
// are of package stream.
var streamTransport = machine.Transport{Connected: true, Acknowledged: true}

// transportOf returns the transport of a type of queue pair, or an error that
// wraps errors.ErrUnsupported.
func (d *Device) transportOf(t qp.Type) (*machine.Transport, error) {
	if d.IWARP() {
		return &streamTransport, iwarp.CheckType(t)
	}
	if int(t) < len(transports) && transports[t].Lane != nil {
		return &transports[t], nil
	}
	return nil, fmt.Errorf("%v: %w", t, errors.ErrUnsupported)
}

// makers make a lane's machines, by type of queue pair.
type makers [len(transports)]machine.Maker

// newMakers prepares a lane of a device with a number of lanes.
func newMakers(lanes int) (m makers) {
	for t := range transports {
		if prepare := transports[t].Lane; prepare != nil {
			m[t] = prepare(lanes)
		}
	}
	return m
}

func (q *QP) setMachine(m machine.Machine) { q.m, q.can = m, m.Capabilities() }
