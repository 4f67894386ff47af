package adapter

import (
	"fmt"

	"softrdma/internal/adapter/gsi"
	"softrdma/internal/adapter/partition"
	"softrdma/internal/frame"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A PortConfig is what a subnet manager may change of a device's port.
type PortConfig struct {
	frame.Port
	MTU   int             // active, bytes
	PKeys partition.Table // as many entries each time
}

// Configure changes the port of a device on an InfiniBand fabric. Queue pairs and flows
// follow at once.
func (d *Device) Configure(p *PortConfig) {
	d.mtu.Store(int64(p.MTU))
	d.pkeys.Store(&p.PKeys)
	d.lockedPackets(func(l *packetLane) { l.configure(p) })
}

func (l *packetLane) configure(p *PortConfig) {
	l.network.flush()
	l.pkeys = p.PKeys
	if n := l.can.Configurable; n != nil {
		n.Configure(&p.Port)
	}
	l.flows.reroute()
	for _, q := range l.qps {
		if !q.transport.Connected {
			q.Attr.PathMTU = p.MTU
		}
	}
	if l.gsi != nil {
		l.gsi.Attr.PathMTU = p.MTU
		l.gsi.m.(*gsi.GSI).Configure(&p.Port, p.MTU, p.PKeys)
	}
}

// PKeys returns the port's P_Key table, which the caller does not change.
func (d *Device) PKeys() partition.Table { return *d.pkeys.Load() }

// checkPort checks the attributes that name entries of the port's tables or depend on its
// MTU.
func (q *QP) checkPort(mask qp.Mask, a *qp.Attr) error {
	if err := qp.ValidatePKey(mask, a, len(q.lane.dev.PKeys())); err != nil {
		return err
	}
	if mtu := q.lane.dev.MTU(); mask&qp.MaskPathMTU != 0 && a.PathMTU > mtu {
		return fmt.Errorf("path MTU %d exceeds the port's active MTU %d", a.PathMTU, mtu)
	}
	return nil
}

// putPKey writes the P_Key of the queue pair into a packet, and reports whether there is one
// (IBTA 10.9).
func (l *packetLane) putPKey(q *QP, h *ib.BTH, index uint16) bool {
	h.PKey = l.pkeys.Key(index)
	if partition.Valid(h.PKey) {
		return true
	}
	q.sendError = reason.Detail{Reason: reason.SendPKey, Expected: uint64(len(l.pkeys)), Found: uint64(index)}
	l.dev.Trace.Refuse(q.QPN, q.sendError)
	return false
}

// inPartition reports whether the packet in l.in has a P_Key of the port (IBTA 9.6.1). A
// packet to queue pair 1 may have any of them (IBTA 10.9).
func (l *packetLane) inPartition() (ok bool) {
	l.in.PKeyIndex, ok = l.pkeys.Find(l.in.PKey)
	return ok
}

// admits reports whether the packet in l.in has the queue pair's own P_Key (IBTA 10.9.3).
func (q *QP) admits(key uint16) bool {
	return len(q.packets.pkeys) == 1 || q.QPN == gsi.QPN || partition.Match(q.packets.pkeys.Key(q.Attr.PKeyIndex), key)
}
