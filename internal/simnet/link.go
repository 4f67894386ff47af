package simnet

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"softrdma/internal/frame/rocev1"
	"softrdma/internal/link"
	"softrdma/internal/steering"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

const (
	defaultReceiveBuffer = 4 << 20

	// firstPort and portMask are the source ports of flows, as Linux folds
	// flow labels to them (rdma_flow_label_to_udp_sport).
	firstPort = 0xc000
	portMask  = 0x3fff
)

// Errors of a simulated link.
var (
	ErrFamily = errors.New("address of the wrong family")
	ErrFlow   = errors.New("flow not open on this link")
	ErrBatch  = errors.New("batch out of limits")
	ErrGroup  = errors.New("not a multicast group of this link")
	ErrICRC   = errors.New("sent with a wrong ICRC")
	// ErrWait is returned by Wait: on virtual time the network drives devices.
	ErrWait = errors.New("a simulated link cannot wait")
)

// A LinkConfig configures a link. The zero value suits most uses.
type LinkConfig struct {
	Egress, Ingress Faults // towards the network and from it

	// ReceiveBuffer is how many bytes may wait for Receive; 0 means 4 MiB.
	ReceiveBuffer int

	// Segments is the value for opened flows (see link.Numbering).
	Segments int

	// Counts is the value for opened flows (see link.Numbering).
	Counts bool

	// Ports limits the source ports of flows; 0 means all 16,384.
	Ports int

	// NoCoalescing makes Receive deliver packets one by one. Otherwise waiting packets of one
	// flow and size form one batch, as with the system's receive offload.
	NoCoalescing bool

	// Steer chooses the lane where a packet arrives (see Network.AttachLanes). Nil means
	// steering.PacketLane.
	Steer func(packet []byte, lanes int) int

	// Ethernet makes the device on the link speak RoCE v1, see Ethernet.
	Ethernet bool

	// AnyICRC makes Send accept packets with a wrong ICRC. Otherwise it refuses them: the
	// sender must know the identification of the sent packet.
	AnyICRC bool
}

// A Link is one attachment to the network. It implements link.Datagrams.
type Link struct {
	net    *Network
	index  int
	local  netip.AddrPort
	config LinkConfig
	lanes  []*Link // all lanes of the address, in the first one if there are several
	nat    *NAT    // that it is behind; nil if it is behind none
	closed bool

	out, in direction
	flows   []*flow
	reply   flow
	groups  []netip.Addr
	macs    []ethernet.MAC // of groups, of an EthernetLink

	segments func(*packet) // receives what arrives, if the link carries TCP

	inbox  []*packet // from head on
	head   int
	bytes  int // waiting in the inbox
	buffer []byte

	// Batches counts the batches that were sent.
	Batches int
	// Overruns counts packets lost because the receive buffer was full.
	Overruns int
	// Wrong is the first packet that Send refused for its ICRC, if any.
	Wrong error
}

var _ link.Datagrams = (*Link)(nil)

// SetFaults changes the faults of both directions, for later packets.
func (l *Link) SetFaults(egress, ingress Faults) { l.out.faults, l.in.faults = egress, ingress }

// Stats returns the counts of both directions.
func (l *Link) Stats() (egress, ingress Stats) { return l.out.stats, l.in.stats }

// RestartPeak resets the peaks of both directions.
func (l *Link) RestartPeak() { l.out.stats.Peak, l.in.stats.Peak = 0, 0 }

// Local implements link.Datagrams.
func (l *Link) Local() netip.AddrPort { return l.local }

// Send implements link.Packets. It checks that the adapter keeps the contract of batches.
func (l *Link) Send(tx *link.Tx) error {
	if l.closed {
		return link.ErrClosed
	}
	f := l.open(tx.Flow)
	if f == nil {
		return ErrFlow
	}
	l.Batches++
	total := 0
	for _, b := range tx.Pieces {
		total += len(b)
	}
	if tx.Size <= 0 || total != tx.Bytes || total > link.MaxBatch || total > link.MaxPackets*tx.Size {
		return fmt.Errorf("%w: %d bytes (said to be %d) in packets of %d", ErrBatch, total, tx.Bytes, tx.Size)
	}
	if mtu := l.out.faults.MTU; mtu > 0 && tx.Size > mtu && f.mode != link.Fragmented {
		return &link.MTUError{MTU: mtu, Size: tx.Size, Err: syscall.EMSGSIZE}
	}
	return l.cut(f, tx, total)
}

// cut divides a batch into packets and sends them.
func (l *Link) cut(f *flow, tx *link.Tx, total int) error {
	piece, at := 0, 0
	i := 0
	for ; total > 0; i++ {
		p := l.net.packet(min(tx.Size, total))
		total -= len(p.data)
		for n := 0; n < len(p.data); {
			b := tx.Pieces[piece][at:]
			k := copy(p.data[n:], b)
			n, at = n+k, at+k
			if k == len(b) {
				piece, at = piece+1, 0
			}
		}
		p.src, p.dst, p.tos, p.hops = f.Src, f.Dst, tx.TOS, tx.HopLimit
		p.fragments = f.mode == link.Fragmented
		if err := l.strict(f, i, p); err != nil {
			l.net.drop(p)
			return err
		}
		l.net.note(noteSent, l.index, p)
		l.out.pass(l.net, l.index, place{nat: l.behind()}, p)
	}
	if f.Counts {
		f.First += uint16(f.datagram(i-1)) + 1
	}
	return nil
}

