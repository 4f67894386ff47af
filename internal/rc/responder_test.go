package rc

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// request returns a request packet with the i-th PSN of the connection.
func requestPacket(op ib.Opcode, i, payload int) (k ib.Packet) {
	k.Opcode, k.PSN, k.AckReq = op, psn.PSN(testPSN0).Add(i), true
	if payload > 0 {
		k.Payload = bytes.Repeat([]byte{0xaa}, payload)
	}
	return k
}

func writePacket(op ib.Opcode, i, payload int, h ib.RETH) ib.Packet {
	k := requestPacket(op, i, payload)
	k.RETH = h
	return k
}

// answers returns the packets that the responder of node 1 sends.
func (w *pair) answers() []ib.Packet {
	from := len(w.sent[0])
	w.take(1, 1<<20)
	w.wire[0] = nil
	return w.sent[0][from:]
}

func TestResponderOneAckForABatch(t *testing.T) {
	w := newPair(t, nil)
	w.postWrites(20)
	w.take(0, 100)
	w.deliver(1, 100)
	got := w.answers()
	if len(got) != 1 || got[0].Opcode != ib.RCAcknowledge || got[0].PSN != psn.PSN(testPSN0).Add(19) ||
		got[0].AETH != (ib.AETH{Syndrome: ib.ACKNoCredits, MSN: 20}) {
		t.Errorf("answers %+v", got)
	}
}

func TestResponderNoAckUnlessRequested(t *testing.T) {
	w := newPair(t, nil)
	k := writePacket(ib.RCWriteOnly, 0, 8, ib.RETH{Addr: w.n[1].mr.Base, RKey: w.n[1].mr.Key, Length: 8})
	k.AckReq = false
	w.inject(1, k)
	if got := w.answers(); len(got) != 0 {
		t.Errorf("answers %+v", got)
	}
}

