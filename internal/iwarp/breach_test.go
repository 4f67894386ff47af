package iwarp

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/machine/machinetest"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// A breach is a protocol error of the peer with its expected consequences at this end: a Terminate,
// and a failed receive or an event.
type breach struct {
	name   string
	clause string
	send   func(r *raw) []byte
	term   iwarp.Term
	header bool // the Terminate carries the header of the message
	want   reason.Reason
	status queue.Status  // of the receive in use, if any
	event  machine.Event // the event otherwise
}

func send(n int, change func(s *iwarp.Segment)) func(r *raw) []byte {
	return func(r *raw) []byte {
		s := iwarp.Segment{Last: true, Opcode: iwarp.Send, MSN: 1}
		if change != nil {
			change(&s)
		}
		return r.fpdu(s, make([]byte, n))
	}
}

func write(n int, change func(r *raw, s *iwarp.Segment)) func(r *raw) []byte {
	return func(r *raw) []byte {
		s := iwarp.Segment{Tagged: true, Last: true, Opcode: iwarp.Write, STag: r.region.Key, TO: r.region.Base}
		change(r, &s)
		return r.fpdu(s, make([]byte, n))
	}
}

func readRequest(change func(r *raw, s *iwarp.Segment, m *iwarp.Read)) func(r *raw) []byte {
	return func(r *raw) []byte {
		s := iwarp.Segment{Last: true, Opcode: iwarp.ReadRequest, Queue: iwarp.QueueRead, MSN: 1}
		m := iwarp.Read{SinkSTag: 9, Size: 100, SourceSTag: r.region.Key, SourceTO: r.region.Base}
		change(r, &s, &m)
		return r.fpdu(s, read(m))
	}
}

func atomicFPDU(change func(r *raw, m *iwarp.Atomic)) func(r *raw) []byte {
	return func(r *raw) []byte {
		m := iwarp.Atomic{ID: 5, STag: r.region.Key, TO: r.region.Base}
		change(r, &m)
		return r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.AtomicRequest, Queue: iwarp.QueueRead, MSN: 1}, atomicRequest(m))
	}
}

// prefix sends four bytes of header as they are, with a tail of zeros.
func prefix(b ...byte) func(r *raw) []byte {
	return func(*raw) []byte { return seal(append(b, make([]byte, int(b[0])<<8+int(b[1])-2)...)) }
}

func (r *raw) other(pd uint32, base uint64, access qp.Access) *memory.Region {
	x, err := r.Memory.Register(pd, make([]byte, 4096), base, access)
	if err != nil {
		r.tb.Fatal(err)
	}
	return x
}

