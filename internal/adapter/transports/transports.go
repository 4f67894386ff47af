// Package transports is the table of the transports of packets, by the type of queue pair
// that they serve. It prepares what makes their machines on a lane, and drives none of them.
package transports

import (
	"errors"
	"fmt"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/rc"
	"softrdma/internal/uc"
	"softrdma/internal/ud"
)

// A new transport is a line here.
var table = [...]machine.Transport{
	qp.RC: rc.Transport,
	qp.UC: uc.Transport,
	qp.UD: ud.Transport,

	qp.XRCSend: rc.XRCTransport,
	qp.XRCRecv: rc.XRCTransport,
}

// Of returns the transport of a type of queue pair, or an error that wraps
// errors.ErrUnsupported.
func Of(t qp.Type) (*machine.Transport, error) {
	if int(t) < len(table) && table[t].Lane != nil {
		return &table[t], nil
	}
	return nil, fmt.Errorf("%v: %w", t, errors.ErrUnsupported)
}

// UD returns the transport of datagrams.
func UD() *machine.Transport { return &table[qp.UD] }

// stream is the transport of queue pairs over streams, which is iWARP's. Their machines are of
// package stream.
var stream = machine.Transport{Connected: true, Acknowledged: true}

// Stream returns the transport of queue pairs over streams.
func Stream() *machine.Transport { return &stream }

// Makers make a lane's machines, by type of queue pair.
type Makers [len(table)]machine.Maker

// NewMakers prepares a lane of a device with a number of lanes.
func NewMakers(lanes int) (m Makers) {
	for t := range table {
		if prepare := table[t].Lane; prepare != nil {
			m[t] = prepare(lanes)
		}
	}
	return m
}