func TestResponderRefusals(t *testing.T) {
	const mtu = testMTU
	type world struct {
		w *pair
		b *node
	}
	reth := func(x world, n uint32) ib.RETH { return ib.RETH{Addr: x.b.mr.Base, RKey: x.b.mr.Key, Length: n} }
	atomicTo := func(x world, off uint64, key uint32) (k ib.Packet) {
		k = requestPacket(ib.RCFetchAdd, 0, 0)
		k.AtomicETH = ib.AtomicETH{Addr: x.b.mr.Base + off, RKey: key, SwapAdd: 1}
		return k
	}
	const (
		inv = ib.NAKInvalidRequest
		acc = ib.NAKRemoteAccess
	)
	for _, r := range []struct {
		name   string
		access qp.Access // rights removed from the queue pair
		in     func(x world) []ib.Packet
		nak    ib.Syndrome
		reason reason.Reason
		recv   queue.Status // of the receive in use; Success if none is
	}{
		{"middle without first", 0, func(x world) []ib.Packet { return []ib.Packet{requestPacket(ib.RCSendMiddle, 0, mtu)} }, inv, reason.OpcodeSequence, 0},
		{"write last without first", 0, func(x world) []ib.Packet { return []ib.Packet{requestPacket(ib.RCWriteLast, 0, 1)} }, inv, reason.OpcodeSequence, 0},
		{"only inside a SEND", 0, func(x world) []ib.Packet {
			return []ib.Packet{requestPacket(ib.RCSendFirst, 0, mtu), requestPacket(ib.RCSendOnly, 1, 1)}
		}, inv, reason.OpcodeSequence, queue.RemInvReqErr},
		{"READ inside a WRITE", 0, func(x world) []ib.Packet {
			return []ib.Packet{writePacket(ib.RCWriteFirst, 0, mtu, reth(x, 2*mtu)), writePacket(ib.RCReadRequest, 1, 0, reth(x, 8))}
		}, inv, reason.OpcodeSequence, 0},
		{"WRITE not allowed", qp.RemoteWrite, func(x world) []ib.Packet { return []ib.Packet{writePacket(ib.RCWriteOnly, 0, 8, reth(x, 8))} }, inv, reason.QPAccess, 0},
		{"READ not allowed", qp.RemoteRead, func(x world) []ib.Packet { return []ib.Packet{writePacket(ib.RCReadRequest, 0, 0, reth(x, 8))} }, inv, reason.QPAccess, 0},
		{"atomic not allowed", qp.RemoteAtomic, func(x world) []ib.Packet { return []ib.Packet{atomicTo(x, 0, x.b.mr.Key)} }, inv, reason.QPAccess, 0},
		{"short first", 0, func(x world) []ib.Packet { return []ib.Packet{requestPacket(ib.RCSendFirst, 0, mtu-1)} }, inv, reason.LengthShortSegment, queue.RemInvReqErr},
		{"over the MTU", 0, func(x world) []ib.Packet { return []ib.Packet{requestPacket(ib.RCSendOnly, 0, mtu+1)} }, inv, reason.LengthMTU, queue.RemInvReqErr},
		{"last of no bytes", 0, func(x world) []ib.Packet {
			return []ib.Packet{requestPacket(ib.RCSendFirst, 0, mtu), requestPacket(ib.RCSendLast, 1, 0)}
		}, inv, reason.LengthShortSegment, queue.RemInvReqErr},
		{"SEND over the receive", 0, func(x world) []ib.Packet {
			return []ib.Packet{requestPacket(ib.RCSendFirst, 0, mtu), requestPacket(ib.RCSendLast, 1, mtu)}
		}, inv, reason.ReceiveTooSmall, queue.LocLenErr},
		{"WRITE only over its RETH", 0, func(x world) []ib.Packet { return []ib.Packet{writePacket(ib.RCWriteOnly, 0, 9, reth(x, 8))} }, inv, reason.LengthExceedsRETH, 0},
		{"WRITE only below its RETH", 0, func(x world) []ib.Packet { return []ib.Packet{writePacket(ib.RCWriteOnly, 0, 8, reth(x, 9))} }, inv, reason.LengthBelowRETH, 0},
		{"WRITE first that is all", 0, func(x world) []ib.Packet { return []ib.Packet{writePacket(ib.RCWriteFirst, 0, mtu, reth(x, mtu))} }, inv, reason.LengthExceedsRETH, 0},
		{"WRITE last below", 0, func(x world) []ib.Packet {
			return []ib.Packet{writePacket(ib.RCWriteFirst, 0, mtu, reth(x, 2*mtu)), requestPacket(ib.RCWriteLast, 1, mtu-1)}
		}, inv, reason.LengthBelowRETH, 0},
		{"WRITE with immediate, unknown key", 0, func(x world) []ib.Packet {
			return []ib.Packet{writePacket(ib.RCWriteOnlyImm, 0, 8, ib.RETH{Addr: x.b.mr.Base, RKey: x.b.mr.Key ^ 0x100, Length: 8})}
		}, acc, reason.KeyUnknown, queue.LocAccessErr},
		{"WRITE with immediate past the end", 0, func(x world) []ib.Packet {
			return []ib.Packet{writePacket(ib.RCWriteOnlyImm, 0, 8, ib.RETH{Addr: x.b.mr.Base + testMem - 7, RKey: x.b.mr.Key, Length: 8})}
		}, acc, reason.KeyBounds, queue.LocAccessErr},
		{"WRITE with immediate over its RETH", 0, func(x world) []ib.Packet { return []ib.Packet{writePacket(ib.RCWriteOnlyImm, 0, 9, reth(x, 8))} }, inv, reason.LengthExceedsRETH, queue.RemInvReqErr},
		{"over 2^31 bytes", 0, func(x world) []ib.Packet {
			return []ib.Packet{writePacket(ib.RCReadRequest, 0, 0, reth(x, 1<<31+1))}
		}, inv, reason.LengthLimit, 0},
		{"unknown key", 0, func(x world) []ib.Packet {
			return []ib.Packet{writePacket(ib.RCWriteOnly, 0, 8, ib.RETH{Addr: x.b.mr.Base, RKey: x.b.mr.Key ^ 0x100, Length: 8})}
		}, acc, reason.KeyUnknown, 0},
		{"READ past the end", 0, func(x world) []ib.Packet {
			return []ib.Packet{writePacket(ib.RCReadRequest, 0, 0, reth(x, testMem+1))}
		}, acc, reason.KeyBounds, 0},
		{"WRITE past the end, told by the first packet", 0, func(x world) []ib.Packet {
			return []ib.Packet{writePacket(ib.RCWriteFirst, 0, mtu, reth(x, testMem+1))}
		}, acc, reason.KeyBounds, 0},
		{"key of another protection domain", 0, func(x world) []ib.Packet {
			mr, _ := x.b.port.Memory.Register(8, make([]byte, 64), 0, allAccess)
			return []ib.Packet{writePacket(ib.RCWriteOnly, 0, 8, ib.RETH{RKey: mr.Key, Length: 8})}
		}, acc, reason.KeyWrongPD, 0},
		{"region without REMOTE_READ", 0, func(x world) []ib.Packet {
			mr, _ := x.b.port.Memory.Register(7, make([]byte, 64), 0, qp.LocalWrite)
			return []ib.Packet{writePacket(ib.RCReadRequest, 0, 0, ib.RETH{RKey: mr.Key, Length: 8})}
		}, acc, reason.KeyAccess, 0},
		{"atomic, unknown key", 0, func(x world) []ib.Packet { return []ib.Packet{atomicTo(x, 0, 5)} }, acc, reason.KeyUnknown, 0},
		{"atomic, misaligned", 0, func(x world) []ib.Packet { return []ib.Packet{atomicTo(x, 4, x.b.mr.Key)} }, inv, reason.AtomicAlignment, 0},
		{"atomic, misaligned as the peer names it", 0, func(x world) []ib.Packet {
			mr, _ := x.b.port.Memory.Register(7, asBytes(make([]uint64, 8)), 0x44, allAccess)
			k := atomicTo(x, 0, mr.Key)
			k.AtomicETH.Addr = 0x4c
			return []ib.Packet{k}
		}, inv, reason.AtomicAlignment, 0},
		{"atomic, memory unmapped", 0, func(x world) []ib.Packet {
			word := asBytes(make([]uint64, 1))
			mr, _ := x.b.port.Memory.RegisterForeign(7, word, 0, allAccess, memory.Foreign{Space: goneSpace{}})
			k := atomicTo(x, 0, mr.Key)
			k.AtomicETH.Addr = 0
			return []ib.Packet{k}
		}, acc, reason.MemoryUnmapped, 0},
		{"receive not writable", 0, func(x world) []ib.Packet {
			mr, _ := x.b.port.Memory.Register(7, make([]byte, 64), 0, 0)
			for x.b.rq.Len() > 0 {
				x.b.rq.Release(x.b.rq.Next(x.b.rq.Consumer()))
			}
			x.b.postRecv(1, memory.SGE{Length: 64, LKey: mr.Key})
			return []ib.Packet{requestPacket(ib.RCSendOnly, 0, 8)}
		}, ib.NAKRemoteOperational, reason.LocalAccess, queue.LocProtErr},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newPair(t, func(_ int, p *machine.Port) { p.Attr.Access &^= r.access })
			x := world{w, w.n[1]}
			x.b.postRecv(1, x.b.sge(8192, mtu+10))
			before := bytes.Clone(x.b.mem[:8192])
			in := r.in(x)
			for i, k := range in {
				if i == len(in)-1 {
					w.answers() // discards acknowledges of earlier packets
				}
				w.inject(1, k)
			}
			got := w.answers()
			want := psn.PSN(testPSN0).Add(len(in) - 1)
			if len(got) != 1 || got[0].Opcode != ib.RCAcknowledge || got[0].AETH.Syndrome != r.nak || got[0].PSN != want {
				t.Fatalf("answers %+v, want %v at %v", got, r.nak, want)
			}
			if x.b.count(r.reason) != 1 || x.b.port.Attr.State != qp.Err {
				t.Errorf("refused %v, state %v", x.b.refused, x.b.port.Attr.State)
			}
			event := map[ib.Syndrome]machine.Event{inv: machine.EventQPReqErr, acc: machine.EventQPAccessErr}[r.nak]
			if r.recv != queue.Success {
				w.wantStatuses(&x.b.recv, r.recv)
				if c := x.b.recv.list[0]; c.Reason != r.reason || c.WRID != 1 {
					t.Errorf("completion %+v", c)
				}
				if len(x.b.events) != 0 {
					t.Errorf("events %v beside the completion", x.b.events)
				}
			} else if !slices.Equal(x.b.events, []machine.Event{event}) {
				t.Errorf("events %v, want %v", x.b.events, event)
			}
			n := len(x.b.refused)
			w.inject(1, in[len(in)-1])
			if x.b.refused[n].Reason != reason.PacketQPState || len(w.answers()) != 0 {
				t.Error("the error state answers")
			}
			if len(in) == 1 && !bytes.Equal(before, x.b.mem[:8192]) {
				t.Error("memory changed by a refused request")
			}
		})
	}
}