var breaches = []breach{
	{"CRC", "RFC 5044 8", func(r *raw) []byte {
		b := write(10, func(*raw, *iwarp.Segment) {})(r)
		b[len(b)-1] ^= 1
		return b
	}, iwarp.TermMPACRC, false, reason.MPACRC, 0, machine.EventQPFatal},
	{"too short for a tagged header", "RFC 5044 8", prefix(0, 13, 0xc1, 0x40), iwarp.TermMPAMarker, false, reason.MPALength, 0, machine.EventQPFatal},
	{"too short for an untagged header", "RFC 5044 8", prefix(0, 17, 0x41, 0x43), iwarp.TermMPAMarker, false, reason.MPALength, 0, machine.EventQPFatal},
	{"too short for a READ request", "RFC 5044 8", prefix(0, 45, 0x41, 0x41), iwarp.TermMPAMarker, false, reason.MPALength, 0, machine.EventQPFatal},
	{"DDP version of a tagged segment", "RFC 5041 7.2", prefix(0, 14, 0xc0, 0x40), iwarp.TermTaggedVersion, false, reason.DDPVersion, 0, machine.EventQPReqErr},
	{"DDP version of an untagged segment", "RFC 5041 7.2", prefix(0, 18, 0x42, 0x43), iwarp.TermUntaggedVersion, false, reason.DDPVersion, 0, machine.EventQPReqErr},
	{"RDMAP version", "RFC 5040 7.2", prefix(0, 18, 0x41, 0x83), iwarp.TermOperationVersion, false, reason.RDMAPVersion, 0, machine.EventQPReqErr},
	{"unknown opcode", "RFC 5040 7.2", prefix(0, 18, 0x41, 0x4c), iwarp.TermOperationOpcode, false, reason.RDMAPOpcode, 0, machine.EventQPReqErr},
	{"tagged SEND", "RFC 5040 7.2", prefix(0, 18, 0xc1, 0x43), iwarp.TermOperationOpcode, false, reason.RDMAPOpcode, 0, machine.EventQPReqErr},
	{"untagged WRITE", "RFC 5040 7.2", prefix(0, 18, 0x41, 0x40), iwarp.TermOperationOpcode, false, reason.RDMAPOpcode, 0, machine.EventQPReqErr},

	{"SEND's queue", "RFC 5041 7.2", send(10, func(s *iwarp.Segment) { s.Queue = 7 }), iwarp.TermUntaggedQueue, true, reason.DDPQueue, 0, machine.EventQPReqErr},
	{"SEND's number", "RFC 5041 7.2", send(10, func(s *iwarp.Segment) { s.MSN = 2 }), iwarp.TermUntaggedMSN, true, reason.DDPSequence, 0, machine.EventQPReqErr},
	{"SEND's offset", "RFC 5041 7.2", send(10, func(s *iwarp.Segment) { s.MO = 4 }), iwarp.TermUntaggedMO, true, reason.DDPOffset, queue.RemInvReqErr, 0},
	{"SEND without a receive", "RFC 5041 7.2", func(r *raw) []byte {
		r.Receives.List = nil
		return send(10, nil)(r)
	}, iwarp.TermUntaggedBuffer, true, reason.DDPNoBuffer, 0, machine.EventQPFatal},
	{"SEND too long", "RFC 5041 7.2", send(101, nil), iwarp.TermUntaggedLength, true, reason.ReceiveTooSmall, queue.LocLenErr, 0},
	{"SEND too long in its second segment", "RFC 5041 7.2", func(r *raw) []byte {
		return append(send(60, func(s *iwarp.Segment) { s.Last = false })(r), send(60, func(s *iwarp.Segment) { s.MO = 60 })(r)...)
	}, iwarp.TermUntaggedLength, true, reason.ReceiveTooSmall, queue.LocLenErr, 0},
	{"SEND of two kinds", "RFC 5041 4.3", func(r *raw) []byte {
		return append(send(60, func(s *iwarp.Segment) { s.Last = false })(r), send(4, func(s *iwarp.Segment) { s.MO, s.Opcode = 60, iwarp.SendSE })(r)...)
	}, iwarp.TermOperationOpcode, true, reason.RDMAPSequence, queue.RemInvReqErr, 0},
	{"SEND with a receive that is not writable", "RFC 5041 7.2", func(r *raw) []byte {
		x := r.other(machinetest.PD, 0, 0)
		r.Receives.List[0].SGEs = []memory.SGE{{Length: 100, LKey: x.Key}}
		return send(10, nil)(r)
	}, iwarp.TermDDPLocal, false, reason.LocalAccess, queue.LocProtErr, 0},
	{"SEND that invalidates what it may not", "RFC 5040 7.2", send(10, func(s *iwarp.Segment) { s.Opcode, s.Invalidate = iwarp.SendInvalidate, 77 }),
		iwarp.TermProtectionInvalidate, true, reason.InvalidateRefused, queue.RemInvReqErr, 0},

	{"WRITE to an unknown STag", "RFC 5041 7.2", write(10, func(r *raw, s *iwarp.Segment) { s.STag ^= 1 }), iwarp.TermTaggedSTag, true, reason.KeyUnknown, 0, machine.EventQPAccessErr},
	{"WRITE beyond the end", "RFC 5041 7.2", write(10, func(r *raw, s *iwarp.Segment) { s.TO += memLen - 9 }), iwarp.TermTaggedBounds, true, reason.KeyBounds, 0, machine.EventQPAccessErr},
	{"WRITE before the beginning", "RFC 5041 7.2", write(10, func(r *raw, s *iwarp.Segment) { s.TO-- }), iwarp.TermTaggedBounds, true, reason.KeyBounds, 0, machine.EventQPAccessErr},
	{"WRITE that wraps", "RFC 5041 7.2", write(10, func(r *raw, s *iwarp.Segment) { s.TO = ^uint64(3) }), iwarp.TermTaggedWrap, true, reason.KeyBounds, 0, machine.EventQPAccessErr},
	{"WRITE to another's STag", "RFC 5041 7.2", write(10, func(r *raw, s *iwarp.Segment) { s.STag, s.TO = r.other(99, 0, allAccess).Key, 0 }),
		iwarp.TermTaggedStream, true, reason.KeyWrongPD, 0, machine.EventQPAccessErr},
	{"WRITE to read-only memory", "RFC 5041 7.1", write(10, func(r *raw, s *iwarp.Segment) {
		s.STag, s.TO = r.other(machinetest.PD, 0, qp.RemoteRead).Key, 0
	}), iwarp.TermTaggedSTag, true, reason.KeyAccess, 0, machine.EventQPAccessErr},
	{"WRITE on a queue pair without", "RFC 5041 7.1", write(10, func(r *raw, s *iwarp.Segment) { r.Attr.Access = qp.RemoteRead }),
		iwarp.TermTaggedSTag, true, reason.QPAccess, 0, machine.EventQPAccessErr},
	{"answer within a WRITE", "RFC 5041 5.3", func(r *raw) []byte {
		r.post(queue.Read, 0, 10, queue.RDMA{})
		r.drain()
		b := write(10, func(r *raw, s *iwarp.Segment) { s.Last = false })(r)
		return append(b, write(10, func(r *raw, s *iwarp.Segment) { s.Opcode = iwarp.ReadResponse })(r)...)
	}, iwarp.TermOperationOpcode, true, reason.RDMAPSequence, 0, machine.EventQPReqErr},
	{"answer to nothing", "RFC 5040 7.2", write(10, func(r *raw, s *iwarp.Segment) { s.Opcode = iwarp.ReadResponse }),
		iwarp.TermOperationOpcode, true, reason.RDMAPOpcode, 0, machine.EventQPReqErr},
	{"answer to a READ that was not sent", "RFC 5040 7.2", func(r *raw) []byte {
		r.post(queue.Read, 0, 10, queue.RDMA{})
		if !r.s.Next(0, &r.out) {
			r.tb.Fatal("nothing to send")
		}
		r.begun = bytes.Clone(r.out.Pieces[0][:5])
		r.s.Sent(0, 5, 0)
		return write(10, func(r *raw, s *iwarp.Segment) { s.Opcode = iwarp.ReadResponse })(r)
	}, iwarp.TermOperationOpcode, true, reason.RDMAPOpcode, 0, machine.EventQPReqErr},

	{"READ of an unknown STag", "RFC 5040 7.2", readRequest(func(r *raw, s *iwarp.Segment, m *iwarp.Read) { m.SourceSTag ^= 1 }),
		iwarp.TermProtectionSTag, true, reason.KeyUnknown, 0, machine.EventQPAccessErr},
	{"READ beyond the end", "RFC 5040 7.2", readRequest(func(r *raw, s *iwarp.Segment, m *iwarp.Read) { m.Size = memLen + 1 }),
		iwarp.TermProtectionBounds, true, reason.KeyBounds, 0, machine.EventQPAccessErr},
	{"READ that wraps", "RFC 5040 7.2", readRequest(func(r *raw, s *iwarp.Segment, m *iwarp.Read) { m.SourceTO = ^uint64(0) }),
		iwarp.TermProtectionWrap, true, reason.KeyBounds, 0, machine.EventQPAccessErr},
	{"READ of another's STag", "RFC 5040 7.2", readRequest(func(r *raw, s *iwarp.Segment, m *iwarp.Read) { m.SourceSTag = r.other(99, m.SourceTO, allAccess).Key }),
		iwarp.TermProtectionStream, true, reason.KeyWrongPD, 0, machine.EventQPAccessErr},
	{"READ of write-only memory", "RFC 5040 7.2", readRequest(func(r *raw, s *iwarp.Segment, m *iwarp.Read) {
		m.SourceSTag = r.other(machinetest.PD, m.SourceTO, qp.LocalWrite|qp.RemoteWrite).Key
	}), iwarp.TermProtectionAccess, true, reason.KeyAccess, 0, machine.EventQPAccessErr},
	{"READ on a queue pair without", "RFC 5040 7.2", readRequest(func(r *raw, s *iwarp.Segment, m *iwarp.Read) { r.Attr.Access = 0 }),
		iwarp.TermProtectionAccess, true, reason.QPAccess, 0, machine.EventQPAccessErr},
	{"READ's queue", "RFC 5041 7.2", readRequest(func(r *raw, s *iwarp.Segment, m *iwarp.Read) { s.Queue = 0 }),
		iwarp.TermUntaggedQueue, true, reason.DDPQueue, 0, machine.EventQPReqErr},
	{"READ's number", "RFC 5041 7.2", readRequest(func(r *raw, s *iwarp.Segment, m *iwarp.Read) { s.MSN = 0 }),
		iwarp.TermUntaggedMSN, true, reason.DDPSequence, 0, machine.EventQPReqErr},
	{"READ's offset", "RFC 5041 7.2", readRequest(func(r *raw, s *iwarp.Segment, m *iwarp.Read) { s.MO = 28 }),
		iwarp.TermUntaggedMO, true, reason.DDPOffset, 0, machine.EventQPReqErr},
	{"READ not at its end", "RFC 5041 7.2", readRequest(func(r *raw, s *iwarp.Segment, m *iwarp.Read) { s.Last = false }),
		iwarp.TermUntaggedLength, true, reason.DDPLength, 0, machine.EventQPReqErr},
	{"READ request too long", "RFC 5041 7.2", prefix(0, 47, 0x41, 0x41), iwarp.TermUntaggedLength, false, reason.DDPLength, 0, machine.EventQPReqErr},
	{"too many READs", "RFC 5041 7.2", func(r *raw) (b []byte) {
		for i := range 5 {
			b = append(b, readRequest(func(r *raw, s *iwarp.Segment, m *iwarp.Read) { s.MSN = uint32(i + 1) })(r)...)
		}
		return b
	}, iwarp.TermUntaggedBuffer, true, reason.TooManyReads, 0, machine.EventQPReqErr},

	{"atomic of another operation", "RFC 7306 5.2.1", atomicFPDU(func(r *raw, m *iwarp.Atomic) { m.Op = 1 }), iwarp.TermOperationOther, true, reason.RDMAPAtomic, 0, machine.EventQPReqErr},
	{"atomic on unmapped memory", "RFC 5040 7.2", atomicFPDU(func(r *raw, m *iwarp.Atomic) {
		x, _ := r.Memory.RegisterForeign(machinetest.PD, make([]byte, 8), 0, allAccess, memory.Foreign{Space: goneSpace{}})
		m.STag, m.TO = x.Key, 0
	}), iwarp.TermProtectionSTag, true, reason.MemoryUnmapped, 0, machine.EventQPAccessErr},
	{"atomic not aligned", "RFC 7306 8.2", atomicFPDU(func(r *raw, m *iwarp.Atomic) { m.TO += 4 }), iwarp.TermOperationStream, true, reason.AtomicAlignment, 0, machine.EventQPReqErr},
	{"atomic of an unknown STag", "RFC 5040 7.2", atomicFPDU(func(r *raw, m *iwarp.Atomic) { m.STag++ }), iwarp.TermProtectionSTag, true, reason.KeyUnknown, 0, machine.EventQPAccessErr},
	{"atomic on a queue pair without", "RFC 5040 7.2", atomicFPDU(func(r *raw, m *iwarp.Atomic) { r.Attr.Access = qp.RemoteRead }),
		iwarp.TermProtectionAccess, true, reason.QPAccess, 0, machine.EventQPAccessErr},
	{"atomic answer to nothing", "RFC 7306 5.2.2", func(r *raw) []byte {
		return r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.AtomicResponse, Queue: iwarp.QueueAtomicResponse, MSN: 1}, make([]byte, iwarp.AtomicValueLen))
	}, iwarp.TermOperationOpcode, true, reason.RDMAPOpcode, 0, machine.EventQPReqErr},
	{"immediate data within a SEND", "RFC 5041 5.3", func(r *raw) []byte {
		b := send(60, func(s *iwarp.Segment) { s.Last = false })(r)
		return append(b, r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.Immediate, MSN: 1}, make([]byte, 8))...)
	}, iwarp.TermOperationOpcode, true, reason.RDMAPSequence, queue.RemInvReqErr, 0},
}