// behind returns the link if its packets have to be translated, and nil if they have not.
func (l *Link) behind() *Link {
	if l.nat == nil {
		return nil
	}
	return l
}

// datagram returns the index of the datagram that contains packet i of a batch.
func (f *flow) datagram(i int) int {
	if f.Segments > 0 {
		return i / f.Segments
	}
	return 0
}

// strict checks a packet as a receiver does that sees the identification.
func (l *Link) strict(f *flow, i int, p *packet) error {
	if l.config.AnyICRC {
		return nil
	}
	id := i - f.datagram(i)*f.Segments
	if f.Counts {
		id += f.datagram(i)
	}
	id += int(f.First)
	if len(p.data) < ib.BTHLen+ib.ICRCLen || f.crc.Sum(uint16(id), p.data) != ib.ICRC(p.data) {
		err := fmt.Errorf("%w: packet %d of a batch, %d bytes", ErrICRC, i, len(p.data))
		if l.Wrong == nil {
			l.Wrong = err
		}
		return err
	}
	return nil
}

// lane returns the link of l's address where a packet arrives.
func (l *Link) lane(packet []byte) *Link {
	if len(l.lanes) < 2 {
		return l
	}
	steer := l.config.Steer
	if steer == nil {
		steer = steering.PacketLane
	}
	return l.lanes[steer(packet, len(l.lanes))]
}

// enqueue queues a packet for Receive and reports whether there was room.
func (l *Link) enqueue(p *packet) bool {
	if l.closed || l.bytes+len(p.data) > l.config.ReceiveBuffer {
		l.Overruns++
		l.net.lose(noteBufferFull, l.index, p)
		return false
	}
	l.net.note(noteReceived, l.index, p)
	if l.segments != nil {
		l.segments(p)
		l.net.drop(p)
		return true
	}
	if l.head > 0 && len(l.inbox) == cap(l.inbox) {
		l.inbox = l.inbox[:copy(l.inbox, l.inbox[l.head:])]
		l.head = 0
	}
	l.inbox = append(l.inbox, p)
	l.bytes += len(p.data)
	return true
}

func (l *Link) wants(group netip.AddrPort) bool {
	if l.closed || group.Port() != l.local.Port() {
		return false
	}
	if mac, ok := rocev1.MulticastMAC(group.Addr()); ok && slices.Contains(l.macs, mac) {
		return true
	}
	return slices.Contains(l.groups, group.Addr())
}

// Receive implements link.Packets.
func (l *Link) Receive(rx *link.Rx) (bool, error) {
	if l.closed {
		return false, link.ErrClosed
	}
	if l.head == len(l.inbox) {
		return false, nil
	}
	first := l.inbox[l.head]
	rx.Src, rx.Dst, rx.TOS, rx.HopLimit, rx.Size = first.src, first.dst, first.tos, first.hops, len(first.data)
	l.buffer = l.buffer[:0]
	for l.head < len(l.inbox) {
		p := l.inbox[l.head]
		if p != first && (l.config.NoCoalescing || !joins(rx, p) || len(l.buffer)+len(p.data) > link.MaxBatch) {
			break
		}
		l.buffer = append(l.buffer, p.data...)
		l.bytes -= len(p.data)
		l.inbox[l.head] = nil
		l.head++
		l.net.drop(p)
		if len(p.data) < rx.Size {
			break // a shorter packet ends a batch
		}
	}
	rx.Data = l.buffer
	return true, nil
}

// joins reports whether a packet can be the next of a batch.
func joins(rx *link.Rx, p *packet) bool {
	return p.src == rx.Src && p.dst == rx.Dst && p.tos == rx.TOS && p.hops == rx.HopLimit &&
		len(p.data) <= rx.Size && len(p.data) > 0
}

// Wait implements link.Packets. It fails.
func (l *Link) Wait(time.Duration) error { return ErrWait }

// Wake implements link.Packets.
func (l *Link) Wake() {}

// Join implements link.Datagrams.
func (l *Link) Join(group netip.Addr) error {
	if !group.IsMulticast() || group.Is4() != l.local.Addr().Is4() {
		return fmt.Errorf("%w: %v", ErrGroup, group)
	}
	l.groups = append(l.groups, group)
	return nil
}

// Leave implements link.Datagrams.
func (l *Link) Leave(group netip.Addr) error {
	for i, g := range l.groups {
		if g == group {
			l.groups = append(l.groups[:i], l.groups[i+1:]...)
			return nil
		}
	}
	return fmt.Errorf("%w: %v", ErrGroup, group)
}

// Capabilities implements link.Packets.
func (l *Link) Capabilities() link.Capabilities {
	return link.Capabilities{Packets: link.MaxPackets, Bytes: link.MaxBatch, ReceiveBuffer: l.config.ReceiveBuffer, Segmentation: l.config.Segments == 0, Fragmenter: l, Returner: l}
}

// Close implements link.Packets.
func (l *Link) Close() error {
	l.closed = true
	return nil
}
