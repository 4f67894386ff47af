package iwarp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/machine/machinetest"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/wire/iwarp"
)

// The key and the address of the registered memory in the fuzzer's streams.
const (
	fuzzKey  = 0x12345678
	fuzzBase = 0x10000
	fuzzLen  = 8192
	guard    = 1024
)

// FuzzStream feeds arbitrary bytes in arbitrary pieces to an end that sets up a connection, or to
// one in full operation with requests of every kind outstanding. The end must not panic, must
// change no unregistered memory, must send only valid FPDUs, and must complete each work request
// once.
func FuzzStream(f *testing.F) {
	r := newSetup(f, nil)
	f.Add(byte(0), uint64(1), frameBytes(iwarp.Frame{Flags: 0x54, Revision: 2}, &iwarp.Enhanced{PeerToPeer: true, RTR: 7, IRD: 3, ORD: 3}, []byte("abc")))
	f.Add(byte(1), uint64(2), frameBytes(iwarp.Frame{Reply: true, Flags: 0x52, Revision: 2}, &iwarp.Enhanced{PeerToPeer: true, RTR: 2, IRD: 3, ORD: 3}, []byte("abc")))
	tagged := iwarp.Segment{Tagged: true, Last: true, Opcode: iwarp.Write, STag: fuzzKey, TO: fuzzBase}
	f.Add(byte(2), uint64(3), append(r.fpdu(tagged, make([]byte, 500)), r.fpdu(iwarp.Segment{Opcode: iwarp.Send, MSN: 1}, make([]byte, 200))...))
	answer := tagged
	answer.Opcode = iwarp.ReadResponse
	f.Add(byte(2), uint64(4), append(r.fpdu(answer, make([]byte, 700)), r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.AtomicResponse, Queue: 3, MSN: 1}, []byte{11: 0, 3: 2})...))
	read := iwarp.Read{SinkSTag: 9, Size: 3000, SourceSTag: fuzzKey, SourceTO: fuzzBase}
	var rb [iwarp.ReadLen]byte
	read.Put(rb[:])
	f.Add(byte(2), uint64(5), append(r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.ReadRequest, Queue: 1, MSN: 1}, rb[:]),
		r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.AtomicRequest, Queue: 1, MSN: 2}, atomicRequest(iwarp.Atomic{STag: fuzzKey, TO: fuzzBase}))...))
	f.Add(byte(2), uint64(6), r.terminateFPDU(iwarp.TermTaggedBounds, r.fpdu(tagged, nil)))
	f.Add(byte(2), uint64(7), r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.Immediate, MSN: 1}, make([]byte, 8)))
	f.Add(byte(6), uint64(8), append([]byte{0, 0, 0, 0}, r.fpdu(tagged, make([]byte, 300))...))
	f.Add(byte(10), uint64(9), r.fpdu(tagged, make([]byte, 3000)))
	f.Fuzz(func(t *testing.T, mode byte, seed uint64, data []byte) { fuzzStream(t, mode, seed, data) })
}

type fuzzed struct {
	*pair
	*node
	whole []byte
	sends int
	recvs int
	out   []byte
}

func fuzzStream(t *testing.T, mode byte, seed uint64, data []byte) {
	x := &fuzzed{whole: bytes.Repeat([]byte{0x5a}, guard+fuzzLen+guard)}
	x.pair = newPairOf(t, 8, nil)
	x.node = x.n[0]
	if err := x.Memory.Deregister(x.region); err != nil {
		t.Fatal(err)
	}
	var err error
	x.Memory.Random = func() uint32 { return fuzzKey }
	if x.region, err = x.Memory.Register(machinetest.PD, x.whole[guard:guard+fuzzLen:guard+fuzzLen], fuzzBase, allAccess); err != nil {
		t.Fatal(err)
	}
	x.rnd = rand.New(rand.NewPCG(seed, 3))
	x.maxPiece = 1 + int(seed%3000)
	crc, markers := mode&8 != 0, mode&4 != 0
	switch mode & 3 {
	case 0:
		x.s.Listen(0, 0)
	case 1:
		x.s.Connect(0, x.q, &Params{IRD: 2, ORD: 2, NoCRC: true})
	default:
		p := &Params{IRD: 3, ORD: 3, NoCRC: !crc, Markers: markers, MaxFPDU: 256}
		x.s.Listen(0, 0)
		x.feed(frameBytes(iwarp.Frame{Flags: iwarp.FlagEnhanced | iwarp.FlagExtOffer, Revision: 2}, &iwarp.Enhanced{IRD: 3, ORD: 3}, nil))
		if err := x.s.Accept(0, x.q, p); err != nil {
			t.Fatal(err)
		}
		x.q.held = false
		x.work()
		x.send()
		x.out = x.out[iwarp.FrameLen+iwarp.EnhancedLen:]
	}
	for len(data) > 0 {
		n := min(len(data), 1+x.rnd.IntN(x.maxPiece))
		x.feed(data[:n])
		data = data[n:]
		if x.rnd.IntN(3) == 0 {
			x.send()
		}
		if x.s.state == requested && x.rnd.IntN(2) == 0 {
			x.s.Accept(0, x.q, &Params{IRD: 1, ORD: 1, NoCRC: true})
			x.work()
		}
	}
	x.send()
	x.finish(t, mode&3 >= 2 && !markers)
}

