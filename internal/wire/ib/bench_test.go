package ib

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func benchPackets() map[string]*Packet {
	return map[string]*Packet{
		"send":   {BTH: BTH{Opcode: RCSendOnly, PKey: 0xffff}, Payload: make([]byte, 1024)},
		"write":  {BTH: BTH{Opcode: RCWriteOnlyImm, PKey: 0xffff}, RETH: RETH{1, 2, 1024}, Payload: make([]byte, 1024)},
		"atomic": {BTH: BTH{Opcode: RCCompareSwap, PKey: 0xffff}, AtomicETH: AtomicETH{1, 2, 3, 4}},
		"ack":    {BTH: BTH{Opcode: RCAcknowledge, PKey: 0xffff}},
	}
}

func BenchmarkParse(b *testing.B) {
	for name, p := range benchPackets() {
		data := wire(p)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var q Packet
			for b.Loop() {
				if q.Parse(data) != OK {
					b.Fatal("refused")
				}
			}
		})
	}
}

func BenchmarkPutHeaders(b *testing.B) {
	for name, p := range benchPackets() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var h [MaxHeaderLen]byte
			for b.Loop() {
				p.PutHeaders(h[:])
			}
		})
	}
}

func BenchmarkICRC(b *testing.B) {
	h := NewPseudoHeader(v4src, v4dst)
	for _, n := range []int{64, 1024, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			p := signed(rand.New(rand.NewPCG(1, 1)), &h, 0, n/4)
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				h.Sum(0, p)
			}
		})
	}
}

func BenchmarkCheckerHiddenIdentification(b *testing.B) {
	h := NewPseudoHeader(v4src, v4dst)
	p := signed(rand.New(rand.NewPCG(1, 1)), &h, 0x4321, 256)
	b.ReportAllocs()
	b.SetBytes(int64(len(p)))
	var c Checker
	for b.Loop() {
		if _, ok := c.Check(&h, 0, p); !ok {
			b.Fatal("refused")
		}
	}
}

func TestPacketPathAllocatesNothing(t *testing.T) {
	h := NewPseudoHeader(v4src, v4dst)
	var c Checker
	var q Packet
	var out [MaxHeaderLen]byte
	buf := make([]byte, 0, 2048)
	for name, p := range benchPackets() {
		data := wire(p)
		PutICRC(data[len(data)-ICRCLen:], h.Sum(99, data))
		n := testing.AllocsPerRun(100, func() {
			if _, ok := c.Check(&h, 0, data); !ok || q.Parse(data) != OK {
				panic("refused")
			}
			k := p.PutHeaders(out[:])
			PutICRC(out[:ICRCLen], Extend(h.Join(len(data), 0, out[:BTHLen], out[BTHLen:k]), p.Payload))
			buf = p.Append(buf[:0])
		})
		if n != 0 {
			t.Errorf("%s: %v allocations per packet, expected 0", name, n)
		}
	}
}
