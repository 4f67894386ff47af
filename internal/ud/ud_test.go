package ud

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/machine/machinetest"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

const (
	bufferLen = 4096
	qkey      = 0x11111111
)

type end struct {
	*machinetest.Port
	m          *QP
	src, dst   *memory.Region
	srcB, dstB []byte
	handles    map[uint32]*qp.Path
}

func newEnd(t testing.TB, qpn uint32) *end {
	e := &end{Port: machinetest.New(qp.UD, qpn, 16), handles: map[uint32]*qp.Path{
		3: {Dst: machinetest.AddrB, TrafficClass: 0x20, HopLimit: 9},
	}}
	e.src, e.srcB = e.Register(bufferLen, 0)
	e.dst, e.dstB = e.Register(bufferLen, qp.LocalWrite)
	for i := range e.srcB {
		e.srcB[i] = byte(i*5 + i>>8)
	}
	e.AHs = func(to queue.UD) *qp.Path { return e.handles[to.AHNum] }
	e.m = New(&e.Port.Port)
	e.Attr.PathMTU, e.Attr.QKey, e.Attr.SQPSN = 1024, qkey, 0xffffff
	e.Move(e.m, qp.Init, qp.RTR, qp.RTS)
	return e
}

// to addresses a request to queue pair 2 through handle 3.
func to(o queue.Op, id uint64) func(*queue.SendWQE) {
	return func(w *queue.SendWQE) {
		w.Op, w.WRID = o, id
		u := w.UD()
		u.RemoteQPN, u.RemoteQKey, u.AHNum = 2, qkey, 3
	}
}

func wantReasons(t *testing.T, e *end, want ...reason.Reason) {
	t.Helper()
	if got := e.Reasons(); !slices.Equal(got, want) {
		t.Errorf("reasons: found %v, want %v", got, want)
	}
}

func wantOne(t *testing.T, c *machinetest.Completions, status queue.Status, id uint64) queue.CQE {
	t.Helper()
	l := c.Take()
	if len(l) != 1 || l[0].Status != status || l[0].WRID != id {
		t.Fatalf("completions: found %+v, want one of request %d with status %d", l, id, status)
	}
	return l[0]
}

func TestRequesterMakesDatagram(t *testing.T) {
	a := newEnd(t, 1)
	a.PostSend(func(w *queue.SendWQE) {
		to(queue.SendImm, 1)(w)
		w.ImmInv = queue.NetworkOrder(0xa1b2c3d4)
		w.Flags |= queue.Solicited
	}, machinetest.SGE(a.src, 3, 100), machinetest.SGE(a.src, 500, 7))
	var out machine.Out
	if !a.m.Next(0, &out) {
		t.Fatal("no packet")
	}
	want := ib.BTH{Opcode: ib.UDSendOnlyImm, Solicited: true, DestQPN: 2, PSN: 0xffffff}
	if out.BTH != want || out.DETH != (ib.DETH{QKey: qkey, SrcQPN: 1}) || out.Imm != 0xa1b2c3d4 {
		t.Errorf("found %+v", out.Packet)
	}
	if out.Path != a.handles[3] {
		t.Errorf("path %+v", out.Path)
	}
	if got := bytes.Join(out.Pieces, nil); !bytes.Equal(got, append(slices.Clone(a.srcB[3:103]), a.srcB[500:507]...)) || out.Len != 107 {
		t.Errorf("%d bytes of data, Len %d", len(got), out.Len)
	}
	// IBTA 9.7.2: the PSN counts packets, and wraps.
	a.PostSend(to(queue.Send, 2))
	if !a.m.Next(0, &out) || out.PSN != 0 || out.Opcode != ib.UDSendOnly || out.Len != 0 {
		t.Errorf("second packet: %+v", out.BTH)
	}
}

func TestRequesterQKeyHighBitTakesOwn(t *testing.T) {
	for given, want := range map[uint32]uint32{0x22: 0x22, 0x7fffffff: 0x7fffffff, 0x80000000: qkey, 0xffffffff: qkey} {
		a := newEnd(t, 1)
		a.PostSend(func(w *queue.SendWQE) { to(queue.Send, 1)(w); w.UD().RemoteQKey = given })
		var out machine.Out
		if !a.m.Next(0, &out) || out.DETH.QKey != want {
			t.Errorf("Q_Key %#x became %#x, want %#x", given, out.DETH.QKey, want)
		}
	}
}

