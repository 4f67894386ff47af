package rc

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// fill sets each byte of a range to a value derived from its position.
func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i)*31 + byte(i>>8) + seed
	}
}

func (n *node) target(off int) queue.RDMA {
	return queue.RDMA{Addr: n.mr.Base + uint64(off), RKey: n.mr.Key}
}

func (n *node) word(off int) queue.Atomic {
	return queue.Atomic{Addr: n.mr.Base + uint64(off), RKey: n.mr.Key}
}

func TestRequesterSegmentsToPathMTU(t *testing.T) {
	type row struct {
		name string
		wqe  wqe
		want []ib.Opcode
	}
	long := func(n *node) []memory.SGE { return []memory.SGE{n.sge(0, 300), n.sge(1000, 1), n.sge(2000, 299)} }
	for _, r := range []row{
		{"send", wqe{op: queue.Send}, []ib.Opcode{ib.RCSendFirst, ib.RCSendMiddle, ib.RCSendLast}},
		{"send with immediate", wqe{op: queue.SendImm, imm: queue.NetworkOrder(0x01020304)}, []ib.Opcode{ib.RCSendFirst, ib.RCSendMiddle, ib.RCSendLastImm}},
		{"write", wqe{op: queue.Write}, []ib.Opcode{ib.RCWriteFirst, ib.RCWriteMiddle, ib.RCWriteLast}},
		{"write with immediate", wqe{op: queue.WriteImm, imm: queue.NetworkOrder(0x01020304)}, []ib.Opcode{ib.RCWriteFirst, ib.RCWriteMiddle, ib.RCWriteLastImm}},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newPair(t, nil)
			a, b := w.n[0], w.n[1]
			fill(a.mem, 3)
			r.wqe.list, r.wqe.remote, r.wqe.flags = long(a), b.target(5000), queue.Solicited
			b.postRecv(9, b.sge(5000, 1000))
			a.post(r.wqe)
			w.settle()
			if got := w.opcodes(1); !slices.Equal(got, r.want) {
				t.Fatalf("sent %v, want %v", got, r.want)
			}
			for i, p := range w.sent[1] {
				last := i == len(w.sent[1])-1
				if p.AckReq != last || p.Solicited != (last && r.wqe.op != queue.Write) {
					t.Errorf("packet %d: AckReq %v, Solicited %v", i, p.AckReq, p.Solicited)
				}
				if want := psn.PSN(testPSN0).Add(i); p.PSN != want {
					t.Errorf("packet %d has PSN %v, want %v", i, p.PSN, want)
				}
				if last && r.wqe.imm != 0 && p.Imm != 0x01020304 {
					t.Errorf("immediate %#x", p.Imm)
				}
			}
			want := slices.Concat(a.mem[:300], a.mem[1000:1001], a.mem[2000:2299])
			if !bytes.Equal(b.mem[5000:5600], want) {
				t.Error("wrong bytes arrived")
			}
			w.wantStatuses(&a.send, queue.Success)
		})
	}
}

func TestRequesterMessageOfNoBytesCompletes(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	b.postRecv(1)
	b.postRecv(2)
	bad := queue.RDMA{Addr: 1, RKey: 0xdead} // C9-88: the R_Key is not checked
	a.post(wqe{op: queue.Send})
	a.post(wqe{op: queue.Write, remote: bad})
	a.post(wqe{op: queue.WriteImm, remote: bad, imm: 7})
	a.post(wqe{op: queue.Read, remote: bad})
	w.settle()
	w.wantStatuses(&a.send, queue.Success, queue.Success, queue.Success, queue.Success)
	w.wantStatuses(&b.recv, queue.Success, queue.Success)
	if b.recv.list[0].ByteLen != 0 || b.recv.list[1].Op != queue.WCRecvRDMAImm || b.recv.list[1].ImmInv != 7 {
		t.Errorf("completions %+v", b.recv.list)
	}
}

