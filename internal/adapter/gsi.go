package adapter

import (
	"cmp"
	"net/netip"
	"time"

	"softrdma/internal/adapter/gsi"
	"softrdma/internal/cm"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// newGSI makes queue pair 1. It is always there and ready; no driver owns it.
func newGSI(l *packetLane) *QP {
	d := l.dev
	local := d.Local()
	if l.net.Standard() { // the manager tells peers of another UDP port than this
		local = netip.AddrPortFrom(local.Addr(), ib.UDPPort)
	}
	g := gsi.New(l.can.Configurable != nil, cm.Config{
		GUID: d.cfg.GUID, Local: local, MTU: d.cfg.MTU, Random: d.cfg.Random, KeepReasons: d.cfg.KeepReasons,
		Why:    d.Why,
		Refuse: func(why reason.Detail) { d.Trace.Refuse(gsi.QPN, why) },
		Translation: func(peer netip.AddrPort) (own netip.Addr, behind bool) {
			t := Translation(d, peer)
			return t.Own, t.Outer.IsValid()
		},
	})
	q := &QP{lane: &l.lane, packets: l, transport: &transports[qp.UD], Port: machine.Port{QPN: gsi.QPN, Type: qp.UD, Host: d}}
	q.entry.Init((*qpTask)(q))
	q.setMachine(g)
	q.Attr.State, q.Attr.QKey, q.Attr.PathMTU = qp.RTS, gsi.QKey, d.cfg.MTU
	return q
}

// CM calls f with the device's communication manager, which no other goroutine uses
// until f returns, and then sends what the manager has to send. The goroutine that makes the device
// progress calls the manager's handler, which may only queue.
func (d *Device) CM(f func(m *cm.Manager, now time.Duration)) error {
	return d.GSI(func(g *gsi.GSI, now time.Duration) { f(g.CM, now) })
}

// SendMAD sends a management datagram from queue pair 1. The datagram is the device's from
// then on.
func (d *Device) SendMAD(m *gsi.Datagram) error {
	err := d.resolve(&m.Path, m.QPN)
	if err != nil {
		return err
	}
	e := d.GSI(func(g *gsi.GSI, _ time.Duration) { err = g.Send(m) })
	return cmp.Or(e, err)
}

// GSI calls f with queue pair 1, which no other goroutine uses until f returns, and then sends
// what it has to send. The goroutine that makes the device progress calls the handler that f may set.
func (d *Device) GSI(f func(g *gsi.GSI, now time.Duration)) error {
	if d.IWARP() {
		return gsi.ErrStreams
	}
	l := d.packetLane(gsi.QPN)
	if l == nil {
		return gsi.ErrShared
	}
	l.Lock()
	defer l.Unlock()
	if l.closed {
		return ErrClosed
	}
	now := d.clock()
	f(l.gsi.m.(*gsi.GSI), now)
	l.tasks.Set(&l.gsi.entry, l.gsi.m.Deadline())
	l.tasks.Push(&l.gsi.entry)
	l.Transmit(now)
	return nil
}
