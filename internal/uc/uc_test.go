package uc

import (
	"bytes"
	"slices"
	"testing"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/machine/machinetest"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// end is a UC queue pair with a send buffer, a receive buffer and a target of
// WRITEs.
type end struct {
	*machinetest.Port
	m                  *QP
	src, dst, target   *memory.Region
	srcB, dstB, tgtB   []byte
	firstPSN, expected psn.PSN
}

const bufferLen = 4096

func newEnd(t testing.TB, qpn, peer uint32, first, expected psn.PSN) *end {
	e := &end{Port: machinetest.New(qp.UC, qpn, 64), firstPSN: first, expected: expected}
	e.src, e.srcB = e.Register(bufferLen, 0)
	e.dst, e.dstB = e.Register(bufferLen, qp.LocalWrite)
	e.target, e.tgtB = e.Register(bufferLen, qp.LocalWrite|qp.RemoteWrite|qp.MWBind)
	for i := range e.srcB {
		e.srcB[i] = byte(i*7 + i>>8)
	}
	e.m = New(&e.Port.Port, congestion.DCQCN)
	e.Attr.DestQPN, e.Attr.SQPSN, e.Attr.RQPSN = peer, first, expected
	e.Attr.Path.Dst = machinetest.AddrB
	if qpn != 1 {
		e.Attr.Path.Dst = machinetest.AddrA
	}
	e.Move(e.m, qp.Init, qp.RTR, qp.RTS)
	return e
}

func pair(t testing.TB) (a, b *end) {
	return newEnd(t, 1, 2, 0xfffffe, 100), newEnd(t, 2, 1, 100, 0xfffffe)
}

// send carries packets from a to b.
func send(b *end, packets ...[]byte) {
	for _, p := range packets {
		b.m.Receive(0, machinetest.Decode(p, machinetest.AddrA, machinetest.AddrB))
	}
}

func op(o queue.Op, id uint64) func(*queue.SendWQE) {
	return func(w *queue.SendWQE) { w.Op, w.WRID = o, id }
}

func write(o queue.Op, id uint64, addr uint64, key uint32) func(*queue.SendWQE) {
	return func(w *queue.SendWQE) {
		w.Op, w.WRID, w.ImmInv = o, id, queue.NetworkOrder(0xcafe0001)
		*w.RDMA() = queue.RDMA{Addr: addr, RKey: key}
	}
}

// header parses a packet.
func header(p []byte) ib.Packet {
	return machinetest.Decode(p, machinetest.AddrA, machinetest.AddrB).Packet
}

func wantReasons(t *testing.T, e *end, want ...reason.Reason) {
	t.Helper()
	if got := e.Reasons(); !slices.Equal(got, want) {
		t.Errorf("reasons: found %v, want %v", got, want)
	}
}

// wantOne asserts that there is one completion and returns it.
func wantOne(t *testing.T, c *machinetest.Completions, status queue.Status, id uint64) queue.CQE {
	t.Helper()
	l := c.Take()
	if len(l) != 1 || l[0].Status != status || l[0].WRID != id {
		t.Fatalf("completions: found %+v, want one of request %d with status %d", l, id, status)
	}
	return l[0]
}

func TestRequesterSegmentsMessage(t *testing.T) {
	for _, c := range []struct {
		op   queue.Op
		n    int
		want []ib.Opcode
	}{
		{queue.Send, 0, []ib.Opcode{ib.UCSendOnly}},
		{queue.Send, 256, []ib.Opcode{ib.UCSendOnly}},
		{queue.SendImm, 1, []ib.Opcode{ib.UCSendOnlyImm}},
		{queue.Send, 257, []ib.Opcode{ib.UCSendFirst, ib.UCSendLast}},
		{queue.SendImm, 512, []ib.Opcode{ib.UCSendFirst, ib.UCSendLastImm}},
		{queue.Send, 1000, []ib.Opcode{ib.UCSendFirst, ib.UCSendMiddle, ib.UCSendMiddle, ib.UCSendLast}},
		{queue.Write, 0, []ib.Opcode{ib.UCWriteOnly}},
		{queue.Write, 256, []ib.Opcode{ib.UCWriteOnly}},
		{queue.WriteImm, 7, []ib.Opcode{ib.UCWriteOnlyImm}},
		{queue.Write, 513, []ib.Opcode{ib.UCWriteFirst, ib.UCWriteMiddle, ib.UCWriteLast}},
		{queue.WriteImm, 300, []ib.Opcode{ib.UCWriteFirst, ib.UCWriteLastImm}},
	} {
		a, _ := pair(t)
		a.PostSend(func(w *queue.SendWQE) {
			write(c.op, 1, 0x1234, 0x77)(w)
			w.Flags |= queue.Solicited
		}, machinetest.SGE(a.src, 0, c.n))
		packets := machinetest.Drain(a.m, 0)
		if len(packets) != len(c.want) {
			t.Fatalf("operation %d of %d bytes: found %d packets, want %d", c.op, c.n, len(packets), len(c.want))
		}
		var data []byte
		for i, b := range packets {
			p := header(b)
			last := i == len(packets)-1
			solicited := last && c.op != queue.Write
			if p.Opcode != c.want[i] || p.PSN != a.firstPSN.Add(i) || p.DestQPN != 2 || p.AckReq || p.Solicited != solicited {
				t.Errorf("operation %d of %d bytes: packet %d is %+v", c.op, c.n, i, p.BTH)
			}
			if h := p.Opcode.Info().Headers; h&ib.HasRETH != 0 && p.RETH != (ib.RETH{Addr: 0x1234, RKey: 0x77, Length: uint32(c.n)}) {
				t.Errorf("RETH: found %+v", p.RETH)
			} else if h&ib.HasImmDt != 0 && p.Imm != 0xcafe0001 {
				t.Errorf("immediate data: found %#x", p.Imm)
			}
			data = append(data, p.Payload...)
		}
		if !bytes.Equal(data, a.srcB[:c.n]) {
			t.Errorf("operation %d of %d bytes: wrong data", c.op, c.n)
		}
	}
}

func TestSendArrivesAndCompletes(t *testing.T) {
	a, b := pair(t)
	b.PostRecv(9, machinetest.SGE(b.dst, 10, 100), machinetest.SGE(b.dst, 500, 1000))
	a.PostSend(func(w *queue.SendWQE) {
		w.Op, w.WRID, w.ImmInv, w.Flags = queue.SendImm, 5, queue.NetworkOrder(0x01020304), queue.Signaled|queue.Solicited
	}, machinetest.SGE(a.src, 3, 300), machinetest.SGE(a.src, 1000, 400))
	send(b, machinetest.Drain(a.m, 0)...)
	c := wantOne(t, &b.Received, queue.Success, 9)
	if c.Op != queue.WCRecv || c.ByteLen != 700 || c.Flags != queue.WCImm || c.ImmInv != queue.NetworkOrder(0x01020304) ||
		c.QPN != 2 || c.Solicited != 1 || c.PortNum != 1 {
		t.Errorf("found %+v", c)
	}
	want := append(slices.Clone(a.srcB[3:303]), a.srcB[1000:1400]...)
	if got := append(slices.Clone(b.dstB[10:110]), b.dstB[500:1100]...); !bytes.Equal(got, want) {
		t.Error("wrong data")
	}
	wantReasons(t, b)
}

func TestInlineSendArrives(t *testing.T) {
	a, b := pair(t)
	b.PostRecv(1, machinetest.SGE(b.dst, 0, 64))
	a.PostInline([]byte("inline data of the work request"), op(queue.Send, 1))
	send(b, machinetest.Drain(a.m, 0)...)
	if c := wantOne(t, &b.Received, queue.Success, 1); string(b.dstB[:c.ByteLen]) != "inline data of the work request" {
		t.Errorf("found %q", b.dstB[:c.ByteLen])
	}
}

func TestWriteArrivesWithoutReceive(t *testing.T) {
	a, b := pair(t)
	a.PostSend(write(queue.Write, 1, b.target.Base+5, b.target.Key), machinetest.SGE(a.src, 0, 1000))
	a.PostSend(write(queue.Write, 2, 0, 0), machinetest.SGE(a.src, 0, 0)) // no bytes: the key is not checked
	send(b, machinetest.Drain(a.m, 0)...)
	if !bytes.Equal(b.tgtB[5:1005], a.srcB[:1000]) || b.tgtB[1005] != 0 {
		t.Error("wrong data")
	}
	if l := b.Received.Take(); len(l) != 0 {
		t.Errorf("a WRITE completed at the target: %+v", l)
	}
	wantReasons(t, b)
}

func TestWriteWithImmediateTakesReceive(t *testing.T) {
	a, b := pair(t)
	b.PostRecv(1)
	b.PostRecv(2)
	a.PostSend(write(queue.WriteImm, 1, b.target.Base, b.target.Key), machinetest.SGE(a.src, 0, 600))
	a.PostSend(write(queue.WriteImm, 2, 0, 0))
	send(b, machinetest.Drain(a.m, 0)...)
	l := b.Received.Take()
	if len(l) != 2 || l[0].Op != queue.WCRecvRDMAImm || l[0].ByteLen != 600 || l[0].ImmInv != queue.NetworkOrder(0xcafe0001) ||
		l[0].Flags != queue.WCImm || l[0].WRID != 1 || l[1].WRID != 2 || l[1].ByteLen != 0 {
		t.Errorf("found %+v", l)
	}
	if !bytes.Equal(b.tgtB[:600], a.srcB[:600]) {
		t.Error("wrong data")
	}
}

func TestWriteWithImmediateWithoutReceiveIsDropped(t *testing.T) {
	a, b := pair(t)
	a.PostSend(write(queue.WriteImm, 1, b.target.Base, b.target.Key), machinetest.SGE(a.src, 1, 10))
	send(b, machinetest.Drain(a.m, 0)...)
	if b.tgtB[0] != 0 {
		t.Error("data of a message without a receive was written")
	}
	wantReasons(t, b, reason.NoReceive)
}

func TestLostPacketDropsOnlyItsMessage(t *testing.T) {
	for lost := range 4 { // of First, Middle, Middle, Last
		a, b := pair(t)
		b.PostRecv(1, machinetest.SGE(b.dst, 0, 2000))
		a.PostSend(op(queue.Send, 1), machinetest.SGE(a.src, 0, 1000))
		a.PostSend(op(queue.Send, 2), machinetest.SGE(a.src, 50, 600))
		packets := machinetest.Drain(a.m, 0)
		send(b, slices.Delete(packets, lost, lost+1)...)
		c := wantOne(t, &b.Received, queue.Success, 1)
		if c.ByteLen != 600 || !bytes.Equal(b.dstB[:600], a.srcB[50:650]) {
			t.Errorf("lost packet %d: found %d bytes", lost, c.ByteLen)
		}
		// The gap is reported once, then each packet without a First.
		want := []reason.Reason{reason.SequenceGap}
		for range 2 - lost {
			want = append(want, reason.OpcodeSequence)
		}
		wantReasons(t, b, want...)
		if b.Attr.State != qp.RTS {
			t.Errorf("state %v", b.Attr.State)
		}
	}
}

func TestResponderRefusals(t *testing.T) {
	const next = psn.PSN(0xfffffe)
	for _, c := range []struct {
		name   string
		alter  func(b *end, in *machine.In)
		want   []reason.Reason
		n      int // payload
		opcode ib.Opcode
	}{
		{"Middle first", nil, []reason.Reason{reason.OpcodeSequence}, 256, ib.UCSendMiddle},
		{"Last first", nil, []reason.Reason{reason.OpcodeSequence}, 1, ib.UCWriteLast},
		{"short First", nil, []reason.Reason{reason.LengthShortSegment}, 255, ib.UCSendFirst},
		{"long Only", nil, []reason.Reason{reason.LengthMTU}, 257, ib.UCSendOnly},
		{"room", nil, []reason.Reason{reason.ReceiveTooSmall}, 101, ib.UCSendOnly},
		{"no receive", func(b *end, _ *machine.In) { b.Receives.List = nil }, []reason.Reason{reason.NoReceive}, 1, ib.UCSendOnly},
		{"QP access", func(b *end, _ *machine.In) { b.Attr.Access = 0 }, []reason.Reason{reason.QPAccess}, 1, ib.UCWriteOnly},
		{"unknown key", func(b *end, in *machine.In) { in.RETH.RKey++ }, []reason.Reason{reason.KeyUnknown}, 1, ib.UCWriteOnly},
		{"no remote right", func(b *end, in *machine.In) { in.RETH.RKey = b.dst.Key }, []reason.Reason{reason.KeyAccess}, 1, ib.UCWriteOnly},
		{"bounds", func(b *end, in *machine.In) { in.RETH.Addr += bufferLen }, []reason.Reason{reason.KeyBounds}, 1, ib.UCWriteOnly},
		{"overflow", func(b *end, in *machine.In) { in.RETH.Addr = ^uint64(0) }, []reason.Reason{reason.KeyBounds}, 1, ib.UCWriteOnly},
		{"2^31+1 bytes", func(b *end, in *machine.In) { in.RETH.Length = 1<<31 + 1 }, []reason.Reason{reason.LengthLimit}, 256, ib.UCWriteFirst},
		{"more than the RETH's", func(b *end, in *machine.In) { in.RETH.Length = 1 }, []reason.Reason{reason.LengthExceedsRETH}, 2, ib.UCWriteOnly},
		{"more than a RETH of 0", func(b *end, in *machine.In) { in.RETH.Length = 0 }, []reason.Reason{reason.LengthExceedsRETH}, 2, ib.UCWriteOnly},
		{"First of the whole", func(b *end, in *machine.In) { in.RETH.Length = 256 }, []reason.Reason{reason.LengthExceedsRETH}, 256, ib.UCWriteFirst},
		{"less than the RETH's", func(b *end, in *machine.In) { in.RETH.Length = 3 }, []reason.Reason{reason.LengthBelowRETH}, 2, ib.UCWriteOnly},
		{"another's packet", func(b *end, in *machine.In) { in.Src = machinetest.AddrB }, []reason.Reason{reason.PacketSource}, 1, ib.UCSendOnly},
		{"RC packet", func(b *end, in *machine.In) { in.Opcode = ib.RCSendOnly }, []reason.Reason{reason.PacketTransport}, 1, ib.UCSendOnly},
		{"undefined opcode", func(b *end, in *machine.In) { in.Opcode = 0x3f }, []reason.Reason{reason.PacketTransport}, 1, ib.UCSendOnly},
		{"state", func(b *end, _ *machine.In) { b.Attr.State = qp.Init }, []reason.Reason{reason.PacketQPState}, 1, ib.UCSendOnly},
		{"PSN ahead", func(_ *end, in *machine.In) { in.PSN = next + 1 }, []reason.Reason{reason.SequenceGap}, 1, ib.UCSendOnly},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, b := pair(t)
			b.PostRecv(1, machinetest.SGE(b.dst, 0, 100))
			in := &machine.In{Src: machinetest.AddrA, Dst: machinetest.AddrB}
			in.Opcode, in.PSN, in.Payload = c.opcode, next, bytes.Repeat([]byte{0xee}, c.n)
			in.RETH = ib.RETH{Addr: b.target.Base, RKey: b.target.Key, Length: uint32(c.n)}
			if c.alter != nil {
				c.alter(b, in)
			}
			b.m.Receive(0, in)
			wantReasons(t, b, c.want...)
			if n := bytes.Count(b.tgtB, []byte{0xee}); n != 0 {
				t.Errorf("%d bytes were written", n)
			}
			taken := c.name == "PSN ahead" // its message is complete
			if l := b.Received.Take(); (len(l) == 1) != taken {
				t.Errorf("completions: %+v", l)
			}
		})
	}
}