func TestRequesterInlineDataIsSentFromRing(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	a.post(wqe{op: queue.Write, flags: queue.Inline, inline: []byte("inline data"), remote: b.target(100)})
	w.settle()
	w.wantStatuses(&a.send, queue.Success)
	if got := string(b.mem[100:111]); got != "inline data" {
		t.Errorf("found %q", got)
	}
}

func TestRequesterCompletionsSignalledInOrder(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.SQSigAll = false })
	a, b := w.n[0], w.n[1]
	for i := range 6 {
		f := queue.Flags(0)
		if i%2 == 1 {
			f = queue.Signaled
		}
		a.post(wqe{op: queue.Write, flags: f, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
	}
	w.settle()
	w.wantStatuses(&a.send, queue.Success, queue.Success, queue.Success)
	for i, c := range a.send.list {
		if c.WRID != uint64(2*i+1) || c.Op != queue.WCWrite || c.QPN != a.port.QPN {
			t.Errorf("completion %d: %+v", i, c)
		}
	}
	if a.port.SQ.Len() != 0 {
		t.Errorf("%d requests left in the ring", a.port.SQ.Len())
	}
}

func TestRequesterFullWindowHasRequestedAck(t *testing.T) {
	const packet = testMTU + overhead
	for window := 1; window < 10*packet; window += 37 {
		w := newPair(t, func(_ int, p *machine.Port) { p.Window = window })
		a, b := w.n[0], w.n[1]
		a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 20*testMTU)}, remote: b.target(0)})
		if n, want := w.take(0, 100), max(1, window/packet); n != want {
			t.Fatalf("%d packets in a window of %d bytes, want %d", n, window, want)
		}
		asks := func(p ib.Packet) bool { return p.AckReq }
		if !slices.ContainsFunc(w.sent[1], asks) {
			t.Errorf("a window of %d bytes is full and no acknowledge was requested", window)
		}
		w.settle()
		w.wantStatuses(&a.send, queue.Success)
		if n := a.count(reason.AckTimeout); n != 0 {
			t.Errorf("window of %d bytes: %d timeouts", window, n)
		}
		if got := len(w.sent[1]); got != 20 {
			t.Errorf("window of %d bytes: %d packets sent, want 20", window, got)
		}
	}
}

func TestRequesterWindowSmallerThanPacketSendsOneByOne(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Window = 1 })
	a, b := w.n[0], w.n[1]
	a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 3*testMTU)}, remote: b.target(0)})
	if n := w.take(0, 100); n != 1 {
		t.Fatalf("%d packets", n)
	}
	w.settle()
	w.wantStatuses(&a.send, queue.Success)
}

// The window holds as many requests for an acknowledge as ackShare says, and more over a long path.
func TestRequesterLongMessageRequestsAckInside(t *testing.T) {
	for _, c := range []struct {
		trip  time.Duration
		share int
	}{{10 * time.Microsecond, ackShare}, {longTrip, ackShare}, {time.Millisecond, longAckShare}} {
		w := newPair(t, func(_ int, p *machine.Port) { p.Window = 1 << 30 })
		a, b := w.n[0], w.n[1]
		const interval = testMem / 2
		a.q.ctl = congestion.New(congestion.None, congestion.Limits{Window: c.share * interval})
		a.q.req.recovery.trips.acks.Sample(0, c.trip)
		full := a.sge(0, testMem)
		list := []memory.SGE{full, full, full, full}
		b.postRecv(1, b.sge(0, testMem), b.sge(0, testMem), b.sge(0, testMem), b.sge(0, testMem))
		a.post(wqe{op: queue.Send, list: list})
		w.settle()
		w.wantStatuses(&a.send, queue.Success)
		var asked, want []int
		for i, p := range w.sent[1] {
			if p.AckReq {
				asked = append(asked, i)
			}
		}
		per, packets := interval/(testMTU+overhead), 4*testMem/testMTU
		for i := per; i < packets; i += per {
			want = append(want, i-1)
		}
		if want = append(want, packets-1); !slices.Equal(asked, want) {
			t.Errorf("round trip %v: asked at %v, want %v", c.trip, asked, want)
		}
	}
}