func TestBreachIsTerminated(t *testing.T) {
	for _, c := range breaches {
		for _, maxPiece := range []int{1, 1 << 20} {
			t.Run(fmt.Sprint(c.name, " by ", maxPiece), func(t *testing.T) {
				r := newRaw(t, defaults(), nil)
				r.maxPiece = maxPiece
				r.PostRecv(1, r.sge(0, 100))
				r.PostRecv(2, r.sge(100, 100))
				before := bytes.Clone(r.mem)
				b := c.send(r)
				r.receive(b)
				left := len(r.Receives.List)
				if len(r.Refused) != 1 || r.Refused[0].Reason != c.want {
					t.Fatalf("refused %v, expected %v", r.Refused, c.want)
				}
				m, ok := r.termination(true)
				if !ok || m.Term != c.term || m.HasDDP != c.header || m.HasLength != c.header {
					t.Errorf("%s: sent %+v, %v, expected %v", c.clause, m, ok, c.term)
				}
				protection := m.Term.Layer() == iwarp.LayerRDMAP && m.Term.Type() == 1
				if c.header && m.HasRDMAP != (protection && m.Segment.Opcode == iwarp.ReadRequest) {
					t.Errorf("sent %+v", m)
				}
				if r.Attr.State != qp.Err || r.last().Kind != Closed || r.last().Detail.Reason != c.want {
					t.Errorf("in %v, heard %+v", r.Attr.State, r.last())
				}
				got := r.Received.List
				if c.status != 0 {
					if len(r.Events) > 0 || len(got) != 2 || got[0].Status != c.status || got[0].Reason != c.want || got[0].WRID != 1 {
						t.Errorf("received %+v, events %v, expected status %v", got, r.Events, c.status)
					}
					got = got[1:]
				} else if len(r.Events) != 1 || r.Events[0] != c.event {
					t.Errorf("events %v, expected %d", r.Events, c.event)
				}
				for _, x := range got {
					if x.Status != queue.WRFlushErr || x.Found == 0 && c.status != 0 {
						t.Errorf("receive %+v", x)
					}
				}
				if left != 0 {
					t.Errorf("%d receives not flushed", left)
				}
				if c.want != reason.MPACRC && !strings.Contains(c.name, "within") && !bytes.Equal(r.mem[200:], before[200:]) {
					t.Error("memory changed")
				}
				ended(t, r)
			})
		}
	}
}

