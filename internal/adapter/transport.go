package adapter

import (
	"softrdma/internal/adapter/transports"
	"softrdma/internal/iwarp"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
)

// transportOf returns the transport of a type of queue pair, or an error that
// wraps errors.ErrUnsupported.
func (d *Device) transportOf(t qp.Type) (*machine.Transport, error) {
	if d.lanes[0].streams != nil {
		return transports.Stream(), iwarp.CheckType(t)
	}
	return transports.Of(t)
}

// setMachine sets the queue pair's machine and the optional interfaces that it has.
func (q *QP) setMachine(m machine.Machine) {
	q.m = m
	q.receiver, _ = m.(machine.Receiver)
	q.sender, _ = m.(machine.Sender)
	q.flight, _ = m.(machine.InFlightReporter)
	q.follower, _ = m.(machine.Follower)
	q.continuer, _ = m.(machine.Continuer)
}