func TestRequesterReadsLimitedByMaxRdAtomic(t *testing.T) {
	w := newPair(t, func(_ int, p *machine.Port) { p.Attr.MaxRdAtomic = 2 })
	a, b := w.n[0], w.n[1]
	fill(b.mem, 1)
	for i := range 5 {
		a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(1000*i, 600)}, remote: b.target(1000 * i)})
	}
	if n := w.take(0, 100); n != 2 {
		t.Fatalf("%d READs at once, want 2", n)
	}
	w.settle()
	w.wantStatuses(&a.send, 0, 0, 0, 0, 0)
	for i := range 5 {
		if !bytes.Equal(a.mem[1000*i:1000*i+600], b.mem[1000*i:1000*i+600]) {
			t.Errorf("READ %d: wrong bytes", i)
		}
		if a.send.list[i].ByteLen != 600 {
			t.Errorf("READ %d: ByteLen %d", i, a.send.list[i].ByteLen)
		}
	}
}

// The responses to a READ arrive as one burst in this side's buffers, so they count in the window.
func TestRequesterReadsCountTheirResponsesInWindow(t *testing.T) {
	const window = 6 * (testMTU + overhead)
	w := newPair(t, func(_ int, p *machine.Port) { p.Window = window })
	a, b := w.n[0], w.n[1]
	fill(b.mem, 1)
	for i := range 4 {
		a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(1000*i, 3*testMTU)}, remote: b.target(1000 * i)})
	}
	if n := w.take(0, 100); n != 2 {
		t.Fatalf("%d READs of 3 packets in a window of 6", n)
	}
	w.deliver(1, 100)
	for range 3 { // two responses leave no room for three more
		w.take(1, 1)
		if n := w.take(0, 100); n != 0 {
			t.Fatal("a READ was sent before there was room")
		}
		w.deliver(0, 1)
	}
	if n := w.take(0, 100); n != 1 {
		t.Fatalf("%d READs left for one that was answered", n)
	}
	w.settle()
	w.wantStatuses(&a.send, 0, 0, 0, 0)
	for i := range 4 {
		if !bytes.Equal(a.mem[1000*i:][:3*testMTU], b.mem[1000*i:][:3*testMTU]) {
			t.Errorf("READ %d: wrong bytes", i)
		}
	}
	if r := &a.q.req; r.window.sent != r.window.acked || r.reads.due != 0 {
		t.Errorf("%d bytes of the window were never given back, %d are due", r.window.sent-r.window.acked, r.reads.due)
	}
}

