package iwarp

import (
	"bytes"
	"testing"

	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// opcodes returns the opcodes of a stream's FPDUs.
func opcodes(t *testing.T, b []byte) (list []iwarp.Opcode) {
	for _, x := range fpdus(t, b, true) {
		list = append(list, iwarp.Opcode(x[3]&0xf))
	}
	return list
}

func TestFenceWaitsForREADs(t *testing.T) {
	r := newRaw(t, defaults(), nil)
	r.post(queue.Read, 0, 0, queue.RDMA{})
	r.PostSend(func(w *queue.SendWQE) { w.Op = queue.Write; w.Flags |= queue.Fence })
	if got := opcodes(t, r.drain()); len(got) != 1 || got[0] != iwarp.ReadRequest {
		t.Errorf("sent %v before the READ was answered", got)
	}
	r.receive(r.fpdu(iwarp.Segment{Tagged: true, Last: true, Opcode: iwarp.ReadResponse}, nil))
	if got := opcodes(t, r.drain()); len(got) != 1 || got[0] != iwarp.Write {
		t.Errorf("sent %v then", got)
	}
}

func TestResponsesAndRequestsTakeTurns(t *testing.T) {
	r := newRaw(t, &Params{IRD: 40, ORD: 4}, nil)
	r.s.setup.Asks.IRD = 40
	r.q.a.IRD = 40
	r.q.rd.start()
	var b []byte
	for i := range 20 {
		b = append(b, readRequest(func(r *raw, s *iwarp.Segment, m *iwarp.Read) { s.MSN = uint32(i + 1) })(r)...)
	}
	r.receive(b)
	for range 20 {
		r.post(queue.Write, 0, 10, queue.RDMA{})
	}
	list := opcodes(t, r.drain())
	run, longest := 0, 0
	for i, op := range list[:30] {
		if i > 0 && op != list[i-1] {
			run = 0
		}
		run++
		longest = max(longest, run)
	}
	if len(list) != 40 || longest > turn {
		t.Errorf("sent %v", list)
	}
}

func TestPaddingIsZero(t *testing.T) {
	for _, crc := range []bool{true, false} {
		r := newRaw(t, &Params{NoCRC: !crc}, nil)
		for i := range r.mem {
			r.mem[i] = 0xff
		}
		for n := range 2 * iwarp.MarkerLen {
			r.post(queue.Write, 0, 500, queue.RDMA{}) // leaves non-zero bytes in the arena
			r.drain()
			r.post(queue.Write, 0, n, queue.RDMA{})
			r.post(queue.Write, 0, 1500+n, queue.RDMA{})
			for _, b := range fpdus(t, r.drain(), crc) {
				end := len(b) - iwarp.CRCLen
				pad := iwarp.PadLen(int(b[0])<<8 + int(b[1]))
				if !bytes.Equal(b[end-pad:end], make([]byte, pad)) || !crc && iwarp.CRC(b[end:]) != 0 {
					t.Errorf("%d bytes end in % x", n, b[end-4:])
				}
			}
		}
	}
}

// The memory of a READ may change while the response is sent. The bytes sent must be those that the
// CRC covers.
func TestREADAnswerIsCopiedUnderItsCRC(t *testing.T) {
	for _, crc := range []bool{true, false} {
		r := newRaw(t, &Params{IRD: 4, NoCRC: !crc}, nil)
		r.receive(readRequest(func(r *raw, s *iwarp.Segment, m *iwarp.Read) { m.Size = 50000 })(r))
		if !r.s.Next(0, &r.out) {
			t.Fatal("no answer")
		}
		own := 0
		for _, b := range r.out.Pieces {
			if inside(b, r.mem) {
				own += len(b)
			}
		}
		if want := map[bool]int{true: 0, false: 50000}[crc]; own != want {
			t.Errorf("CRC %v: %d bytes leave from their place, expected %d", crc, own, want)
		}
	}
}

// A Terminate that follows the rest of an FPDU has its markers in the right places.
func TestTerminateAfterRestKeepsMarkers(t *testing.T) {
	for cut := 1; cut < 3000; cut += 37 {
		p, a, b := connected(t, defaults(), &Params{IRD: 4, ORD: 4, Markers: true})
		a.post(queue.Write, 0, 1200+cut/3, b.target(0)) // so that it ends anywhere between two markers
		a.post(queue.Write, 0, 2000, b.target(0))
		a.limit = a.sent + cut
		p.run()
		a.unread = append(a.unread, (&raw{pair: p, node: a}).fpdu(iwarp.Segment{Last: true, Opcode: iwarp.Send, MSN: 1}, nil)...)
		for p.read(0) {
		}
		a.limit = 0
		p.run()
		if a.Refused[0].Reason != reason.DDPNoBuffer || b.q.term != iwarp.TermUntaggedBuffer {
			t.Fatalf("cut at %d: refused %v, peer heard %v and refused %v", cut, a.Refused, b.q.term, b.Refused)
		}
	}
}

func TestReplyIsSentBeforeTheEnd(t *testing.T) {
	r := newSetup(t, nil)
	r.receive(frameBytes(iwarp.Frame{Revision: 1}, nil, nil))
	if err := r.s.Accept(0, r.q, defaults()); err != nil {
		t.Fatal(err)
	}
	if err := r.s.Disconnect(0); err != nil {
		t.Fatal(err)
	}
	r.s.Expire(firstWait)
	if r.s.Shut() != ShutNothing {
		t.Errorf("shut %d before the reply was sent", r.s.Shut())
	}
	if b := r.drain(); len(b) != iwarp.FrameLen || r.s.Shut() != ShutWrite {
		t.Errorf("sent % x, shut %d", b, r.s.Shut())
	}
}

// READs scatter to several entries, although their requests name only one.
func TestREADScatters(t *testing.T) {
	p, a, b := connected(t, defaults(), defaults())
	for i := range b.mem {
		b.mem[i] = byte(i * 11)
	}
	a.PostSend(func(w *queue.SendWQE) { w.Op = queue.Read; *w.RDMA() = b.target(0) }, memory.SGE{LKey: 99}, a.sge(30000, 100), a.sge(100, 20000), a.sge(50000, 3))
	p.run()
	if len(a.Sent.List) != 1 || a.Sent.List[0].ByteLen != 20103 || !bytes.Equal(a.mem[30000:30100], b.mem[:100]) || !bytes.Equal(a.mem[100:20100], b.mem[100:20100]) || !bytes.Equal(a.mem[50000:50003], b.mem[20100:20103]) {
		t.Errorf("%+v, refused %v", a.Sent.List, a.Refused)
	}
}