func TestBadRequestStopsSendQueue(t *testing.T) {
	for _, c := range []struct {
		name   string
		post   func(a *end)
		status queue.Status
		why    reason.Reason
	}{
		{"longer than the MTU", func(a *end) { a.PostSend(to(queue.Send, 1), machinetest.SGE(a.src, 0, 1025)) }, queue.LocLenErr, reason.LocalLength},
		{"inline room", func(a *end) {
			a.PostInline(nil, func(w *queue.SendWQE) { to(queue.Send, 1)(w); w.Length = 65 })
		}, queue.LocLenErr, reason.InlineTooLong},
		{"key", func(a *end) {
			e := machinetest.SGE(a.src, 0, 5)
			e.LKey ^= 1
			a.PostSend(to(queue.Send, 1), e)
		}, queue.LocProtErr, reason.LocalKey},
		{"WRITE", func(a *end) { a.PostSend(to(queue.Write, 1)) }, queue.LocQPOpErr, reason.LocalOpcode},
		{"bind", func(a *end) { a.PostSend(to(queue.BindMW, 1)) }, queue.LocQPOpErr, reason.LocalOpcode},
		{"handle", func(a *end) {
			a.PostSend(func(w *queue.SendWQE) { to(queue.Send, 1)(w); w.UD().AHNum = 4 })
		}, queue.LocQPOpErr, reason.AddressHandle},
		{"no handles", func(a *end) { a.AHs = nil; a.PostSend(to(queue.Send, 1)) }, queue.LocQPOpErr, reason.AddressHandle},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newEnd(t, 1)
			c.post(a)
			a.PostSend(to(queue.Send, 2))
			if n := len(machinetest.Drain(a.m, 0)); n != 0 {
				t.Errorf("%d packets left", n)
			}
			a.m.Expire(0)
			l := a.Sent.Take()
			if len(l) != 2 || l[0].Status != c.status || l[0].Reason != c.why || l[1].Status != queue.WRFlushErr {
				t.Errorf("found %+v", l)
			}
			wantReasons(t, a, c.why)
			if a.Attr.State != qp.SQE {
				t.Errorf("state %v", a.Attr.State)
			}
		})
	}
}

// grh4 and grh6 are written by hand from RFC 791 and RFC 8200, except for the IPv4 checksum.
var (
	grh4 = append(make([]byte, 20), 0x45, 0x02, 0x00, 0x70, 0, 0, 0x40, 0, 42, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2)
	grh6 = []byte{0x60, 0x20, 0, 0, 0, 0x5c, 17, 42,
		0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
		0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}
)

func datagram(src, dst string, data string) *machine.In {
	in := &machine.In{Src: netip.MustParseAddrPort(src), Dst: netip.MustParseAddrPort(dst), TOS: 2, TTL: 42}
	in.Opcode, in.DETH, in.Payload = ib.UDSendOnlyImm, ib.DETH{QKey: qkey, SrcQPN: 0x654321}, []byte(data)
	in.Pad, in.Imm, in.Solicited = ib.PadLen(len(data)), 0x0a0b0c0d, true
	return in
}