// A goneSpace is the memory of a process that has ended.
type goneSpace struct{}

func (goneSpace) Load([]byte, uint64) error  { return io.ErrUnexpectedEOF }
func (goneSpace) Store(uint64, []byte) error { return io.ErrUnexpectedEOF }

func TestResponderSequenceErrorNAKedOnce(t *testing.T) {
	w := newPair(t, nil)
	b := w.n[1]
	h := ib.RETH{Addr: b.mr.Base, RKey: b.mr.Key, Length: 8}
	for i := range 3 {
		w.inject(1, writePacket(ib.RCWriteOnly, 2+i, 8, h))
		got := w.answers()
		if i == 0 && (len(got) != 1 || got[0].AETH.Syndrome != ib.NAKSequence || got[0].PSN != testPSN0) || i > 0 && len(got) != 0 {
			t.Fatalf("packet %d: answers %+v", i, got)
		}
	}
	w.inject(1, writePacket(ib.RCWriteOnly, 0, 8, h))
	if got := w.answers(); len(got) != 1 || got[0].AETH.Syndrome != ib.ACKNoCredits {
		t.Fatalf("answers %+v", got)
	}
	w.inject(1, writePacket(ib.RCWriteOnly, 2, 8, h))
	if got := w.answers(); len(got) != 1 || got[0].AETH.Syndrome != ib.NAKSequence || got[0].PSN != psn.PSN(testPSN0).Add(1) {
		t.Fatalf("answers to the next gap %+v", got)
	}
	if b.count(reason.SequenceAhead) != 4 {
		t.Errorf("refused %v", b.refused)
	}
}