func TestResponderNewMessageEndsUnfinishedOne(t *testing.T) {
	a, b := pair(t)
	b.PostRecv(1, machinetest.SGE(b.dst, 0, 1000))
	in := &machine.In{Src: machinetest.AddrA}
	in.Opcode, in.PSN, in.Payload = ib.UCSendFirst, a.firstPSN, make([]byte, 256)
	b.m.Receive(0, in)
	in.Opcode, in.PSN, in.Payload = ib.UCSendOnly, a.firstPSN.Next(), []byte("whole")
	b.m.Receive(0, in)
	wantReasons(t, b, reason.OpcodeSequence)
	if c := wantOne(t, &b.Received, queue.Success, 1); string(b.dstB[:c.ByteLen]) != "whole" {
		t.Errorf("found %q", b.dstB[:c.ByteLen])
	}
}

func TestResponderEmptyLastIsDropped(t *testing.T) {
	for _, o := range [][2]ib.Opcode{{ib.UCSendFirst, ib.UCSendLast}, {ib.UCWriteFirst, ib.UCWriteLast}} {
		a, b := pair(t)
		b.PostRecv(1, machinetest.SGE(b.dst, 0, 1000))
		in := &machine.In{Src: machinetest.AddrA}
		in.Opcode, in.PSN, in.Payload = o[0], a.firstPSN, make([]byte, 256)
		in.RETH = ib.RETH{Addr: b.target.Base, RKey: b.target.Key, Length: 257}
		b.m.Receive(0, in)
		in.Opcode, in.PSN, in.Payload = o[1], a.firstPSN.Next(), nil
		b.m.Receive(0, in)
		wantReasons(t, b, reason.LengthShortSegment)
		if l := b.Received.Take(); len(l) != 0 {
			t.Errorf("completions: %+v", l)
		}
	}
}

