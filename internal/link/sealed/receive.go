package sealed

import (
	"encoding/binary"
	"net/netip"

	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/wire/psp"
)

// putUDP writes a UDP header without a checksum, in place of which the packet has its integrity check value.
func putUDP(b []byte, src, dst uint16, length int) {
	binary.BigEndian.PutUint16(b, src)
	binary.BigEndian.PutUint16(b[2:], dst)
	binary.BigEndian.PutUint16(b[4:], uint16(length))
	binary.BigEndian.PutUint16(b[6:], 0)
}

// maxControl bounds the batches without a packet of the device, only with control messages or packets to hold, that one
// Receive reads besides those that were held.
const maxControl = 16

// Receive implements link.Packets. A packet that it refuses is a batch of its own, so that a flood
// of them does not keep the caller.
func (l *Link) Receive(rx *link.Rx) (bool, error) {
	if l.due.Load() {
		l.keepAlive()
	}
	for range maxControl + maxEarly {
		if len(l.rest) == 0 && l.refused.Reason == reason.None {
			if ok, err := l.arrive(rx.Sparse); !ok || err != nil {
				return false, err
			}
		}
		if l.deliver(rx) {
			return true, nil
		}
	}
	return false, nil
}

// arrive takes a batch from the other link, or a packet that was held and is not any longer.
func (l *Link) arrive(sparse bool) (bool, error) {
	a := &l.arrived
	if !l.early.next(a) {
		a.Sparse = sparse
		if ok, err := l.over.Receive(a); !ok || err != nil {
			return false, err
		}
	}
	l.rest = a.Data
	if len(a.Data) == 0 {
		l.refused = reason.Detail{Reason: reason.PSPPacket, Expected: Overhead}
	}
	return true, nil
}

// deliver opens the packets that have arrived. It reports false if there is nothing to deliver.
func (l *Link) deliver(rx *link.Rx) bool {
	a := &l.arrived
	rx.Data, rx.Size, rx.HandedOver, rx.Intact, rx.Refused = nil, 0, false, true, l.refused
	rx.Src, rx.Dst, rx.TOS, rx.HopLimit = a.Src, a.Dst, a.TOS, a.HopLimit
	l.refused = reason.Detail{}
	if rx.Refused.Reason != reason.None {
		return true
	}
	end := udpLen // of the packets in plain
	for len(l.rest) > 0 {
		n := min(max(a.Size, 1), len(l.rest))
		length, src, why := l.open(l.rest[:n:n], end)
		l.rest = l.rest[n:]
		if length > 0 && end > udpLen && src != rx.Src {
			length, why = 0, reason.Detail{Reason: reason.PSPPacket, Expected: uint64(rx.Src.Port()), Found: uint64(src.Port())}
		}
		switch {
		case length > 0 && end == udpLen:
			rx.Src, rx.Dst = src, netip.AddrPortFrom(a.Dst.Addr(), l.local.Port())
			rx.Size = length
		case why.Reason == reason.None:
		case end == udpLen:
			rx.Refused = why
			return true
		default:
			l.refused = why
			rx.Data = l.plain[udpLen:end]
			return true
		}
		end += length
	}
	rx.Data = l.plain[udpLen:end]
	return end > udpLen
}

// open opens a packet: what it protects behind the UDP header goes to plain from at on. The header is
// decrypted to the 8 bytes before, which keep what they had. It returns the length and the source, or the length 0 of
// packets that are refused, held or of the link's own.
func (l *Link) open(b []byte, at int) (length int, src netip.AddrPort, why reason.Detail) {
	refuse := func(r reason.Reason, expected, found uint64) (int, netip.AddrPort, reason.Detail) {
		return 0, netip.AddrPort{}, reason.Detail{Reason: r, Expected: expected, Found: found}
	}
	in := l.last
	if in == nil || len(b) < Overhead || binary.BigEndian.Uint64(b) != in.head || in.revoked.Load() {
		if in, why = l.inbound(b); in == nil {
			return 0, src, why
		}
		if !in.accepted.Load() {
			if from := l.arrived.Src.Addr(); from != in.session.from {
				return refuse(reason.PSPSource, low(in.session.from), low(from))
			}
			return 0, src, l.early.hold(in, &l.arrived, b)
		}
		l.last = in
	}
	if from := l.arrived.Src.Addr(); from != in.from && !in.behind {
		return refuse(reason.PSPSource, low(in.from), low(from))
	}
	head := l.plain[at-udpLen : at]
	before := binary.NativeEndian.Uint64(head)
	data, err := in.key.OpenTo(l.plain[at-udpLen:], b)
	u, own := binary.BigEndian.Uint64(head), b[0] == nextControl
	binary.NativeEndian.PutUint64(head, before)
	length = len(data) - udpLen
	iv := binary.BigEndian.Uint64(b[8:])
	switch {
	case err != nil:
		return refuse(reason.PSPIntegrity, uint64(in.key.SPI()), iv)
	case in.window.Seen(iv):
		return refuse(reason.PSPReplay, uint64(in.key.SPI()), iv)
	case own && len(data) != controlLen, !own && length == 0:
		return refuse(reason.PSPPacket, controlLen, uint64(len(data)))
	case own:
		if in.behind {
			l.follow(in, iv)
		}
		return 0, src, l.controlled(in, iv, u, data)
	case uint16(u>>32) != l.local.Port():
		return refuse(reason.PSPPacket, uint64(l.local.Port()), u>>32&0xffff)
	case int(uint16(u>>16)) != len(data):
		return refuse(reason.PSPPacket, uint64(len(data)), u>>16&0xffff)
	}
	if !in.used.Load() {
		in.used.Store(true)
	}
	if in.behind {
		l.follow(in, iv)
	}
	if in.bytes += uint64(length); in.bytes > l.e.limit && !in.asked {
		in.asked = true
		l.e.renew(in)
	}
	return length, netip.AddrPortFrom(in.from, uint16(u>>48)), reason.Detail{}
}

// inbound returns the key of a packet, nil and the reason if there is none.
func (l *Link) inbound(b []byte) (*inbound, reason.Detail) {
	refuse := func(r reason.Reason, expected, found uint64) (*inbound, reason.Detail) {
		return nil, reason.Detail{Reason: r, Expected: expected, Found: found}
	}
	h, headers, err := psp.Parse(b)
	switch {
	case err != nil:
		return refuse(reason.PSPPacket, psp.HeaderLen+udpLen+psp.ICVLen, uint64(len(b)))
	case headers != psp.HeaderLen || h.CryptOffset != 0 || len(b) < Overhead:
		return refuse(reason.PSPPacket, psp.HeaderLen, uint64(headers+h.CryptOffset))
	case h.Next != psp.NextUDP && h.Next != nextControl:
		return refuse(reason.PSPPacket, psp.NextUDP, uint64(h.Next))
	case h.Drop: // after sampling, which this device does not do
		return refuse(reason.PSPPacket, 0, 1)
	}
	in, n := l.e.find(h.SPI)
	switch {
	case in == nil:
		return refuse(reason.PSPSPI, uint64(n), uint64(h.SPI))
	case h.Version != in.key.Version():
		return refuse(reason.PSPPacket, uint64(in.key.Version()), uint64(h.Version))
	}
	return in, reason.Detail{}
}

// low returns the last four bytes of an address.
func low(a netip.Addr) uint64 {
	b := a.As16()
	return uint64(binary.BigEndian.Uint32(b[12:]))
}