func TestResponderSequenceNAKWithdrawnWhenPacketComes(t *testing.T) {
	w := newPair(t, nil)
	b := w.n[1]
	h := ib.RETH{Addr: b.mr.Base, RKey: b.mr.Key, Length: 8}
	w.inject(1, writePacket(ib.RCWriteOnly, 1, 8, h)) // reordered, in one batch
	w.inject(1, writePacket(ib.RCWriteOnly, 0, 8, h))
	if got := w.answers(); len(got) != 1 || got[0].AETH.Syndrome != ib.ACKNoCredits || got[0].PSN != testPSN0 {
		t.Errorf("answers %+v", got)
	}
}

func TestResponderNotReadyIsSilentUntilTheMessageComesAgain(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.MinRNRTimer = 9 })
	b := w.n[1]
	w.inject(1, requestPacket(ib.RCSendOnly, 0, 8))
	w.inject(1, requestPacket(ib.RCSendOnly, 1, 8))
	if got := w.answers(); len(got) != 1 || got[0].AETH.Syndrome != ib.RNRNAK|9 || got[0].PSN != testPSN0 {
		t.Fatalf("answers %+v", got)
	}
	b.postRecv(3, b.sge(0, 8))
	w.inject(1, requestPacket(ib.RCSendOnly, 1, 8))
	if got := w.answers(); len(got) != 0 {
		t.Fatalf("answers after the RNR NAK: %+v", got)
	}
	w.inject(1, requestPacket(ib.RCSendOnly, 0, 8))
	if got := w.answers(); len(got) != 1 || got[0].AETH != (ib.AETH{Syndrome: ib.ACKNoCredits, MSN: 1}) {
		t.Fatalf("answers %+v", got)
	}
	w.wantStatuses(&b.recv, queue.Success)
}

