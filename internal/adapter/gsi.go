package adapter

import (
	"errors"
	"fmt"
	"net/netip"
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
	gsiQPN  = 1          // the general services interface has it on every port (IBTA 13.5.3)
	gsiQKey = 0x80010000 // its datagrams have it (IBTA 10.2.5)
)

// A gsi is the machine of queue pair 1, whose datagrams are the communication
// manager's. Like any machine on the lane, the manager makes progress when a goroutine
// polls or posts. It needs no goroutine, queues or memory regions of its own.
type gsi struct {
	dev *Device
	cm  *cm.Manager
	out cm.Datagram
	psn psn.PSN
}

// errNoGSI: iWARP sets connections up by frames on their stream.
var errNoGSI = fmt.Errorf("an iWARP device has no queue pair 1: %w", errors.ErrUnsupported)

// newGSI makes queue pair 1. It is always there and ready; no driver owns it.
func newGSI(l *lane) *QP {
	d := l.dev
	g := &gsi{dev: d}
	local := d.Local()
	if l.net != nil && l.net.Standard() { // the manager tells peers of another UDP port than this
		local = netip.AddrPortFrom(local.Addr(), ib.UDPPort)
	}
	g.cm = cm.New(cm.Config{
		GUID: d.cfg.GUID, Local: local, MTU: d.cfg.MTU, Random: d.random32,
		Refuse: func(why reason.Detail) { d.Trace.Refuse(gsiQPN, why) },
	})
	q := &QP{lane: l, transport: &transports[qp.UD]}
	q.entry.Init((*qpTask)(q))
	q.setMachine(g)
	q.Port = machine.Port{QPN: gsiQPN, Type: qp.UD, Host: d}
	q.Attr.State, q.Attr.QKey, q.Attr.PathMTU = qp.RTS, gsiQKey, d.cfg.MTU
	return q
}

// CM calls f with the device's communication manager, which nobody else uses
// until f returns, and then sends what the manager has to send. Whoever makes the device
// progress calls the manager's handler, which may only queue.
func (d *Device) CM(f func(m *cm.Manager, now time.Duration)) error {
	l := d.laneOf(gsiQPN)
	if l.streams != nil {
		return errNoGSI
	}
	l.Lock()
	defer l.Unlock()
	if l.closed {
		return ErrClosed
	}
	now := d.clock()
	f(l.gsi.m.(*gsi).cm, now)
	l.tasks.Set(&l.gsi.entry, l.gsi.m.Deadline())
	l.tasks.Push(&l.gsi.entry)
	l.Transmit(now)
	return nil
}

// Receive passes a management datagram to the manager.
func (g *gsi) Receive(now time.Duration, in *machine.In) {
	switch {
	case in.Opcode != ib.UDSendOnly: // IBTA 13.5.3: datagrams without immediate data
		g.refuse(reason.PacketOpcode, uint64(ib.UDSendOnly), uint64(in.Opcode))
	case in.DETH.QKey != gsiQKey:
		g.refuse(reason.PacketQKey, gsiQKey, uint64(in.DETH.QKey))
	default:
		g.cm.Receive(now, in.Src, in.TOS, in.Payload)
	}
}

func (g *gsi) refuse(r reason.Reason, expected, found uint64) {
	g.dev.Trace.Refuse(gsiQPN, reason.Detail{Reason: r, Expected: expected, Found: found})
}

// Next fills out with the manager's next datagram.
func (g *gsi) Next(now time.Duration, out *machine.Out) bool {
	if !g.cm.Next(now, &g.out) {
		return false
	}
	// A path's flow label spreads the packets of connections. Few datagrams set
	// one up, and each label would keep a flow open.
	g.out.Path.FlowLabel = 0
	out.BTH = ib.BTH{Opcode: ib.UDSendOnly, DestQPN: gsiQPN, PSN: g.psn}
	out.DETH = ib.DETH{QKey: gsiQKey, SrcQPN: gsiQPN}
	out.Pieces, out.Len, out.Path = append(out.Pieces[:0], g.out.MAD[:]), mad.Len, &g.out.Path
	g.psn = g.psn.Next()
	return true
}

// Deadline is when the manager stops waiting for an answer.
func (g *gsi) Deadline() time.Duration { return g.cm.Deadline() }

// Expire acts on it.
func (g *gsi) Expire(now time.Duration) { g.cm.Expire(now) }

// Transition is never called: queue pair 1 does not leave its state.
func (g *gsi) Transition(time.Duration, qp.State) {}
