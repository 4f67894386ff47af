package iwarp

import (
	"encoding/binary"
	"testing"

	"softrdma/internal/machine/machinetest"
	"softrdma/internal/queue"
	"softrdma/internal/wire/iwarp"
)

// A raw is one end whose peer is the test, which writes the bytes itself.
type raw struct {
	*pair
	*node
	begun []byte // bytes that the end sent before drain
}

// newRaw makes an end in full operation. It is the responder to a request of revision 2 without a
// peer-to-peer connection and has received its first FPDU.
func newRaw(tb testing.TB, p *Params, alter func(p *machinetest.Port)) *raw {
	r := newSetup(tb, alter)
	r.receive(frameBytes(iwarp.Frame{Flags: iwarp.FlagEnhanced | iwarp.FlagExtOffer | iwarp.FlagLarge, Revision: 2}, &iwarp.Enhanced{IRD: 4, ORD: 4}, nil))
	if err := r.s.Accept(0, r.q, p); err != nil {
		tb.Fatal(err)
	}
	r.drain()
	r.receive(r.fpdu(iwarp.Segment{Tagged: true, Last: true, Opcode: iwarp.Write}, nil))
	if len(r.Refused) > 0 {
		tb.Fatal(r.Refused)
	}
	return r
}

// newSetup makes an end that waits for a request.
func newSetup(tb testing.TB, alter func(p *machinetest.Port)) *raw {
	p := newPair(tb, func(i int, p *machinetest.Port) {
		if i == 0 && alter != nil {
			alter(p)
		}
	})
	r := &raw{pair: p, node: p.n[0]}
	if err := r.s.Listen(0, 0); err != nil {
		tb.Fatal(err)
	}
	return r
}

// newInitiator makes an end that has sent its request.
func newInitiator(tb testing.TB, params *Params) *raw {
	p := newPair(tb, nil)
	r := &raw{pair: p, node: p.n[0]}
	if err := r.s.Connect(0, r.q, params); err != nil {
		tb.Fatal(err)
	}
	return r
}

func frameBytes(f iwarp.Frame, e *iwarp.Enhanced, private []byte) []byte {
	n := len(private)
	if e != nil {
		n += iwarp.EnhancedLen
	}
	if f.Private == 0 {
		f.Private = uint16(n)
	}
	b := make([]byte, iwarp.FrameLen)
	f.Put(b)
	if e != nil {
		b = append(b, 0, 0, 0, 0)
		e.Put(b[iwarp.FrameLen:])
	}
	return append(b, private...)
}

// fpdu makes an FPDU. It sets the segment's length if that is 0.
func (r *raw) fpdu(s iwarp.Segment, rest []byte) []byte {
	b := make([]byte, iwarp.UntaggedLen)
	n := s.HeaderLen()
	if s.Length == 0 {
		s.Length = uint16(n - iwarp.LengthLen + len(rest))
	}
	s.Put(b)
	return seal(append(b[:n], rest...))
}

// seal adds padding and CRC.
func seal(b []byte) []byte {
	b = append(b, make([]byte, iwarp.PadLen(len(b)-iwarp.LengthLen))...)
	return binary.LittleEndian.AppendUint32(b, iwarp.UpdateCRC(0, b))
}

// receive delivers bytes in pieces of random length.
func (r *raw) receive(b []byte) {
	r.unread = append(r.unread, b...)
	for (len(r.unread) > 0 || r.s.Stalled()) && r.read(0) {
	}
}

// drain returns the bytes that the end sends.
func (r *raw) drain() (b []byte) {
	for r.s.Next(r.now, &r.out) {
		n := 1 + r.rnd.IntN(r.maxPiece)
		n = min(n, r.out.Len)
		left := n
		for _, p := range r.out.Pieces {
			k := min(left, len(p))
			b = append(b, p[:k]...)
			left -= k
		}
		r.s.Sent(r.now, n, 0)
	}
	return b
}

// fpdus splits a stream without markers into FPDUs.
func fpdus(tb testing.TB, b []byte, crc bool) (list [][]byte) {
	tb.Helper()
	for len(b) > 0 {
		n := iwarp.FPDULen(int(binary.BigEndian.Uint16(b)))
		if n > len(b) {
			tb.Fatalf("% x ends in an FPDU of %d bytes", b, n)
		}
		if sum := iwarp.UpdateCRC(0, b[:n-4]); crc && sum != iwarp.CRC(b[n-4:]) {
			tb.Fatalf("% x has the CRC %#08x, expected %#08x", b[:n], iwarp.CRC(b[n-4:]), sum)
		}
		list = append(list, b[:n])
		b = b[n:]
	}
	return list
}

// termination returns the Terminate at the end of what the end sends.
func (r *raw) termination(crc bool) (m iwarp.Termination, ok bool) {
	r.tb.Helper()
	list := fpdus(r.tb, append(r.begun, r.drain()...), crc)
	if len(list) == 0 {
		return m, false
	}
	b := list[len(list)-1]
	var s iwarp.Segment
	s.Parse(b)
	if s.Opcode != iwarp.Terminate || s.Queue != iwarp.QueueTerminate || s.MSN != 1 || s.MO != 0 || !s.Last {
		return m, false
	}
	return m, m.Parse(b[iwarp.UntaggedLen : int(s.Length)+iwarp.LengthLen])
}

func read(m iwarp.Read) []byte {
	b := make([]byte, iwarp.ReadLen)
	m.Put(b)
	return b
}

func atomicRequest(m iwarp.Atomic) []byte {
	b := make([]byte, iwarp.AtomicLen)
	m.Put(b)
	return b
}

// post posts a request for n bytes of memory from off on.
func (n *node) post(op queue.Op, off, length int, to queue.RDMA) {
	n.PostSend(func(w *queue.SendWQE) {
		w.WRID, w.Op = uint64(n.SQ.Producer()), op
		if op == queue.FetchAdd || op == queue.CompareSwap {
			*w.Atomic() = queue.Atomic{Addr: to.Addr, RKey: to.RKey, CompareAdd: 1}
		} else {
			*w.RDMA() = to
		}
	}, n.sge(off, length))
}