func TestResponderWriteWithImmediateNotReadyAtItsLastPacket(t *testing.T) {
	w := newPair(t, nil)
	b := w.n[1]
	w.inject(1, writePacket(ib.RCWriteFirst, 0, testMTU, ib.RETH{Addr: b.mr.Base, RKey: b.mr.Key, Length: testMTU + 1}))
	last := requestPacket(ib.RCWriteLastImm, 1, 1)
	last.Imm, last.Solicited = 0x11223344, true
	w.answers()
	w.inject(1, last)
	if got := w.answers(); len(got) != 1 || !got[0].AETH.Syndrome.IsRNR() || b.mem[testMTU] != 0 {
		t.Fatalf("answers %+v", got)
	}
	b.postRecv(5)
	w.inject(1, last)
	w.wantStatuses(&b.recv, queue.Success)
	want := queue.CQE{WRID: 5, Op: queue.WCRecvRDMAImm, ByteLen: testMTU + 1, ImmInv: queue.NetworkOrder(0x11223344), QPN: b.port.QPN, Flags: queue.WCImm, PortNum: 1, Solicited: 1}
	if c := b.recv.list[0]; c != want {
		t.Errorf("completion %+v, want %+v", c, want)
	}
	if b.mem[testMTU] != 0xaa {
		t.Error("last byte missing")
	}
}

func TestResponderSendCompletionHasAllFields(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	b.postRecv(5, b.sge(0, 3), b.sge(10, 100))
	b.postRecv(6, b.sge(200, 100))
	a.post(wqe{op: queue.SendImm, flags: queue.Inline | queue.Solicited, inline: []byte("hello"), imm: 0xcafe})
	a.post(wqe{op: queue.Send, flags: queue.Inline, inline: []byte("you")})
	w.settle()
	w.wantStatuses(&b.recv, 0, 0)
	want := queue.CQE{WRID: 5, Op: queue.WCRecv, ByteLen: 5, ImmInv: 0xcafe, QPN: b.port.QPN, Flags: queue.WCImm, PortNum: 1, Solicited: 1}
	if c := b.recv.list[0]; c != want {
		t.Errorf("completion %+v, want %+v", c, want)
	}
	if c := b.recv.list[1]; c.Flags != 0 || c.Solicited != 0 || c.ByteLen != 3 {
		t.Errorf("completion %+v", c)
	}
	if string(b.mem[:3])+string(b.mem[10:12]) != "hello" || string(b.mem[200:203]) != "you" {
		t.Error("wrong bytes")
	}
}

// boundWindow binds a window of node 1 and returns its key.
func (w *pair) boundWindow(kind memory.Kind) uint32 {
	b := w.n[1]
	key, err := b.port.Memory.AllocWindow(7, kind)
	if err != nil {
		w.t.Fatal(err)
	}
	d := b.port.Memory.Bind(&memory.Bind{Window: key, NewKey: key ^ 1, Region: b.mr.Key, Addr: b.mr.Base, Length: 4096,
		Access: qp.RemoteWrite, PD: 7, QPN: b.port.QPN})
	if d.Reason != reason.None {
		w.t.Fatal(d)
	}
	return key ^ 1
}

func TestResponderSendWithInvalidateInvalidates(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	key := w.boundWindow(memory.MW2)
	a.post(wqe{op: queue.Write, flags: queue.Inline, inline: []byte("x"), remote: queue.RDMA{Addr: b.mr.Base, RKey: key}})
	a.post(wqe{op: queue.SendInv, imm: key})
	b.postRecv(1)
	w.settle()
	w.wantStatuses(&a.send, 0, 0)
	w.wantStatuses(&b.recv, 0)
	if c := b.recv.list[0]; c.Flags != queue.WCWithInv || c.ImmInv != key {
		t.Errorf("completion %+v", c)
	}
	a.post(wqe{op: queue.Write, flags: queue.Inline, inline: []byte("x"), remote: queue.RDMA{Addr: b.mr.Base, RKey: key}})
	w.settle()
	w.wantStatuses(&a.send, 0, 0, queue.RemAccessErr)
	if b.count(reason.KeyInvalid) != 1 {
		t.Errorf("refused %v", b.refused)
	}
}

