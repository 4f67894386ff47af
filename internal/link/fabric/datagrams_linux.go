package fabric

import (
	"fmt"
	"net/netip"

	"softrdma/internal/link"
	"softrdma/internal/reason"
)

// Datagrams is a Link to a port of an Ethernet fabric. It carries the payloads of UDP datagrams:
// the fabric's process has the port's network stack, which writes and removes their headers.
type Datagrams struct {
	*Link
	local netip.AddrPort
	flows []datagramFlow // by handle
	reply link.DatagramFlow
	next  Datagram // to send
	last  Datagram // of the batch that Receive reads
}

// A datagramFlow is one source port to a peer.
type datagramFlow struct {
	*link.DatagramFlow
	users int
}

var (
	_ link.Datagrams = (*Datagrams)(nil)
	_ link.Limited   = (*Datagrams)(nil)
)

// NewDatagrams returns the datagrams of an address of the port to which a link is connected.
func NewDatagrams(l *Link, local netip.AddrPort) *Datagrams {
	d := &Datagrams{Link: l, local: local}
	d.reply.Src, d.reply.Handle, d.reply.Segments = local, -1, 1
	return d
}

// Capabilities implements link.Packets. The switches may drop packets, so the link is not lossless.
func (d *Datagrams) Capabilities() link.Capabilities {
	c := capabilities
	c.Lossless, c.Frame = false, 0
	c.Watcher, c.Limited = d, d
	return c
}

// Local implements link.Datagrams.
func (d *Datagrams) Local() netip.AddrPort { return d.local }

// sourcePort is the source port of a label (annex A17.4.3: one of the dynamic range).
func sourcePort(label uint32) uint16 { return 0xc000 | uint16(label^label>>14)&0x3fff }

// OpenFlow implements link.Datagrams. The port's stack numbers no datagrams: it sets "don't
// fragment", and the identification is 0 (RFC 6864 4.1).
func (d *Datagrams) OpenFlow(dst netip.AddrPort, label uint32) (*link.DatagramFlow, error) {
	if dst.Addr().Is4() != d.local.Addr().Is4() {
		return nil, fmt.Errorf("%v: expected an address of the family of %v", dst.Addr(), d.local.Addr())
	}
	src, free := netip.AddrPortFrom(d.local.Addr(), sourcePort(label)), -1
	for i := range d.flows {
		f := &d.flows[i]
		if f.users == 0 {
			free = i
		} else if f.Src == src && f.Dst == dst {
			f.users++
			return f.DatagramFlow, nil
		}
	}
	if free < 0 {
		free = len(d.flows)
		d.flows = append(d.flows, datagramFlow{})
	}
	f := &link.DatagramFlow{Flow: link.Flow{Handle: free}, Src: src, Dst: dst, Numbering: link.Numbering{Segments: 1}}
	d.flows[free] = datagramFlow{f, 1}
	return f, nil
}

// Reply implements link.Datagrams.
func (d *Datagrams) Reply(dst netip.AddrPort) (*link.DatagramFlow, error) {
	d.reply.Dst = dst
	return &d.reply, nil
}

// CloseFlow implements link.Datagrams.
func (d *Datagrams) CloseFlow(f *link.Flow) { d.flows[f.Handle].users-- }

// Join implements link.Datagrams.
func (d *Datagrams) Join(group netip.Addr) error {
	group = group.Unmap()
	if !group.IsMulticast() || group.Is4() != d.local.Addr().Is4() {
		return fmt.Errorf("%v: expected a multicast address of the family of %v", group, d.local.Addr())
	}
	d.port.SetGroup(Group(group), true)
	return nil
}

// Leave implements link.Datagrams.
func (d *Datagrams) Leave(group netip.Addr) error {
	d.port.SetGroup(Group(group.Unmap()), false)
	return nil
}

// Send implements link.Packets. It fails without a fabric, and if the priority's ring is full, see
// Room.
func (d *Datagrams) Send(tx *link.Tx) error {
	if d.Closed() {
		return link.ErrClosed
	}
	f := &d.reply
	if h := tx.Flow.Handle; h >= 0 {
		f = d.flows[h].DatagramFlow
	}
	d.next = Datagram{Src: f.Src, Dst: f.Dst, TOS: tx.TOS, HopLimit: tx.HopLimit}
	return d.put(&d.next, tx.Size, tx.Pieces, tx.Bytes)
}

// put publishes a message at a port of Ethernet, in the ring of its priority.
func (l *Link) put(d *Datagram, size int, pieces [][]byte, n int) error {
	p := d.Priority()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == nil {
		return reason.Detail{Reason: reason.FabricGone, Expected: 1}.Err()
	}
	if !l.end.PutDatagrams(p, d, size, pieces, n) {
		return reason.Detail{Reason: reason.FabricFull, Expected: uint64(p), Found: uint64(n)}.Err()
	}
	if l.end.Sleeps(p) {
		l.ringer.Ring()
	}
	return nil
}

// Receive implements link.Packets.
func (d *Datagrams) Receive(rx *link.Rx) (bool, error) {
	if d.Closed() {
		return false, link.ErrClosed
	}
	d.mu.Lock()
	n, size, fault := d.receive(rx)
	d.mu.Unlock()
	d.judge(fault)
	rx.Data, rx.Size = d.buffer[:n], size
	return n > 0, nil
}

// receive copies the next datagrams out of the rings, as that of Link does packets.
func (d *Datagrams) receive(rx *link.Rx) (n, size int, fault reason.Detail) {
	begins := d.read == 0
	found, fault := d.message()
	if !found {
		return 0, 0, fault
	}
	if begins {
		d.last.Parse(d.batch.Headers)
	}
	rx.Src, rx.Dst, rx.TOS, rx.HopLimit, rx.Telemetry = d.last.Src, d.last.Dst, d.last.TOS, d.last.HopLimit, d.telemetry()
	size = d.batch.Size
	n = copy(d.buffer[:len(d.buffer)/size*size], d.batch.Data[d.read:])
	d.take(n)
	return n, min(n, size), reason.Detail{}
}

// Level implements link.Limited: the priority on the fabric.
func (*Datagrams) Level(tos, _ uint8) uint8 { return tos >> priorityShift }