func (x *fuzzed) feed(b []byte) {
	for len(b) > 0 && x.s.Shut() < ShutClose {
		n := 0
		for _, p := range x.s.Room(0, x.scratch[:MinScratch+x.rnd.IntN(500)]) {
			n += copy(p, b[n:])
		}
		x.s.Filled(0, n)
		b = b[n:]
	}
}

func (x *fuzzed) send() {
	for x.s.Next(0, &x.node.out) {
		n := min(x.node.out.Len, 1+x.rnd.IntN(x.maxPiece))
		x.out = append(x.out, bytes.Join(x.node.out.Pieces, nil)[:n]...)
		x.s.Sent(0, n, 0)
	}
}

// work posts requests of every kind, READs and atomics first.
func (x *fuzzed) work() {
	if x.Attr.State != qp.RTS {
		return
	}
	for _, op := range []queue.Op{queue.Read, queue.FetchAdd, queue.Send, queue.Write, queue.WriteImm, queue.Read, queue.CompareSwap} {
		x.PostSend(func(w *queue.SendWQE) {
			w.WRID, w.Op = uint64(x.sends), op
			*w.RDMA() = queue.RDMA{Addr: 0x1000, RKey: 7}
			if op == queue.FetchAdd || op == queue.CompareSwap {
				*w.Atomic() = queue.Atomic{Addr: 0x1000, RKey: 7}
			}
		}, memory.SGE{Addr: fuzzBase, Length: 700, LKey: fuzzKey})
		x.sends++
	}
	for range 3 {
		x.PostRecv(uint64(x.recvs), memory.SGE{Addr: fuzzBase + 1000, Length: 300, LKey: fuzzKey}, memory.SGE{Addr: fuzzBase + 5000, Length: 3000, LKey: fuzzKey})
		x.recvs++
	}
}

func (x *fuzzed) finish(t *testing.T, plain bool) {
	x.s.Closed(0, false)
	if x.Attr.State != qp.Init {
		x.move(qp.Err)
	}
	for i, b := range x.whole {
		if (i < guard || i >= guard+fuzzLen) && b != 0x5a {
			t.Fatalf("byte %d outside of the region changed", i)
		}
	}
	if len(x.Sent.List) != x.sends || len(x.Received.List) != x.recvs {
		t.Fatalf("%d of %d sends and %d of %d receives completed", len(x.Sent.List), x.sends, len(x.Received.List), x.recvs)
	}
	for what, l := range map[string][]queue.CQE{"send": x.Sent.List, "receive": x.Received.List} {
		for i, c := range l {
			if c.WRID != uint64(i) {
				t.Fatalf("%s %d is of request %d", what, i, c.WRID)
			}
		}
	}
	if x.s.Deadline() != machine.Never || x.s.Shut() < ShutClose && x.s.state != idle {
		t.Fatalf("deadline %v, shut %d in state %d", x.s.Deadline(), x.s.Shut(), x.s.state)
	}
	terminates := 0
	for b := x.out; plain && len(b) >= iwarp.LengthLen; {
		n := iwarp.FPDULen(int(binary.BigEndian.Uint16(b)))
		if len(b) < n {
			break // the end of the stream truncated it
		}
		var s iwarp.Segment
		if !s.Parse(b) || s.Opcode.Info() == nil {
			t.Fatalf("sent % x", b[:n])
		}
		if s.Opcode == iwarp.Terminate {
			terminates++
		}
		b = b[n:]
	}
	if terminates > 1 {
		t.Fatalf("%d Terminates", terminates)
	}
}

