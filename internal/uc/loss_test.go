package uc

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/machine/machinetest"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/wire/ib"
)

// message describes a sent message for the receiver.
type message struct {
	op      queue.Op
	off, n  int
	packets int
	whole   bool
}

// TestLossDeliversExactlyTheWholeMessages compares with the model: a message arrives, once and
// in order, if and only if all its packets do.
func TestLossDeliversExactlyTheWholeMessages(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		a, b := pair(t)
		var want, sent []message
		var packets [][]byte
		for i := range 40 {
			m := message{op: []queue.Op{queue.Send, queue.SendImm, queue.WriteImm, queue.Write}[r.IntN(4)], n: r.IntN(1100)}
			m.off = r.IntN(bufferLen - m.n)
			b.PostRecv(uint64(i), machinetest.SGE(b.dst, 0, 1100))
			cut := r.IntN(m.n + 1) // anywhere, because entries need not match packets
			a.PostSend(func(w *queue.SendWQE) {
				write(m.op, uint64(i), b.target.Base, b.target.Key)(w)
				w.ImmInv = queue.NetworkOrder(uint32(i))
			}, machinetest.SGE(a.src, m.off, cut), machinetest.SGE(a.src, m.off+cut, m.n-cut))
			p := machinetest.Drain(a.m, 0)
			m.packets, m.whole = len(p), true
			for _, x := range p {
				if r.IntN(8) == 0 {
					m.whole = false
					x = nil
				}
				packets = append(packets, x)
			}
			sent = append(sent, m)
			if m.whole && m.op != queue.Write {
				want = append(want, m)
			}
		}
		for _, m := range sent {
			for _, p := range packets[:m.packets] {
				if p != nil {
					send(b, p)
				}
			}
			packets = packets[m.packets:]
			l := b.Received.Take()
			if got := len(l) == 1; len(l) > 1 || got != (m.whole && m.op != queue.Write) {
				t.Fatalf("seed %d: message %+v, completions %+v", seed, m, l)
			}
			place := b.dstB
			if m.op == queue.Write || m.op == queue.WriteImm {
				place = b.tgtB
			}
			if m.whole && !bytes.Equal(place[:m.n], a.srcB[m.off:m.off+m.n]) {
				t.Fatalf("seed %d: message %+v has wrong data", seed, m)
			}
			if len(l) == 1 && (l[0].Status != queue.Success || int(l[0].ByteLen) != m.n) {
				t.Fatalf("seed %d: message %+v completed as %+v", seed, m, l[0])
			}
		}
		if len(want) == 0 || len(want) == len(sent) {
			t.Fatalf("seed %d tests nothing", seed)
		}
		if got := results(&a.Sent); len(got) != 39 { // the last waits for its packets
			t.Fatalf("seed %d: %d of 39 sends completed", seed, len(got))
		}
	}
}

// FuzzReceive feeds a machine with any packets that can be parsed: it must not panic, and must
// only write to the receive buffer and the target.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{0x24, 0, 0, 10, 0, 0x20, 1, 0, 255, 1, 0x22, 2, 0, 3, 1})
	f.Add([]byte{0x2a, 0, 0, 10, 0, 0x26, 1, 1, 255, 1, 0x28, 2, 0, 3, 1, 0x2b, 3, 2, 9, 2})
	f.Fuzz(func(t *testing.T, script []byte) {
		b := newEnd(t, 2, 1, 0, 0)
		guard, guardB := b.Register(4096, qp.LocalWrite)
		for i := range uint64(4) {
			b.PostRecv(i, machinetest.SGE(guard, 1024, 300), machinetest.SGE(guard, 2048, int(i)*200))
		}
		in := &machine.In{Src: machinetest.AddrA, Dst: machinetest.AddrB}
		payload := bytes.Repeat([]byte{0xee}, 300)
		for ; len(script) >= 5; script = script[5:] {
			in.Opcode, in.PSN = ib.Opcode(script[0]), psn.New(uint32(script[1]))
			in.Payload = payload[:int(script[3])+int(script[4]&1)]
			in.RETH = ib.RETH{Addr: b.target.Base, RKey: b.target.Key, Length: uint32(script[3]) << (script[2] & 31)}
			switch script[4] >> 4 {
			case 1:
				in.RETH.Addr = ^uint64(script[2])
			case 2:
				in.RETH.Addr += bufferLen - uint64(script[2])
			case 3:
				in.RETH.RKey = uint32(script[2])
			}
			b.m.Receive(0, in)
		}
		for i, x := range guardB {
			if x != 0 && (i < 1024 || i >= 1324 && i < 2048 || i >= 2648) {
				t.Fatalf("byte %d outside of the receive buffer is %#x", i, x)
			}
		}
		if bytes.IndexByte(b.dstB, 0xee) >= 0 {
			t.Fatal("memory outside of the messages was written")
		}
		for _, c := range b.Received.Take() {
			if c.Status != queue.Success {
				t.Fatalf("completion %+v", c)
			}
		}
	})
}

// FuzzSend posts requests with fields chosen by a hostile driver: the machine must not panic,
// must end, and must send only registered memory.
func FuzzSend(f *testing.F) {
	f.Add([]byte{2, 2, 1, 0, 0, 100, 0, 3, 10, 0})
	f.Add([]byte{1, 8, 2, 1, 0, 255, 255, 255, 255, 9})
	f.Fuzz(func(t *testing.T, script []byte) {
		a := newEnd(t, 1, 2, 0, 0)
		for ; len(script) >= 10 && !a.SQ.Full(); script = script[10:] {
			s := script
			e := machinetest.SGE(a.src, int(s[4])<<4, int(s[5])<<(s[6]&31)>>1)
			if s[7]&1 != 0 {
				e.Addr = ^uint64(s[4])
			}
			if s[7]&2 != 0 {
				e.LKey = uint32(s[8])
			}
			a.PostSend(func(w *queue.SendWQE) {
				w.Op, w.Flags, w.NumSGE = queue.Op(s[0]), queue.Flags(s[1]), uint32(s[2])
				if s[3] != 0 {
					w.Length = uint32(s[3]) << (s[9] & 31)
				}
			}, e, machinetest.SGE(a.src, 0, 16))
		}
		var out machine.Out
		for n := 0; a.m.Next(0, &out) && n < 1000; n++ {
			if out.Len > 256 || len(machinetest.Encode(&out)) > 256+32 {
				t.Fatalf("packet of %d bytes", out.Len)
			}
		}
	})
}
