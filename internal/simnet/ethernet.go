package simnet

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/net/bpf"

	"softrdma/internal/link"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

const (
	// frontLen is the length of the headers of an untagged frame.
	frontLen = ethernet.HeaderLen + ib.GRHLen

	sgidAt = ethernet.HeaderLen + 8
	dgidAt = ethernet.HeaderLen + 24
)

// An EthernetLink is a Link that carries frames of RoCE v1. It implements link.Frames.
//
// The network routes frames by their GIDs and treats what follows the GRH like a packet of
// RoCE v2.
type EthernetLink struct {
	*Link
	flow   link.Flow
	accept *bpf.VM
	frame  []byte // last received frame
}

var _ link.Frames = (*EthernetLink)(nil)

// Ethernet makes links carry frames of RoCE v1.
func Ethernet(links []*Link) (all []*EthernetLink) {
	for _, l := range links {
		all = append(all, &EthernetLink{Link: l})
	}
	return all
}

// MAC implements link.Frames. Lanes of one address share a MAC address.
func (l *EthernetLink) MAC() [6]byte { return macOf(l.local.Addr()) }

// macOf returns the MAC address of the links with an address.
func macOf(a netip.Addr) [6]byte {
	b := a.As16()
	return [6]byte{0x02, 0, b[12], b[13], b[14], b[15]}
}

// VLAN implements link.Frames.
func (l *EthernetLink) VLAN() (uint16, bool) { return 0, false }

// Wire, Host and Everywhere implement link.Frames.
func (l *EthernetLink) Wire() *link.Flow       { return &l.flow }
func (l *EthernetLink) Host() *link.Flow       { return &l.flow }
func (l *EthernetLink) Everywhere() *link.Flow { return &l.flow }

// Known implements link.Frames.
func (l *EthernetLink) Known(ip netip.Addr) (link.Neighbour, error) {
	return link.Neighbour{Known: true, MAC: macOf(ip)}, nil
}

// Ask implements link.Frames.
func (l *EthernetLink) Ask(ip netip.Addr, _ time.Duration) ([6]byte, error) { return macOf(ip), nil }

// Filter implements link.Frames.
func (l *EthernetLink) Filter(accept []bpf.Instruction) (err error) {
	l.accept, err = bpf.NewVM(accept)
	return err
}

// JoinMAC and LeaveMAC implement link.Frames.
func (l *EthernetLink) JoinMAC(mac [6]byte) error {
	l.macs = append(l.macs, mac)
	return nil
}

func (l *EthernetLink) LeaveMAC(mac [6]byte) error {
	i := slices.Index(l.macs, ethernet.MAC(mac))
	if i < 0 {
		return fmt.Errorf("%w: %x", ErrGroup, mac)
	}
	l.macs = slices.Delete(l.macs, i, i+1)
	return nil
}

// Send implements link.Packets. It checks that the adapter keeps the contract of batches and
// that each frame has the correct ICRC.
func (l *EthernetLink) Send(tx *link.Tx) error {
	if l.closed {
		return link.ErrClosed
	}
	l.Batches++
	all := slices.Concat(tx.Pieces...)
	if tx.Size <= frontLen || len(all) != tx.Bytes || len(all) > link.MaxBatch || len(all) > link.MaxPackets*tx.Size {
		return fmt.Errorf("%w: %d bytes (said to be %d) in frames of %d", ErrBatch, len(all), tx.Bytes, tx.Size)
	}
	for b := range slices.Chunk(all, tx.Size) {
		if len(b) < frontLen+ib.BTHLen+ib.ICRCLen {
			return fmt.Errorf("%w: frame of %d bytes", ErrBatch, len(b))
		}
		p := l.net.packet(len(b) - frontLen)
		copy(p.data, b[frontLen:])
		p.front = append(p.front[:0], b[:frontLen]...)
		p.src, p.dst = p.gid(sgidAt, l.local.Port()), p.gid(dgidAt, l.local.Port())
		p.tos, p.hops = b[ethernet.HeaderLen]<<4|b[ethernet.HeaderLen+1]>>4, b[ethernet.HeaderLen+7]
		if undetected(p) || l.config.AnyICRC {
			l.net.note(noteSent, l.index, p)
			l.out.pass(l.net, l.index, place{}, p)
			continue
		}
		l.net.drop(p)
		err := fmt.Errorf("%w: frame of %d bytes", ErrICRC, len(b))
		if l.Wrong == nil {
			l.Wrong = err
		}
		return err
	}
	return nil
}

// gid returns the endpoint of a GID in a frame's headers.
func (p *packet) gid(at int, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16([16]byte(p.front[at:])).Unmap(), port)
}

// Receive implements link.Packets. A batch is one frame.
func (l *EthernetLink) Receive(rx *link.Rx) (bool, error) {
	if l.closed {
		return false, link.ErrClosed
	}
	for l.head < len(l.inbox) {
		p := l.inbox[l.head]
		l.inbox[l.head] = nil
		l.head++
		l.bytes -= len(p.data)
		class := p.front[ethernet.HeaderLen:]
		class[0], class[1] = class[0]&0xf0|p.tos>>4, class[1]&0x0f|p.tos<<4
		l.frame = append(append(l.frame[:0], p.front...), p.data...)
		l.net.drop(p)
		n, err := l.accept.Run(l.frame)
		if err != nil {
			return false, err
		}
		if n > 0 {
			*rx = link.Rx{Data: l.frame, Size: len(l.frame), Sparse: rx.Sparse}
			return true, nil
		}
	}
	return false, nil
}