// This test changes one bit of a stream with CRCs. Nothing from that bit on may be delivered.
func TestCorruptedBitIsNeverDelivered(t *testing.T) {
	for seed := range uint64(150) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		p := newPair(t, nil)
		p.rnd = rnd
		p.maxPiece = []int{7, 1000, 1 << 20}[rnd.IntN(3)]
		p.connect(&Params{IRD: 2, ORD: 2, MaxFPDU: 128 + rnd.IntN(3000)}, &Params{IRD: 2, ORD: 2, Markers: rnd.IntN(3) == 0})
		a, b := p.n[0], p.n[1]
		for i := range a.mem {
			a.mem[i] = byte(rnd.Uint32())
		}
		at, seen := rnd.IntN(20000), 0
		var hit bool
		p.tamper = func(to int, x []byte) {
			if i := at - seen; to == 1 && i >= 0 && i < len(x) {
				x[i] ^= 1 << rnd.IntN(8)
				hit = true
			}
			if to == 1 {
				seen += len(x)
			}
		}
		const messages = 20
		var lengths [messages]int
		for i := range lengths {
			lengths[i] = rnd.IntN(3000)
			b.PostRecv(uint64(i), b.sge(i*4000, 3000))
			a.post(queue.Send, i*4000, lengths[i], queue.RDMA{})
		}
		p.run()
		a.post(queue.Write, 0, 66000, b.target(800000)) // wakes a receiver that waits for the rest of a long FPDU
		p.run()
		good := 0
		for i, c := range b.Received.List {
			if c.Status != queue.Success {
				break
			}
			good++
			if c.WRID != uint64(i) || int(c.ByteLen) != lengths[i] || !bytes.Equal(b.mem[i*4000:i*4000+lengths[i]], a.mem[i*4000:i*4000+lengths[i]]) {
				t.Fatalf("seed %d: message %d was delivered wrongly", seed, i)
			}
		}
		if hit == (b.Attr.State == qp.RTS) || !hit && good != messages {
			t.Fatalf("seed %d: hit %v at %d, %d delivered, %v: %v", seed, hit, at, good, b.Attr.State, fmt.Sprint(b.Refused))
		}
	}
}

// This test changes random bytes of a conversation without CRCs, in both directions.
func TestMutatedStreamCompletesEverythingOnce(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 6))
		p := newPairOf(t, 64<<10, nil)
		p.rnd = rnd
		p.maxPiece = 1 + rnd.IntN(3000)
		p.connect(&Params{IRD: 3, ORD: 3, NoCRC: true, MaxFPDU: 200 + rnd.IntN(2000)}, &Params{IRD: 3, ORD: 3, NoCRC: true, Markers: rnd.IntN(4) == 0})
		rate := 1 + rnd.IntN(3000)
		p.tamper = func(_ int, x []byte) {
			for i := range x {
				if rnd.IntN(rate) == 0 {
					x[i] = byte(rnd.Uint32())
				}
			}
		}
		const count = 30
		for i, n := range p.n {
			for k := range count {
				n.PostRecv(uint64(k), n.sge(0, 2000))
				op := []queue.Op{queue.Send, queue.Write, queue.Read, queue.FetchAdd, queue.WriteImm, queue.CompareSwap}[rnd.IntN(6)]
				n.PostSend(func(w *queue.SendWQE) {
					w.WRID, w.Op = uint64(k), op
					*w.RDMA() = p.n[1-i].target(8 * rnd.IntN(4000))
					if op == queue.FetchAdd || op == queue.CompareSwap {
						to := p.n[1-i].target(8 * rnd.IntN(4000))
						*w.Atomic() = queue.Atomic{Addr: to.Addr, RKey: to.RKey}
					}
				}, n.sge(rnd.IntN(4000), 8+rnd.IntN(2000)))
			}
		}
		p.run()
		for i, n := range p.n {
			n.s.Closed(0, false)
			for what, l := range map[string][]queue.CQE{"send": n.Sent.List, "receive": n.Received.List} {
				if len(l) != count {
					t.Fatalf("seed %d, end %d: %d %ss completed", seed, i, len(l), what)
				}
				for k, c := range l {
					if c.WRID != uint64(k) {
						t.Fatalf("seed %d, end %d: %s %d is of request %d", seed, i, what, k, c.WRID)
					}
				}
			}
		}
	}
}