func TestReceiveStartsAtFirstEntryOfEachRequest(t *testing.T) {
	a, b := pair(t)
	b.PostRecv(1, machinetest.SGE(b.dst, 0, 0), machinetest.SGE(b.dst, 0, 100))
	b.PostRecv(2, machinetest.SGE(b.dst, 200, 50), machinetest.SGE(b.dst, 300, 50))
	for range 2 {
		a.PostSend(op(queue.Send, 1), machinetest.SGE(a.src, 1, 80))
	}
	send(b, machinetest.Drain(a.m, 0)...)
	if got := append(slices.Clone(b.dstB[200:250]), b.dstB[300:330]...); !bytes.Equal(got, a.srcB[1:81]) || !bytes.Equal(b.dstB[:80], a.srcB[1:81]) {
		t.Error("wrong data")
	}
}

func TestResponderOtherKindInMessageIsDropped(t *testing.T) {
	a, b := pair(t)
	b.PostRecv(1, machinetest.SGE(b.dst, 0, 1000))
	in := &machine.In{Src: machinetest.AddrA}
	for i, o := range []ib.Opcode{ib.UCSendFirst, ib.UCWriteMiddle, ib.UCSendLast} {
		in.Opcode, in.PSN, in.Payload = o, a.firstPSN.Add(i), make([]byte, 256)
		b.m.Receive(0, in)
	}
	wantReasons(t, b, reason.OpcodeSequence, reason.OpcodeSequence)
	if l := b.Received.Take(); len(l) != 0 {
		t.Errorf("completions: %+v", l)
	}
}