func TestResponderSendWithBadInvalidateAcknowledgesAndFails(t *testing.T) {
	for name, key := range map[string]func(w *pair) uint32{
		"region": func(w *pair) uint32 { return w.n[1].mr.Key },
		// o10-37.2.26: only binding no bytes ends a type 1 window's binding.
		"type 1 window": func(w *pair) uint32 { return w.boundWindow(memory.MW1) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newPair(t, nil)
			a, b := w.n[0], w.n[1]
			b.postRecv(1)
			k := key(w)
			a.post(wqe{op: queue.SendInv, imm: k})
			w.settle()
			w.wantStatuses(&a.send, 0)
			w.wantStatuses(&b.recv, queue.RemInvReqErr)
			if b.port.Attr.State != qp.Err || b.recv.list[0].Reason != reason.InvalidateRefused {
				t.Errorf("state %v, %+v", b.port.Attr.State, b.recv.list)
			}
			if !b.port.Memory.Lookup(k).Valid() {
				t.Error("the key is invalid after a refused invalidation")
			}
		})
	}
}

func TestResponderKeyInvalidatedInsideWriteIsDenied(t *testing.T) {
	w := newPair(t, nil)
	b := w.n[1]
	key := w.boundWindow(memory.MW2)
	w.inject(1, writePacket(ib.RCWriteFirst, 0, testMTU, ib.RETH{Addr: b.mr.Base, RKey: key, Length: 2 * testMTU}))
	b.port.Memory.Invalidate(key, 7, b.port.QPN)
	w.answers()
	w.inject(1, requestPacket(ib.RCWriteLast, 1, testMTU))
	if got := w.answers(); len(got) != 1 || got[0].AETH.Syndrome != ib.NAKRemoteAccess {
		t.Errorf("answers %+v", got)
	}
	if b.mem[testMTU] != 0 {
		t.Error("written through an invalid key")
	}
}

func TestResponderAtomicIsAtomicAgainstThisHost(t *testing.T) {
	w := newPair(t, nil)
	b := w.n[1]
	word := b.mr.Word(b.mr.Base)
	const n = 20000
	var wg sync.WaitGroup
	wg.Go(func() {
		for range n {
			atomic.AddUint64(word, 1)
		}
	})
	in := machine.In{Src: testAddrs[0]}
	in.AtomicETH = ib.AtomicETH{Addr: b.mr.Base, RKey: b.mr.Key, SwapAdd: 1 << 32}
	var out machine.Out
	for i := range n {
		in.Opcode, in.PSN = ib.RCFetchAdd, psn.PSN(testPSN0).Add(i)
		b.q.Receive(0, &in)
		b.q.Next(0, &out)
	}
	wg.Wait()
	if got := atomic.LoadUint64(word); got != n<<32|n {
		t.Errorf("memory holds %#x, want %#x", got, uint64(n<<32|n))
	}
}

func TestResponderReboundWindowWorksAgain(t *testing.T) {
	w := newPair(t, nil)
	b := w.n[1]
	key := w.boundWindow(memory.MW2)
	h := ib.RETH{Addr: b.mr.Base, RKey: key, Length: 8}
	w.inject(1, writePacket(ib.RCWriteOnly, 0, 8, h))
	b.port.Memory.Invalidate(key, 7, b.port.QPN)
	if d := b.port.Memory.Bind(&memory.Bind{Window: key, NewKey: key, Region: b.mr.Key, Addr: b.mr.Base, Length: 64,
		Access: qp.RemoteWrite, PD: 7, QPN: b.port.QPN}); d.Reason != reason.None {
		t.Fatal(d)
	}
	w.inject(1, writePacket(ib.RCWriteOnly, 1, 8, h))
	if got := w.answers(); len(got) != 1 || got[0].AETH.Syndrome != ib.ACKNoCredits || got[0].AETH.MSN != 2 {
		t.Errorf("answers %+v", got)
	}
}
