package iwarp

import (
	"bytes"
	"testing"
	"unsafe"

	"softrdma/internal/machine/machinetest"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// inside reports whether a slice lies in memory.
func inside(b, mem []byte) bool {
	at, from := uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	return at >= from && at+uintptr(len(b)) <= from+uintptr(len(mem))
}

// Payload moves directly between the socket and registered memory.
func TestPayloadIsNotCopied(t *testing.T) {
	p, a, b := connected(t, &Params{IRD: 4, ORD: 4, NoCRC: true}, &Params{IRD: 4, ORD: 4, NoCRC: true})
	b.PostRecv(1, b.sge(0, 20000), b.sge(100000, 20000))
	a.post(queue.Send, 0, 40000, queue.RDMA{})
	a.post(queue.Write, 50000, 30000, b.target(200000))
	b.post(queue.Read, 300000, 30000, a.target(90000))
	for i, n := range p.n {
		if !n.s.Next(0, &n.out) {
			t.Fatal("nothing to send")
		}
		own := 0
		for _, x := range n.out.Pieces {
			if inside(x, n.mem) {
				own += len(x)
			}
		}
		if i == 0 && own != 70000 {
			t.Errorf("%d bytes of 70000 leave from their place", own)
		}
		p.n[1-i].unread = append(p.n[1-i].unread, bytes.Join(n.out.Pieces, nil)...)
		n.s.Sent(0, n.out.Len, 0)
	}
	direct := 0
	for len(b.unread) > 0 {
		k := 0
		for _, x := range b.s.Room(0, p.scratch[:256]) {
			k += copy(x, b.unread)
			b.unread = b.unread[copy(x, b.unread):]
			if inside(x, b.mem) {
				direct += len(x)
			}
		}
		b.s.Filled(0, k)
	}
	if direct < 69000 {
		t.Errorf("%d bytes of 70000 came to their place", direct)
	}
	if !bytes.Equal(b.mem[:20000], a.mem[:20000]) || !bytes.Equal(b.mem[100000:120000], a.mem[20000:40000]) || !bytes.Equal(b.mem[200000:230000], a.mem[50000:80000]) {
		t.Error("the bytes differ")
	}
	p.run() // a answers the READ
	if len(b.Sent.List) != 1 || b.Sent.List[0].Status != queue.Success {
		t.Errorf("%+v", b.Sent.List)
	}
}

// Memory that is deregistered during a message is not accessed again.
func TestMemoryDeregisteredDuringMessage(t *testing.T) {
	t.Run("sent from", func(t *testing.T) {
		p, a, b := connected(t, defaults(), defaults())
		x := (&raw{node: a}).other(machinetest.PD, 0, 0)
		a.PostSend(func(w *queue.SendWQE) { w.Op = queue.Write; *w.RDMA() = b.target(0) }, memory.SGE{Length: 4096, LKey: x.Key})
		p.maxPiece, a.limit = 1000, a.sent+100
		p.run()
		if err := a.Memory.Deregister(x); err != nil {
			t.Fatal(err)
		}
		a.limit = 0
		p.run()
		if a.shut != ShutAbort || a.Attr.State != qp.Err || a.Refused[0].Reason != reason.LocalKey || b.last().Detail.Reason != reason.StreamLost {
			t.Errorf("shut %d, in %v, refused %v, peer heard %+v", a.shut, a.Attr.State, a.Refused, b.last())
		}
	})
	t.Run("written to", func(t *testing.T) {
		r := newRaw(t, defaults(), nil)
		x := r.other(machinetest.PD, 0, allAccess)
		b := r.fpdu(iwarp.Segment{Tagged: true, Last: true, Opcode: iwarp.Write, STag: x.Key}, make([]byte, 3000))
		r.receive(b[:500])
		if err := r.Memory.Deregister(x); err != nil {
			t.Fatal(err)
		}
		r.receive(b[500:])
		if m, ok := r.termination(true); !ok || m.Term != iwarp.TermTaggedSTag || m.Segment.STag != x.Key || r.Refused[0].Reason != reason.KeyInvalid {
			t.Errorf("sent %+v, refused %v", m, r.Refused)
		}
	})
	t.Run("received into", func(t *testing.T) {
		r := newRaw(t, defaults(), nil)
		x := r.other(machinetest.PD, 0, allAccess)
		r.PostRecv(1, memory.SGE{Length: 4096, LKey: x.Key})
		b := r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.Send, MSN: 1}, make([]byte, 3000))
		r.receive(b[:500])
		if err := r.Memory.Deregister(x); err != nil {
			t.Fatal(err)
		}
		r.receive(b[500:])
		if m, ok := r.termination(true); !ok || m.Term != iwarp.TermDDPLocal || r.Received.List[0].Status != queue.LocProtErr {
			t.Errorf("sent %+v, received %+v", m, r.Received.List)
		}
	})
	t.Run("read from", func(t *testing.T) {
		r := newRaw(t, &Params{IRD: 4, ORD: 4, MaxFPDU: 1452}, nil)
		x := r.other(machinetest.PD, 0, allAccess)
		r.receive(r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.ReadRequest, Queue: 1, MSN: 1}, read(iwarp.Read{SinkSTag: 5, Size: 4096, SourceSTag: x.Key})))
		if err := r.Memory.Deregister(x); err != nil {
			t.Fatal(err)
		}
		m, ok := r.termination(true)
		if !ok || m.Term != iwarp.TermProtectionSTag || !m.HasRDMAP || m.Read.SinkSTag != 5 || m.Segment.MSN != 1 {
			t.Errorf("sent %+v", m)
		}
	})
	// RFC 5040 4.8: the Terminate carries the remaining length of the READ.
	t.Run("read from in part", func(t *testing.T) {
		r := newRaw(t, &Params{IRD: 4, ORD: 4, MaxFPDU: 1452}, nil)
		const size = 300 << 10
		from := r.region.Base
		r.receive(r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.ReadRequest, Queue: 1, MSN: 1}, read(iwarp.Read{SinkSTag: 5, SinkTO: 70, Size: size, SourceSTag: r.region.Key, SourceTO: from})))
		r.s.Next(0, &r.out)
		answered := uint64(len(r.q.tx.list) * (1452 - iwarp.TaggedLen - iwarp.CRCLen))
		r.s.Sent(0, r.out.Len, 0)
		if err := r.Memory.Deregister(r.region); err != nil {
			t.Fatal(err)
		}
		m, ok := r.termination(true)
		want := iwarp.Read{SinkSTag: 5, SinkTO: 70 + answered, Size: size - uint32(answered), SourceSTag: r.region.Key, SourceTO: from + answered}
		if !ok || m.Term != iwarp.TermProtectionSTag || m.Read != want || answered == 0 || answered >= size {
			t.Errorf("sent %+v, expected %+v", m, want)
		}
	})
}