// ended checks the end of a stream: the write side is shut at once, and the stream closes when the
// peer shuts its side or after a timeout.
func ended(t *testing.T, r *raw) {
	t.Helper()
	if s := r.s.Shut(); s != ShutWrite {
		t.Errorf("shut %d, expected the write side", s)
	}
	r.receive([]byte("whatever comes"))
	if d := r.s.Deadline(); d != r.now+closeTimeout {
		t.Errorf("deadline %v", d)
	}
	if r.rnd.IntN(2) == 0 {
		r.s.Expire(r.now + closeTimeout)
	} else {
		r.s.Closed(0, r.rnd.IntN(2) == 0)
	}
	if s := r.s.Shut(); s != ShutClose || r.s.Deadline() != machine.Never {
		t.Errorf("shut %d, deadline %v in the end", s, r.s.Deadline())
	}
	if r.s.Next(0, &r.out) {
		t.Errorf("sends % x in the end", r.out.Pieces)
	}
	closed := 0
	for _, e := range r.events {
		if e.Kind == Closed {
			closed++
		}
	}
	if closed != 1 {
		t.Errorf("heard %+v", r.events)
	}
}

func TestExtensionsNotAgreedOnAreTerminated(t *testing.T) {
	for _, op := range []iwarp.Opcode{iwarp.Immediate, iwarp.ImmediateSE, iwarp.AtomicRequest, iwarp.AtomicResponse} {
		r := newRaw(t, &Params{IRD: 4, ORD: 4, Extensions: ExtensionsOff}, nil)
		i := op.Info()
		r.receive(r.fpdu(iwarp.Segment{Last: true, Opcode: op, Queue: i.Queue, MSN: 1}, make([]byte, i.Fixed-iwarp.UntaggedLen)))
		m, ok := r.termination(true)
		if !ok || m.Term != iwarp.TermOperationOpcode || r.Refused[0].Reason != reason.RDMAPOpcode || r.Refused[0].Expected != 8 {
			t.Errorf("%v: sent %+v, refused %v", op, m, r.Refused)
		}
	}
}

// A goneSpace is the memory of a process that has ended.
type goneSpace struct{}

func (goneSpace) Load([]byte, uint64) error  { return io.ErrUnexpectedEOF }
func (goneSpace) Store(uint64, []byte) error { return io.ErrUnexpectedEOF }