func TestReceivePutsNetworkHeaderInFront(t *testing.T) {
	const data = "fifty-four bytes of a datagram, which pad to 56 on it."
	if len(data) != 54 {
		t.Fatal(len(data))
	}
	check := uint32(0)
	for i := 20; i < 40; i += 2 {
		check += uint32(binary.BigEndian.Uint16(grh4[i:]))
	}
	check = check&0xffff + check>>16
	binary.BigEndian.PutUint16(grh4[30:], ^uint16(check&0xffff+check>>16))
	for _, c := range []struct {
		src, dst string
		want     []byte
		kind     uint8
	}{
		{"192.0.2.1:50000", "192.0.2.2:4791", grh4, queue.PacketIPv4},
		{"[2001:db8::1]:50000", "[2001:db8::2]:4791", grh6, queue.PacketIPv6},
	} {
		b := newEnd(t, 2)
		b.PostRecv(5, machinetest.SGE(b.dst, 0, 30), machinetest.SGE(b.dst, 30, 64)) // exactly enough
		b.m.Receive(0, datagram(c.src, c.dst, data))
		e := wantOne(t, &b.Received, queue.Success, 5)
		want := queue.CQE{
			WRID: 5, Op: queue.WCRecv, ByteLen: 94, ImmInv: queue.NetworkOrder(0x0a0b0c0d), QPN: 2, SrcQPN: 0x654321,
			Flags: queue.WCGRH | queue.WCImm, SL: c.kind, PortNum: 1, Solicited: 1,
		}
		if e != want {
			t.Errorf("found %+v", e)
		}
		if !bytes.Equal(b.dstB[:40], c.want) {
			t.Errorf("header\nfound % x\nwant  % x", b.dstB[:40], c.want)
		}
		if string(b.dstB[40:94]) != data {
			t.Errorf("data: found %q", b.dstB[40:94])
		}
		wantReasons(t, b)
	}
}

func TestReceiveRefusals(t *testing.T) {
	for _, c := range []struct {
		name  string
		alter func(b *end, in *machine.In)
		want  reason.Detail
	}{
		{"Q_Key", func(_ *end, in *machine.In) { in.DETH.QKey = 0x22 }, reason.Detail{Reason: reason.PacketQKey, Expected: qkey, Found: 0x22}},
		{"too long", func(_ *end, in *machine.In) { in.Payload = make([]byte, 61) }, reason.Detail{Reason: reason.PacketTooLong, Expected: 100, Found: 101}},
		{"MTU", func(_ *end, in *machine.In) { in.Payload = make([]byte, 1025) }, reason.Detail{Reason: reason.LengthMTU, Expected: 1024, Found: 1025}},
		{"transport", func(_ *end, in *machine.In) { in.Opcode = ib.UCSendOnly }, reason.Detail{Reason: reason.PacketTransport, Expected: 3, Found: 1}},
		{"opcode", func(_ *end, in *machine.In) { in.Opcode = 0x66 }, reason.Detail{Reason: reason.PacketTransport, Expected: 3, Found: 3}},
		{"state", func(b *end, _ *machine.In) { b.Attr.State = qp.Init }, reason.Detail{Reason: reason.PacketQPState, Expected: 2, Found: 1}},
		{"no receive", func(b *end, _ *machine.In) { b.Receives.List = nil }, reason.Detail{Reason: reason.PacketNoReceive, Expected: 1, Found: 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newEnd(t, 2)
			b.PostRecv(1, machinetest.SGE(b.dst, 0, 100))
			in := datagram("192.0.2.1:1", "192.0.2.2:4791", "x")
			c.alter(b, in)
			b.m.Receive(0, in)
			if len(b.Refused) != 1 || b.Refused[0] != c.want {
				t.Errorf("found %v, want %v", b.Refused, c.want)
			}
			if l := b.Received.Take(); len(l) != 0 || b.dstB[30] != 0 {
				t.Errorf("completions %+v", l)
			}
			// IBTA 9.8.3: the next datagram is received nevertheless.
			b.Attr.State = qp.RTS
			b.PostRecv(2, machinetest.SGE(b.dst, 0, 100))
			b.m.Receive(0, datagram("192.0.2.1:1", "192.0.2.2:4791", "next"))
			id := uint64(1)
			if c.name == "no receive" {
				id = 2
			}
			wantOne(t, &b.Received, queue.Success, id)
		})
	}
}

func TestRequestsStartAtTheirFirstEntry(t *testing.T) {
	a, b := newEnd(t, 1), newEnd(t, 2)
	b.PostRecv(1, machinetest.SGE(b.dst, 0, 0), machinetest.SGE(b.dst, 0, 200))
	b.PostRecv(2, machinetest.SGE(b.dst, 400, 60), machinetest.SGE(b.dst, 500, 60))
	a.PostSend(to(queue.Send, 1), machinetest.SGE(a.src, 0, 0), machinetest.SGE(a.src, 9, 50))
	a.PostSend(to(queue.Send, 2), machinetest.SGE(a.src, 100, 30), machinetest.SGE(a.src, 200, 30))
	for _, p := range machinetest.Drain(a.m, 0) {
		b.m.Receive(0, machinetest.Decode(p, machinetest.AddrA, machinetest.AddrB))
	}
	if !bytes.Equal(b.dstB[40:90], a.srcB[9:59]) {
		t.Error("first datagram: wrong data")
	}
	want := append(slices.Clone(a.srcB[100:130]), a.srcB[200:230]...)
	if got := append(slices.Clone(b.dstB[440:460]), b.dstB[500:540]...); !bytes.Equal(got, want) {
		t.Error("second datagram: wrong data")
	}
}

