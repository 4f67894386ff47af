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
	if d.IWARP() {
		return transports.Stream(), iwarp.CheckType(t)
	}
	return transports.Of(t)
}

func (q *QP) setMachine(m machine.Machine) { q.m, q.can = m, m.Capabilities() }
