package simnet

import (
	"fmt"
	"net/netip"

	"softrdma/internal/link"
	"softrdma/internal/wire/ib"
)

type flow struct {
	link.DatagramFlow
	crc  ib.Prefix
	uses int
	mode link.Fragmentation
}

// check reports why packets cannot be sent to a peer.
func (l *Link) check(dst netip.AddrPort) error {
	switch {
	case l.closed:
		return link.ErrClosed
	case dst.Addr().Is4() != l.local.Addr().Is4():
		return fmt.Errorf("%w: link has %v, peer %v", ErrFamily, l.local.Addr(), dst.Addr())
	}
	return nil
}

// OpenFlow implements link.Datagrams.
func (l *Link) OpenFlow(dst netip.AddrPort, label uint32) (*link.DatagramFlow, error) {
	if err := l.check(dst); err != nil {
		return nil, err
	}
	port := (label ^ label>>14 ^ label>>28) & portMask
	if l.config.Ports > 0 {
		port %= uint32(l.config.Ports)
	}
	return l.flow(netip.AddrPortFrom(l.local.Addr(), uint16(firstPort|port)), dst, label), nil
}

// OpenReturn implements link.Returner.
func (l *Link) OpenReturn(dst netip.AddrPort) (*link.DatagramFlow, error) {
	if err := l.check(dst); err != nil {
		return nil, err
	}
	return l.flow(l.local, dst, 0), nil
}

// flow finds or makes a flow, and adds a user.
func (l *Link) flow(src, dst netip.AddrPort, label uint32) *link.DatagramFlow {
	handle := -1
	for i, f := range l.flows {
		if f == nil {
			handle = i
			continue
		}
		if f.Src == src && f.Dst == dst {
			f.uses++
			return &f.DatagramFlow
		}
	}
	f := &flow{
		DatagramFlow: link.DatagramFlow{Src: src, Dst: dst, Numbering: link.Numbering{Segments: l.config.Segments, Counts: l.config.Counts}},
		crc:          ib.NewPseudoHeader(src, dst), uses: 1,
	}
	if f.Counts {
		f.First = uint16(label * 40503)
	}
	if handle < 0 {
		handle = len(l.flows)
		l.flows = append(l.flows, nil)
	}
	f.Handle = handle
	l.flows[handle] = f
	return &f.DatagramFlow
}

// Reply implements link.Datagrams.
func (l *Link) Reply(dst netip.AddrPort) (*link.DatagramFlow, error) {
	if err := l.check(dst); err != nil {
		return nil, err
	}
	l.reply = flow{DatagramFlow: link.DatagramFlow{Src: l.local, Dst: dst, Numbering: link.Numbering{Segments: 1}}, crc: ib.NewPseudoHeader(l.local, dst), uses: 1}
	return &l.reply.DatagramFlow, nil
}

// CloseFlow implements link.Datagrams.
func (l *Link) CloseFlow(f *link.Flow) {
	if x := l.open(f); x != nil {
		if x.uses--; x.uses == 0 {
			l.flows[f.Handle] = nil
		}
	}
}

// Flows returns the number of open flows.
func (l *Link) Flows() (n int) {
	for _, f := range l.flows {
		if f != nil {
			n++
		}
	}
	return n
}

func (l *Link) open(f *link.Flow) *flow {
	if f == &l.reply.Flow {
		return &l.reply
	}
	if f == nil || uint(f.Handle) >= uint(len(l.flows)) {
		return nil
	}
	if x := l.flows[f.Handle]; x != nil && &x.Flow == f {
		return x
	}
	return nil
}