func TestRequesterFenceWaitsForReads(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
	a.post(wqe{op: queue.Write, flags: queue.Fence, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
	a.post(wqe{op: queue.FetchAdd, list: []memory.SGE{a.sge(8, 8)}, atomic: b.word(0)})
	a.post(wqe{op: queue.Write, flags: queue.Fence, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
	if n := w.take(0, 100); n != 4 {
		t.Fatalf("%d packets left before the fence, want 4", n)
	}
	w.settle()
	w.wantStatuses(&a.send, 0, 0, 0, 0, 0)
}

func TestRequesterAtomicsGiveOriginalValue(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	word := func(n *node, off int) uint64 { return *n.mr.Word(n.mr.Base + uint64(off)) }
	*b.mr.Word(b.mr.Base) = 100
	add, hit, miss := b.word(0), b.word(0), b.word(0)
	add.CompareAdd = 5
	hit.CompareAdd, hit.Swap = 105, 7
	miss.CompareAdd, miss.Swap = 105, 9
	a.post(wqe{op: queue.FetchAdd, list: []memory.SGE{a.sge(0, 8)}, atomic: add})
	a.post(wqe{op: queue.CompareSwap, list: []memory.SGE{a.sge(8, 8)}, atomic: hit})
	a.post(wqe{op: queue.CompareSwap, list: []memory.SGE{a.sge(16, 4), a.sge(20, 4)}, atomic: miss})
	w.settle()
	w.wantStatuses(&a.send, 0, 0, 0)
	for i, want := range []uint64{100, 105, 7} {
		if got := word(a, 8*i); got != want {
			t.Errorf("atomic %d returned %d, want %d", i, got, want)
		}
	}
	if got := word(b, 0); got != 7 {
		t.Errorf("memory holds %d, want 7", got)
	}
	if c := a.send.list; c[0].Op != queue.WCFetchAdd || c[1].Op != queue.WCCompareSwap || c[0].ByteLen != 8 {
		t.Errorf("completions %+v", c)
	}
}

func TestRequesterErrorStateFlushesLaterPosts(t *testing.T) {
	w := newPair(t, nil)
	a := w.n[0]
	a.to(w.now, qp.Err)
	a.post(wqe{op: queue.Read})
	a.postRecv(4, a.sge(0, 1))
	w.take(0, 1)
	w.wantStatuses(&a.send, queue.WRFlushErr)
	w.wantStatuses(&a.recv, queue.WRFlushErr)
	if a.send.list[0].Op != queue.WCRead || a.recv.list[0].WRID != 4 {
		t.Errorf("completions %+v %+v", a.send.list, a.recv.list)
	}
}

func TestRequesterNotReadyToSendKeepsRequests(t *testing.T) {
	w := newPair(t, nil)
	a, b := w.n[0], w.n[1]
	a.to(0, qp.Reset)
	a.to(0, qp.Init)
	a.to(0, qp.RTR)
	a.post(wqe{op: queue.Write, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
	if w.take(0, 1) != 0 {
		t.Fatal("sent in RTR")
	}
	a.to(0, qp.RTS)
	w.settle()
	w.wantStatuses(&a.send, queue.Success)
}

// This test sends the longest message at the smallest MTU and acknowledges it by hand.
func TestRequesterMessageOf2GiBTakesHalfThePSNs(t *testing.T) {
	if testing.Short() {
		t.Skip("short: 8 million packets")
	}
	const entries = machine.MaxMessage / testMem
	for _, op := range []queue.Op{queue.Write, queue.Read} {
		w := newPair(t, func(i int, p *machine.Port) {
			p.SQ, p.Window = queue.NewSendRing(3, entries, 0), 1<<40
		})
		a, b := w.n[0], w.n[1]
		a.q.ctl = congestion.New(congestion.None, congestion.Limits{Window: 1 << 40})
		list := make([]memory.SGE, entries)
		for i := range list {
			list[i] = a.sge(0, testMem)
		}
		a.post(wqe{op: op, list: list, remote: b.target(0)})
		a.post(wqe{op: queue.Write, list: list[:1], remote: b.target(0)})
		var out machine.Out
		n := 0
		for a.q.Next(w.now, &out) {
			n++
		}
		want := map[queue.Op]int{queue.Write: maxInFlight, queue.Read: 1}[op]
		if n != want {
			t.Fatalf("operation %d: %d packets before an answer, want %d", op, n, want)
		}
		in := machine.In{Src: testAddrs[1]}
		in.Payload = make([]byte, testMTU)
		in.AETH.Syndrome = ib.ACKNoCredits
		last := psn.PSN(testPSN0).Add(maxInFlight - 1)
		if op == queue.Write {
			in.Opcode, in.PSN, in.Payload = ib.RCAcknowledge, last, nil
			a.q.Receive(w.now, &in)
		} else {
			in.Opcode = ib.RCReadResponseFirst
			for in.PSN = testPSN0; in.PSN != last; in.PSN = in.PSN.Next() {
				a.q.Receive(w.now, &in)
				in.Opcode = ib.RCReadResponseMiddle
			}
			in.Opcode = ib.RCReadResponseLast
			a.q.Receive(w.now, &in)
		}
		w.wantStatuses(&a.send, queue.Success)
		if !a.q.Next(w.now, &out) || out.PSN != last.Next() {
			t.Errorf("the next message starts at %v, want %v", out.PSN, last.Next())
		}
	}
}