func TestWriteToKeyInvalidatedHalfWayIsDropped(t *testing.T) {
	a, b := pair(t)
	a.PostSend(write(queue.Write, 1, b.target.Base, b.target.Key), machinetest.SGE(a.src, 0, 600))
	packets := machinetest.Drain(a.m, 0)
	send(b, packets[0])
	if err := b.Memory.Deregister(b.target); err != nil {
		t.Fatal(err)
	}
	send(b, packets[1:]...)
	wantReasons(t, b, reason.KeyInvalid, reason.OpcodeSequence)
	if !bytes.Equal(b.tgtB[:256], a.srcB[:256]) || b.tgtB[256] != 0 {
		t.Error("memory of an invalid key was written")
	}
}

func TestBadReceiveKeyEndsQueuePair(t *testing.T) {
	a, b := pair(t)
	e := machinetest.SGE(b.dst, 0, 100)
	e.LKey = b.src.Key // not writable
	b.PostRecv(1, e)
	b.PostRecv(2, machinetest.SGE(b.dst, 0, 100))
	a.PostSend(op(queue.Send, 1), machinetest.SGE(a.src, 0, 10))
	send(b, machinetest.Drain(a.m, 0)...)
	if c := wantOne(t, &b.Received, queue.LocProtErr, 1); c.Reason != reason.LocalBounds && c.Reason != reason.LocalAccess {
		t.Errorf("found %+v", c)
	}
	if b.Attr.State != qp.Err || !slices.Equal(b.States, []string{"RTS>ERR"}) {
		t.Errorf("state %v, changes %v", b.Attr.State, b.States)
	}
	if b.m.Deadline() != 0 {
		t.Error("the flush has no deadline")
	}
	b.m.Expire(0)
	c := wantOne(t, &b.Received, queue.WRFlushErr, 2)
	if c.Reason != reason.Flushed || c.Found != uint64(queue.LocProtErr) {
		t.Errorf("found %+v", c)
	}
	if b.m.Deadline() != machine.Never {
		t.Error("a deadline is left")
	}
}

func TestCommunicationEstablishedIsReportedOnce(t *testing.T) {
	b := newEnd(t, 2, 1, 0, 0)
	b.Move(b.m, qp.Reset, qp.Init, qp.RTR)
	in := &machine.In{Src: machinetest.AddrA}
	in.Opcode = ib.UCSendOnly
	b.m.Receive(0, in)
	b.m.Receive(0, in)
	if !slices.Equal(b.Events, []machine.Event{machine.EventCommEst}) {
		t.Errorf("found %v", b.Events)
	}
}