func TestReceiveIgnoresPSN(t *testing.T) {
	b := newEnd(t, 2)
	for i, p := range []uint32{5, 5, 1, 0xffffff} {
		b.PostRecv(uint64(i), machinetest.SGE(b.dst, 0, 100))
		in := datagram("192.0.2.1:1", "192.0.2.2:4791", "x")
		in.PSN = in.PSN.Add(int(p))
		b.m.Receive(0, in)
		wantOne(t, &b.Received, queue.Success, uint64(i))
	}
}

func TestBadReceiveKeyEndsQueuePair(t *testing.T) {
	b := newEnd(t, 2)
	b.PostRecv(1, machinetest.SGE(b.src, 0, 100)) // not writable
	b.PostRecv(2, machinetest.SGE(b.dst, 0, 100))
	b.m.Receive(0, datagram("192.0.2.1:1", "192.0.2.2:4791", "x"))
	if c := wantOne(t, &b.Received, queue.LocProtErr, 1); c.Reason != reason.LocalAccess {
		t.Errorf("found %+v", c)
	}
	if b.Attr.State != qp.Err {
		t.Errorf("state %v", b.Attr.State)
	}
	b.m.Expire(0)
	wantOne(t, &b.Received, queue.WRFlushErr, 2)
}

func TestDatagramFromOneEndToTheOther(t *testing.T) {
	a, b := newEnd(t, 1), newEnd(t, 2)
	for n := range 200 {
		b.PostRecv(uint64(n), machinetest.SGE(b.dst, 0, 2000))
		a.PostSend(to(queue.Send, uint64(n)), machinetest.SGE(a.src, n, n/2), machinetest.SGE(a.src, 7, n-n/2))
		for _, p := range machinetest.Drain(a.m, 0) {
			b.m.Receive(0, machinetest.Decode(p, machinetest.AddrA, machinetest.AddrB))
		}
		a.m.Sent()
		wantOne(t, &a.Sent, queue.Success, uint64(n))
		c := wantOne(t, &b.Received, queue.Success, uint64(n))
		want := append(slices.Clone(a.srcB[n:n+n/2]), a.srcB[7:7+n-n/2]...)
		if !bytes.Equal(b.dstB[40:c.ByteLen], want) {
			t.Fatalf("datagram of %d bytes: wrong data", n)
		}
	}
}

func TestDataPathDoesNotAllocate(t *testing.T) {
	a, b := newEnd(t, 1), newEnd(t, 2)
	out := machine.Out{Pieces: make([][]byte, 0, 8)}
	in := datagram("[2001:db8::1]:50000", "[2001:db8::2]:4791", "data")
	a.Sent.List, b.Received.List = make([]queue.CQE, 0, 4), make([]queue.CQE, 0, 4)
	recv := machine.Receive{WRID: 1, Length: 200, SGEs: []memory.SGE{machinetest.SGE(b.dst, 0, 200)}}
	receives := make([]machine.Receive, 1)
	fill := to(queue.Send, 1)
	list := []memory.SGE{machinetest.SGE(a.src, 0, 100)}
	completions := 0
	n := testing.AllocsPerRun(100, func() {
		receives[0] = recv
		b.Receives.List = receives
		a.PostSend(fill, list...)
		for a.m.Next(0, &out) {
			b.m.Receive(0, in)
		}
		a.m.Sent()
		completions += len(a.Sent.List) + len(b.Received.List)
		a.Sent.List, b.Received.List = a.Sent.List[:0], b.Received.List[:0]
	})
	if n != 0 || completions != 202 { // AllocsPerRun runs once more to warm up
		t.Errorf("%v allocations per datagram, %d completions of 202", n, completions)
	}
}
