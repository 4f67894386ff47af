// Package gsi is the machine of queue pair 1, the general services interface (IBTA 13.5),
// whose datagrams are the communication manager's. Like any machine of a lane it makes
// progress when a goroutine polls or posts. It needs no goroutine, queues or memory
// regions of its own. It decides nothing about connections, which package cm does.
package gsi

import (
	"errors"
	"fmt"
	"time"

	"softrdma/internal/cm"
	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
)

const (
	QPN  = 1          // every port's general services interface has it (IBTA 13.5.3)
	QKey = 0x80010000 // its datagrams have it (IBTA 10.2.5)
)

// Devices without a GSI return these errors, which wrap errors.ErrUnsupported.
var (
	// ErrStreams is that of iWARP, which sets connections up by frames on their stream.
	ErrStreams = fmt.Errorf("an iWARP device has no queue pair 1: %w", errors.ErrUnsupported)

	// ErrShared is that of a program's share of an address. Queue pair 1 belongs to the
	// process that shares the address out.
	ErrShared = error(&reason.Error{Detail: reason.Detail{Reason: reason.SlotConnections, Expected: QPN}, Cause: errors.ErrUnsupported})
)

// A GSI is a machine.Machine.
type GSI struct {
	CM *cm.Manager

	refuse func(reason.Detail)
	out    cm.Datagram
	psn    psn.PSN
}

// New makes the machine, and the communication manager with c.
func New(c cm.Config) *GSI { return &GSI{CM: cm.New(c), refuse: c.Refuse} }

// Replies reports whether the datagram that Next has made answers one of a peer that
// nothing is known of.
func (g *GSI) Replies() bool { return g.out.Reply }

// Receive passes a management datagram to the manager.
func (g *GSI) Receive(now time.Duration, in *machine.In) {
	switch {
	case in.Opcode != ib.UDSendOnly: // IBTA 13.5.3: datagrams without immediate data
		g.refuse(reason.Detail{Reason: reason.PacketOpcode, Expected: uint64(ib.UDSendOnly), Found: uint64(in.Opcode)})
	case in.DETH.QKey != QKey:
		g.refuse(reason.Detail{Reason: reason.PacketQKey, Expected: QKey, Found: uint64(in.DETH.QKey)})
	default:
		g.CM.Receive(now, in.Src, in.TOS, in.Payload)
	}
}

// Next fills out with the manager's next datagram.
func (g *GSI) Next(now time.Duration, out *machine.Out) bool {
	if !g.CM.Next(now, &g.out) {
		return false
	}
	// A path's flow label spreads the packets of connections. Few datagrams set
	// one up, and each label would keep a flow open.
	g.out.Path.FlowLabel = 0
	out.BTH = ib.BTH{Opcode: ib.UDSendOnly, DestQPN: QPN, PSN: g.psn}
	out.DETH = ib.DETH{QKey: QKey, SrcQPN: QPN}
	out.Pieces, out.Len, out.Path = append(out.Pieces[:0], g.out.MAD[:]), mad.Len, &g.out.Path
	g.psn = g.psn.Next()
	return true
}

// Deadline is when the manager stops waiting for an answer.
func (g *GSI) Deadline() time.Duration { return g.CM.Deadline() }

// Expire acts on it.
func (g *GSI) Expire(now time.Duration) { g.CM.Expire(now) }

// Transition is never called: queue pair 1 does not leave its state.
func (g *GSI) Transition(time.Duration, qp.State) {}
