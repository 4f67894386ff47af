package adapter_test

import (
	"encoding/binary"
	"testing"
	"time"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/queue"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/wire/ib"
)

// FuzzHostPeer plays the program of a hostile peer on the same host: messages of any kind with
// headers, lengths, trains and references of any value, words of the rings that it overwrites,
// also while the victim copies, and requests that the victim makes meanwhile. An honest peer of
// the same device notices nothing.
func FuzzHostPeer(f *testing.F) {
	for _, seed := range [][]byte{
		{0, 0x0a, 0x44, 0xff, 0xff, 0, 8},
		{0, 0x0a, 0x49, 0xff, 0xff, 0, 8, 0, 0x06, 0x43, 0, 4, 4, 0},
		{1, 0x0a, 0x44, 0, 1, 4, 0, 7, 1, 1, 0x0a, 0x45, 0, 9, 4, 0, 0, 2},
		{2, 4, 28, 0, 0, 4, 0, 3, 2, 6, 255, 255, 255, 255, 255, 1},
		{3, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 3, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0},
		{6, 1, 64, 0, 0x0d, 0x44, 3, 232, 64, 0, 6, 0, 64, 4, 0, 255, 255, 255, 255, 255, 255, 255, 255},
		{5, 0, 1, 0x0a, 0x44, 0, 1, 4, 0, 0, 1, 5, 1, 1, 0x0a, 0x45, 0, 1, 4, 0, 7, 0, 7, 200},
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := newLiar(t)
		p := fuzzProgram{liar: l, data: data}
		for range 32 {
			if len(p.data) == 0 {
				break
			}
			p.step(t)
		}
		l.during = nil
		l.harmed(t)
		l.leave(t)
	})
}

// A fuzzProgram reads what a liar does from fuzzed bytes.
type fuzzProgram struct {
	*liar
	data []byte
}

// number takes n bytes, or 0 after the end.
func (p *fuzzProgram) number(n int) uint64 {
	var b [8]byte
	k := copy(b[8-n:], p.data)
	p.data = p.data[min(k, n):]
	return binary.BigEndian.Uint64(b[:])
}

// place is an address or offset that is likely to matter.
func (p *fuzzProgram) place() uint64 {
	switch v := p.number(1); v % 4 {
	case 0:
		return 8192 - v
	case 1:
		return v << 5
	case 2:
		return ^uint64(0) - v<<3
	default:
		return p.number(8)
	}
}

// head reads the head and the headers of a message, and the length of its payload.
func (p *fuzzProgram) head() (*hostmem.Head, *ib.Packet, int) {
	op := ib.Opcode(p.number(1))
	if op.Info() == nil {
		op = ib.RCWriteOnly
	}
	flags := p.number(1)
	h := p.liar.head(int(p.number(2)))
	n := int(p.number(2)) % 20000
	b := p.header(min(int(op.Transport()>>5), 2), op, psn.New(uint32(flags&15)-4), n)
	if flags&16 != 0 {
		h.Kind = hostmem.Packet
	}
	if flags&32 != 0 {
		b.Pad++
	}
	if flags&128 != 0 {
		b.RETH.Length, b.RETH.Addr = uint32(p.number(4)), b.RETH.Addr+p.number(2)
	}
	return h, b, n
}

// step does one thing.
func (p *fuzzProgram) step(t *testing.T) {
	switch p.number(1) % 8 {
	case 0:
		h, b, n := p.head()
		p.copy(h, b, make([]byte, n))
	case 1:
		h, b, n := p.head()
		p.refer(h, b, hostmem.Ref{Segment: uint32(p.number(1)), Offset: p.place()}, n)
	case 2:
		p.slot(p.senders[0].Sent(), uint8(p.number(1)), int(p.number(1)), uint32(p.number(4)), p.place(), p.number(1))
	case 3:
		at := ringSlots + int(p.number(1))*8
		if at == ringSlots { // the words of the ring
			at = ringWake + 8*int(p.number(1)&1)
		}
		p.word(at).Store(p.number(8))
	case 4:
		at := []int{ringHead, ringArmed, ringICRC}[p.number(1)%3]
		word(p.out, at).Store(p.number(8))
	case 5:
		p.during = p.interruption()
	case 6:
		p.request(t)
	default:
		p.x.b.Net.Sleep(time.Duration(p.number(1)) * time.Millisecond)
	}
	p.x.b.Dev.Progress()
}

// interruption is what the liar does while the victim copies.
func (p *fuzzProgram) interruption() func() {
	n := p.senders[0].Sent()
	switch p.number(1) % 3 {
	case 0:
		v := p.number(8)
		return func() { p.slot(n, uint8(v), int(v>>8), uint32(v>>16), v, v>>32) }
	case 1:
		return func() { p.word(ringRevoked).Store(n + 1) }
	default:
		return func() { delete(p.segments, 7) }
	}
}

// request posts a request of the victim to the liar.
func (p *fuzzProgram) request(t *testing.T) {
	q := p.x.qps[0][1]
	op := []queue.Op{queue.Write, queue.Read, queue.Send, queue.FetchAdd}[p.number(1)%4]
	n := int(p.number(1)) << 8
	if op == queue.FetchAdd {
		n = 8
	}
	drainCQ(p.x.b)
	if q.SQ.Len() < q.SQ.Depth() {
		must(t, rig.PostSend(q, rig.Send{Op: op, Flags: queue.Signaled, SGEs: []memory.SGE{p.x.b.sge(0, n)}, Addr: 0x10000, RKey: 2}))
	}
	if r := p.x.qps[2][1].Recv; !r.Full() {
		must(t, rig.PostRecv(r, 3, p.x.b.sge(0, 8192)))
	}
}