// process simulates the memory of another process at address 0x7000.
type process struct {
	mem           []byte
	loads, stores int
}

func (p *process) Load(dst []byte, addr uint64) error {
	p.loads++
	copy(dst, p.mem[addr-0x7000:])
	return nil
}

func (p *process) Store(addr uint64, src []byte) error {
	p.stores++
	copy(p.mem[addr-0x7000:], src)
	return nil
}

// Memory of another process is accessed through its space, not through its mirror.
func TestMemoryOfAnotherProcess(t *testing.T) {
	for _, maxPiece := range []int{100, 1 << 20} {
		p, a, b := connected(t, defaults(), defaults())
		p.maxPiece = maxPiece
		far := &process{mem: make([]byte, 200000)}
		for i := range far.mem {
			far.mem[i] = byte(i * 3)
			a.mem[i] = byte(i * 7)
		}
		region, err := b.Memory.RegisterForeign(machinetest.PD, make([]byte, 200000), 0x100000, allAccess, memory.Foreign{Space: far, Addr: 0x7000})
		if err != nil {
			t.Fatal(err)
		}
		b.region = region
		b.PostRecv(1, b.sge(0, 30000))
		a.post(queue.Send, 0, 30000, queue.RDMA{})
		a.post(queue.Write, 30000, 30000, b.target(30000))
		a.post(queue.Read, 300000, 30000, b.target(60000))
		a.post(queue.FetchAdd, 400000, 8, b.target(90000))
		a.post(queue.CompareSwap, 400000, 8, b.target(90008))
		word := far.mem[90000]
		a.PostRecv(1, a.sge(500000, 30000))
		b.post(queue.Send, 120000, 30000, queue.RDMA{})
		p.run()
		b.post(queue.Read, 150000, 30000, a.target(100000))
		p.run()
		if len(a.Sent.List) != 5 || len(b.Sent.List) != 2 || len(a.Refused)+len(b.Refused) != 0 {
			t.Fatalf("%s, %s, refused %v %v", brief(a.Sent.List), brief(b.Sent.List), a.Refused, b.Refused)
		}
		if l := b.Memory.Flush(); l != nil {
			t.Fatal(l)
		}
		for what, same := range map[string]bool{
			"received":   bytes.Equal(far.mem[:30000], a.mem[:30000]),
			"written":    bytes.Equal(far.mem[30000:60000], a.mem[30000:60000]),
			"read":       bytes.Equal(a.mem[300000:330000], far.mem[60000:90000]),
			"added":      far.mem[90000] == word+1,
			"sent":       bytes.Equal(a.mem[500000:530000], far.mem[120000:150000]),
			"read there": bytes.Equal(far.mem[150000:180000], a.mem[100000:130000]),
		} {
			if !same {
				t.Errorf("pieces of %d: what was %s differs", maxPiece, what)
			}
		}
	}
}
