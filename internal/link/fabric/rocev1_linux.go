package fabric

import (
	"net/netip"
	"time"

	"golang.org/x/net/bpf"

	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ethernet"
)

// RoCEv1 is a Link to a port of an Ethernet fabric that carries frames of RoCE v1. The port delivers only
// those for the device.
type RoCEv1 struct {
	*Link
	mac  [6]byte
	name string // of the port
	head Datagram
	flow link.Flow
}

var (
	_ link.Frames  = (*RoCEv1)(nil)
	_ link.Limited = (*RoCEv1)(nil)
)

// NewRoCEv1 returns the frames of the port to which a link is connected, which has a MAC address.
func NewRoCEv1(l *Link, mac [6]byte, name string) *RoCEv1 {
	return &RoCEv1{Link: l, mac: mac, name: name}
}

// Capabilities implements link.Packets. The switches may drop frames.
func (r *RoCEv1) Capabilities() link.Capabilities {
	c := capabilities
	c.Lossless, c.Frame = false, maxEthernet
	c.Watcher, c.Limited = r, r
	return c
}

// Level implements link.Limited: the priority on the fabric, which is that of the traffic class in the
// GRH.
func (*RoCEv1) Level(tos, _ uint8) uint8 { return tos >> priorityShift }

// Send implements link.Packets.
func (r *RoCEv1) Send(tx *link.Tx) error {
	if r.Closed() {
		return link.ErrClosed
	}
	grh := tx.Pieces[0][ethernet.HeaderLen:] // ports have no VLANs, so there is no tag
	r.head.TOS = grh[0]<<4 | grh[1]>>4
	return r.put(&r.head, tx.Size, tx.Pieces, tx.Bytes)
}

// Receive implements link.Packets.
func (r *RoCEv1) Receive(rx *link.Rx) (bool, error) {
	if r.Closed() {
		return false, link.ErrClosed
	}
	r.mu.Lock()
	n, fault := r.single(r.buffer[:])
	r.mu.Unlock()
	r.judge(fault)
	rx.Data, rx.Size, rx.Telemetry = r.buffer[:n], n, r.telemetry()
	return n > 0, nil
}

// single copies the next packet of a message, and returns its length, 0 if there is none.
func (l *Link) single(b []byte) (n int, fault reason.Detail) {
	found, fault := l.message()
	if !found {
		return 0, fault
	}
	n = copy(b[:min(l.batch.Size, len(b))], l.batch.Data[l.read:])
	l.take(n)
	return n, reason.Detail{}
}

// MAC implements link.Frames.
func (r *RoCEv1) MAC() [6]byte { return r.mac }

// VLAN implements link.Frames: the ports have none.
func (*RoCEv1) VLAN() (id uint16, tagged bool) { return 0, false }

// Wire implements link.Frames. All frames leave by the port, which returns those to its own host.
func (r *RoCEv1) Wire() *link.Flow { return &r.flow }

// Host implements link.Frames.
func (r *RoCEv1) Host() *link.Flow { return &r.flow }

// Everywhere implements link.Frames.
func (r *RoCEv1) Everywhere() *link.Flow { return &r.flow }

// Known implements link.Frames.
func (r *RoCEv1) Known(ip netip.Addr) (n link.Neighbour, err error) {
	n.MAC, n.Known = r.port.Host(ip)
	return n, nil
}

// Ask implements link.Frames. The fabric answers at once, or there is no such host.
func (r *RoCEv1) Ask(ip netip.Addr, _ time.Duration) (mac [6]byte, err error) {
	mac, found, err := r.port.FindHost(ip)
	if !found {
		return mac, &link.NeighbourError{Addr: ip, Interface: r.name, Err: err}
	}
	return mac, nil
}

// Filter implements link.Frames. The port steers frames itself.
func (*RoCEv1) Filter([]bpf.Instruction) error { return nil }

// JoinMAC implements link.Frames.
func (r *RoCEv1) JoinMAC(mac [6]byte) error {
	r.port.SetGroup(GroupMAC(mac), true)
	return nil
}

// LeaveMAC implements link.Frames.
func (r *RoCEv1) LeaveMAC(mac [6]byte) error {
	r.port.SetGroup(GroupMAC(mac), false)
	return nil
}
