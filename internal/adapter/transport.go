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

// transports are the transports of packets, by the type of queue pair that they
// serve. A new one is a line here.
var transports = [...]machine.Transport{
	qp.RC: rc.Transport,
	qp.UC: uc.Transport,
	qp.UD: ud.Transport,
}

// overStream is the transport of queue pairs over streams, which is iWARP's. Their
// machines are of package stream.
var overStream = machine.Transport{Connected: true, Acknowledged: true}

// transportOf returns the transport of a type of queue pair, or an error that
// wraps errors.ErrUnsupported.
func (d *Device) transportOf(t qp.Type) (*machine.Transport, error) {
	if d.lanes[0].streams != nil {
		return &overStream, iwarp.CheckType(t)
	}
	if int(t) < len(transports) && transports[t].Lane != nil {
		return &transports[t], nil
	}
	return nil, fmt.Errorf("%v: %w", t, errors.ErrUnsupported)
}

// makers are what makes a lane's machines, by type of queue pair.
type makers [len(transports)]machine.Maker

func newMakers(lanes int) (m makers) {
	for t := range transports {
		if prepare := transports[t].Lane; prepare != nil {
			m[t] = prepare(lanes)
		}
	}
	return m
}

// setMachine sets the queue pair's machine and the optional interfaces that it has.
func (q *QP) setMachine(m machine.Machine) {
	q.m = m
	q.receiver, _ = m.(machine.Receiver)
	q.sender, _ = m.(machine.Sender)
	q.flight, _ = m.(machine.InFlightReporter)
	q.continuer, _ = m.(machine.Continuer)
}
