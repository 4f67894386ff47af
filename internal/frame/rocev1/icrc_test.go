package rocev1

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"softrdma/internal/wire/ib"
)

// slowICRC computes the ICRC of a packet from its GRH on, one bit at a time, from the
// text of IBTA 7.8.1 alone: the CRC-32 of Ethernet with generator 0x04c11db7, most
// significant coefficient first, each byte's least significant bit first, the register
// preset to ones and the remainder complemented.
func slowICRC(packet []byte) [4]byte {
	covered := make([]byte, 0, 8+len(packet))
	for range 8 { // masked LRH
		covered = append(covered, 0xff)
	}
	for i, b := range packet[:len(packet)-4] {
		switch i {
		case 0:
			b = b&0xf0 | 0x0f // the upper half of the traffic class
		case 1, 2, 3: // the rest of it and the flow label
			b = 0xff
		case 7: // hop limit
			b = 0xff
		case 40 + 4: // resv8a
			b = 0xff
		}
		covered = append(covered, b)
	}
	register := uint32(0xffffffff)
	for _, b := range covered {
		for bit := range 8 {
			in := uint32(b>>bit) & 1
			out := register >> 31
			register <<= 1
			if in != out {
				register ^= 0x04c11db7
			}
		}
	}
	register = ^register
	// x^31 leaves first, in the least significant bit of the first byte.
	var icrc [4]byte
	for i := range 32 {
		if register>>(31-i)&1 != 0 {
			icrc[i/8] |= 1 << (i % 8)
		}
	}
	return icrc
}

func TestICRCIsThatOfAnIndependentImplementation(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8915))
	addrs := []string{"10.0.0.1", "10.0.0.2", "fe80::202:c9ff:fe01:2345", "2001:db8::7", "ff0e::ffff:e001:203"}
	for i := range 500 {
		src, dst := netip.MustParseAddr(addrs[i%4]), netip.MustParseAddr(addrs[(i/4)%5])
		prefix := ICRCPrefix(src, dst)
		for range 4 {
			packet := make([]byte, ib.GRHLen+ib.BTHLen+4*r.IntN(300)+ib.ICRCLen)
			for k := range packet {
				packet[k] = byte(r.Uint32())
			}
			b := packet[ib.GRHLen:]
			h := ib.GRH{TrafficClass: byte(r.Uint32()), FlowLabel: r.Uint32N(1 << 20), PayLen: uint16(len(b)),
				NextHeader: ib.NextBTH, HopLimit: byte(r.Uint32()), SGID: src.As16(), DGID: dst.As16()}
			h.Put(packet)
			want := slowICRC(packet)
			if got := prefix.Sum(0, b); got != binary.LittleEndian.Uint32(want[:]) {
				t.Fatalf("%v to %v, %d bytes: ICRC %08x, expected %x", src, dst, len(b), got, want)
			}
		}
	}
}
