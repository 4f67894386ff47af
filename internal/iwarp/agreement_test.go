package iwarp

import (
	"softrdma/internal/iwarp/mpa"
	"testing"

	"softrdma/internal/queue"
	"softrdma/internal/wire/iwarp"
)

// A responder that does not require CRCs announces them if its initiator requires them.
func TestReplyAnnouncesCRCs(t *testing.T) {
	for _, asks := range []iwarp.FrameFlags{0, iwarp.FlagCRC} {
		r := newSetup(t, nil)
		r.receive(frameBytes(iwarp.Frame{Flags: asks, Revision: 1}, nil, nil))
		if err := r.s.Accept(0, r.q, &Params{NoCRC: true}); err != nil {
			t.Fatal(err)
		}
		var f iwarp.Frame
		if f.Parse(r.drain()); f.Flags != asks || r.q.a.CRC != (asks != 0) {
			t.Errorf("asked by %#02x: replied %#02x, agreed on %+v", asks, f.Flags, r.q.a)
		}
	}
}

// RFC 6581 9.1: depths that the initiator leaves to the programs are not changed, and the reply
// also leaves them to the programs.
func TestDepthsLeftToThePrograms(t *testing.T) {
	for _, c := range []struct{ asks, reply, want iwarp.Enhanced }{
		{iwarp.Enhanced{IRD: iwarp.DepthUnknown, ORD: iwarp.DepthUnknown}, iwarp.Enhanced{IRD: iwarp.DepthUnknown, ORD: iwarp.DepthUnknown}, iwarp.Enhanced{IRD: 5, ORD: 6}},
		{iwarp.Enhanced{IRD: 2, ORD: iwarp.DepthUnknown}, iwarp.Enhanced{IRD: iwarp.DepthUnknown, ORD: 2}, iwarp.Enhanced{IRD: 5, ORD: 2}},
		{iwarp.Enhanced{IRD: iwarp.DepthUnknown, ORD: 3}, iwarp.Enhanced{IRD: 3, ORD: iwarp.DepthUnknown}, iwarp.Enhanced{IRD: 3, ORD: 6}},
	} {
		r := newSetup(t, nil)
		r.receive(frameBytes(iwarp.Frame{Flags: iwarp.FlagEnhanced, Revision: 2}, &c.asks, nil))
		if err := r.s.Accept(0, r.q, &Params{IRD: 5, ORD: 6}); err != nil {
			t.Fatal(err)
		}
		var e iwarp.Enhanced
		if e.Parse(r.drain()[iwarp.FrameLen:]); e != c.reply || r.q.a.IRD != c.want.IRD || r.q.a.ORD != c.want.ORD {
			t.Errorf("asked for %+v: replied %+v, agreed on %+v", c.asks, e, r.q.a)
		}
	}
	r := newInitiator(t, &Params{IRD: 5, ORD: 6, ClientServer: true})
	r.drain()
	r.receive(frameBytes(iwarp.Frame{Reply: true, Flags: iwarp.FlagEnhanced, Revision: 2}, &iwarp.Enhanced{IRD: iwarp.DepthUnknown, ORD: iwarp.DepthUnknown}, nil))
	if r.q.a.IRD != 5 || r.q.a.ORD != 6 {
		t.Errorf("agreed on %+v", r.q.a)
	}
}

// RFC 5044 4.5, 5.1: FPDUs are no longer than a TCP segment unless the peer has said that it
// accepts longer ones.
func TestFPDUsFillSegments(t *testing.T) {
	for _, c := range []struct {
		name           string
		segment        int
		large, markers bool
		want           int // length of a full FPDU, without its markers
	}{
		{name: "Ethernet", segment: 1448, want: 1448},
		{name: "no multiple of four", segment: 1463, want: 1460},
		{name: "markers", segment: 1448, markers: true, want: 1448 - 3*iwarp.MarkerLen},
		{name: "jumbo frames", segment: 8948, want: 8948},
		{name: "unknown", want: mpa.UsualSegment},
		{name: "tiny", segment: 88, want: mpa.MinFPDU},
		{name: "a peer that takes more", segment: 1448, large: true, want: iwarp.MaxFPDU},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newInitiator(t, &Params{IRD: 4, ORD: 4, ClientServer: true})
			r.maxPiece = 1 << 20
			r.drain()
			r.s.SetSegment(c.segment)
			f := iwarp.Frame{Reply: true, Flags: iwarp.FlagEnhanced, Revision: 2}
			if c.large {
				f.Flags |= iwarp.FlagLarge
			}
			if c.markers {
				f.Flags |= iwarp.FlagMarkers
			}
			r.receive(frameBytes(f, &iwarp.Enhanced{IRD: 4, ORD: 4}, nil))
			r.drain()
			r.post(queue.Write, 0, 200000, queue.RDMA{})
			r.s.Next(0, &r.out)
			for i, f := range r.q.tx.list[:len(r.q.tx.list)-1] {
				markers := 0
				if c.markers {
					markers = f.length - c.want
				}
				if f.length-markers != c.want || c.segment >= mpa.MinFPDU && !c.large && f.length > c.segment || markers%iwarp.MarkerLen != 0 {
					t.Fatalf("FPDU %d of %d bytes, expected %d", i, f.length, c.want)
				}
			}
			if len(r.q.tx.list) < 2 {
				t.Fatalf("%d FPDUs", len(r.q.tx.list))
			}
		})
	}
}
