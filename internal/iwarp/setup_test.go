package iwarp

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

func TestConnectAgrees(t *testing.T) {
	for name, c := range map[string]struct {
		a, b Params
		want [2]Agreement
	}{
		"defaults": {Params{IRD: 3, ORD: 9}, Params{IRD: 5, ORD: 2}, [2]Agreement{
			{Revision: 2, CRC: true, PeerToPeer: true, RTR: iwarp.RTRWrite, IRD: 3, ORD: 5, Extensions: true, Large: true},
			{Revision: 2, CRC: true, PeerToPeer: true, RTR: iwarp.RTRWrite, IRD: 5, ORD: 2, Extensions: true, Large: true},
		}},
		"the responder has more": {Params{IRD: 9, ORD: 2}, Params{IRD: 8, ORD: 12}, [2]Agreement{
			{Revision: 2, CRC: true, PeerToPeer: true, RTR: iwarp.RTRWrite, IRD: 9, ORD: 2, Extensions: true, Large: true},
			{Revision: 2, CRC: true, PeerToPeer: true, RTR: iwarp.RTRWrite, IRD: 2, ORD: 9, Extensions: true, Large: true},
		}},
		"no CRCs": {Params{NoCRC: true}, Params{NoCRC: true}, [2]Agreement{
			{Revision: 2, PeerToPeer: true, RTR: iwarp.RTRWrite, Extensions: true, Large: true},
			{Revision: 2, PeerToPeer: true, RTR: iwarp.RTRWrite, Extensions: true, Large: true},
		}},
		"CRCs that one wants": {Params{NoCRC: true}, Params{}, [2]Agreement{
			{Revision: 2, CRC: true, PeerToPeer: true, RTR: iwarp.RTRWrite, Extensions: true, Large: true},
			{Revision: 2, CRC: true, PeerToPeer: true, RTR: iwarp.RTRWrite, Extensions: true, Large: true},
		}},
		"markers one way": {Params{Markers: true}, Params{}, [2]Agreement{
			{Revision: 2, CRC: true, ReceiveMarkers: true, PeerToPeer: true, RTR: iwarp.RTRWrite, Extensions: true, Large: true},
			{Revision: 2, CRC: true, SendMarkers: true, PeerToPeer: true, RTR: iwarp.RTRWrite, Extensions: true, Large: true},
		}},
		"revision 1": {Params{Revision: 1, IRD: 3, ORD: 9}, Params{IRD: 5, ORD: 2}, [2]Agreement{
			{Revision: 1, CRC: true, IRD: 3, ORD: 9, Extensions: true, Large: true},
			{Revision: 1, CRC: true, IRD: 5, ORD: 2, Extensions: true, Large: true},
		}},
		"client and server": {Params{ClientServer: true, IRD: 1, ORD: 1}, Params{IRD: 1, ORD: 1, Extensions: ExtensionsOff}, [2]Agreement{
			{Revision: 2, CRC: true, IRD: 1, ORD: 1, Large: true},
			{Revision: 2, CRC: true, IRD: 1, ORD: 1, Large: true},
		}},
		"begun by a READ": {Params{RTR: iwarp.RTRRead | iwarp.RTRSend}, Params{}, [2]Agreement{
			{Revision: 2, CRC: true, PeerToPeer: true, RTR: iwarp.RTRRead, ORD: 1, Extensions: true, Large: true},
			{Revision: 2, CRC: true, PeerToPeer: true, RTR: iwarp.RTRRead, IRD: 1, Extensions: true, Large: true},
		}},
		"begun by a SEND": {Params{RTR: iwarp.RTRSend | iwarp.RTRWrite}, Params{RTR: iwarp.RTRSend}, [2]Agreement{
			{Revision: 2, CRC: true, PeerToPeer: true, RTR: iwarp.RTRSend, Extensions: true, Large: true},
			{Revision: 2, CRC: true, PeerToPeer: true, RTR: iwarp.RTRSend, Extensions: true, Large: true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, nil)
			if c.a.ClientServer || c.a.Revision == 1 {
				p.n[0].PostSend(func(w *queue.SendWQE) { w.Op = queue.Write })
			}
			p.connect(&c.a, &c.b)
			for i, n := range p.n {
				if n.q.Agreement() != c.want[i] || n.last().Agreement != c.want[i] {
					t.Errorf("end %d agreed on %+v, expected %+v", i, n.q.Agreement(), c.want[i])
				}
				if len(n.Refused) > 0 || len(n.States) != 1 || n.States[0] != "INIT>RTS" {
					t.Errorf("end %d went through %v, refused %v", i, n.States, n.Refused)
				}
				due := machine.Never
				if i == 0 && !c.want[0].Extensions {
					due = wakeupTimes[0]
				}
				if n.s.Deadline() != due || n.s.Shut() != ShutNothing {
					t.Errorf("end %d: deadline %v, expected %v; shut %d", i, n.s.Deadline(), due, n.s.Shut())
				}
			}
			// Both may send, and the READ or WRITE that began the connection used no receive.
			for i, n := range p.n {
				p.n[1-i].PostRecv(7, p.n[1-i].sge(0, 100))
				n.post(queue.Send, 200, 50, queue.RDMA{})
			}
			p.run()
			for i, n := range p.n {
				if len(n.Received.List) != 1 || n.Received.List[0].Status != queue.Success || len(n.Refused) > 0 {
					t.Errorf("end %d received %+v, refused %v", i, n.Received.List, n.Refused)
				}
			}
		})
	}
}

func TestRequestFrameMatchesTheRFC(t *testing.T) {
	r := newInitiator(t, &Params{IRD: 4, ORD: 3, Private: []byte("hello")})
	want := []byte("MPA ID Req Frame\x5c\x02\x00\x09\x80\x04\xc0\x03hello")
	if got := r.drain(); !bytes.Equal(got, want) {
		t.Errorf("found % x, expected % x", got, want)
	}
	r = newInitiator(t, &Params{Revision: 1, NoCRC: true, Markers: true, Extensions: ExtensionsOff})
	want = []byte("MPA ID Req Frame\x88\x01\x00\x00")
	if got := r.drain(); !bytes.Equal(got, want) {
		t.Errorf("found % x, expected % x", got, want)
	}
}

// By default Linux's siw sets no CRC flag and requests no peer-to-peer connection. It replies with
// the flags of the request.
func TestStartupWithLinuxSiw(t *testing.T) {
	r := newSetup(t, nil)
	r.receive(frameBytes(iwarp.Frame{Flags: iwarp.FlagEnhanced, Revision: 2}, &iwarp.Enhanced{IRD: 128, ORD: 16}, []byte("x")))
	e := r.last()
	if want := (Agreement{Revision: 2, IRD: 16, ORD: 128}); e.Kind != Requested || e.Agreement != want || string(e.Private) != "x" {
		t.Fatalf("heard %+v", e)
	}
	if err := r.s.Accept(0, r.q, &Params{IRD: 8, ORD: 8}); err != nil {
		t.Fatal(err)
	}
	want := []byte("MPA ID Rep Frame\x50\x02\x00\x04\x00\x08\x00\x08")
	if got := r.drain(); !bytes.Equal(got, want) {
		t.Errorf("found % x, expected % x", got, want)
	}

	r = newInitiator(t, &Params{IRD: 4, ORD: 4})
	r.drain()
	r.receive(frameBytes(iwarp.Frame{Reply: true, Flags: 0x54, Revision: 2}, &iwarp.Enhanced{PeerToPeer: true, RTR: iwarp.RTRWrite, IRD: 4, ORD: 128}, nil))
	if want := (Agreement{Revision: 2, CRC: true, PeerToPeer: true, RTR: iwarp.RTRWrite, IRD: 128, ORD: 4}); r.q.a != want {
		t.Errorf("agreed on %+v, expected %+v: %v", r.q.a, want, r.Refused)
	}
	for _, op := range []queue.Op{queue.FetchAdd, queue.CompareSwap, queue.WriteImm, queue.SendImm} {
		if err := r.q.Supports(op); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("operation %d: %v", op, err)
		}
	}
	for _, op := range []queue.Op{queue.Write, queue.Send, queue.SendInv, queue.Read, queue.BindMW, queue.LocalInv} {
		if err := r.q.Supports(op); err != nil {
			t.Errorf("operation %d: %v", op, err)
		}
	}
}

func TestInitiatorRefusesReplies(t *testing.T) {
	enhanced := &iwarp.Enhanced{PeerToPeer: true, RTR: iwarp.RTRWrite, IRD: 4, ORD: 4}
	ok := iwarp.Frame{Reply: true, Flags: iwarp.FlagEnhanced | iwarp.FlagCRC, Revision: 2}
	for name, c := range map[string]struct {
		reply []byte
		term  iwarp.Term // 0: none
		want  reason.Reason
	}{
		"request":          {frameBytes(iwarp.Frame{Flags: ok.Flags, Revision: 2}, enhanced, nil), iwarp.TermMPAFrame, reason.MPAKey},
		"something else":   {[]byte("HTTP/1.1 400 Bad Request\r\n"), iwarp.TermMPAFrame, reason.MPAKey},
		"revision 0":       {frameBytes(iwarp.Frame{Reply: true}, nil, nil), iwarp.TermMPAFrame, reason.MPARevision},
		"revision 3":       {frameBytes(iwarp.Frame{Reply: true, Flags: ok.Flags, Revision: 3}, enhanced, nil), iwarp.TermMPAFrame, reason.MPARevision},
		"too long":         {frameBytes(iwarp.Frame{Reply: true, Revision: 2, Private: 513}, nil, nil), iwarp.TermMPAFrame, reason.MPAPrivate},
		"too short":        {frameBytes(iwarp.Frame{Reply: true, Flags: ok.Flags, Revision: 2}, nil, []byte("abc")), iwarp.TermMPAFrame, reason.MPAPrivate},
		"not enhanced":     {frameBytes(iwarp.Frame{Reply: true, Flags: iwarp.FlagCRC, Revision: 2}, nil, []byte("abcd")), iwarp.TermMPAFrame, reason.MPAEnhanced},
		"too many READs":   {frameBytes(ok, &iwarp.Enhanced{PeerToPeer: true, RTR: iwarp.RTRWrite, IRD: 4, ORD: 5}, nil), iwarp.TermMPAIRD, reason.MPADepth},
		"frame not wanted": {frameBytes(ok, &iwarp.Enhanced{PeerToPeer: true, RTR: iwarp.RTRSend, IRD: 4, ORD: 4}, nil), iwarp.TermMPARTR, reason.MPAReady},
		"no frame":         {frameBytes(ok, &iwarp.Enhanced{IRD: 4, ORD: 4}, nil), iwarp.TermMPARTR, reason.MPAReady},
	} {
		t.Run(name, func(t *testing.T) {
			r := newInitiator(t, &Params{IRD: 4, ORD: 4, StrictIRD: true})
			r.maxPiece = 9
			r.drain()
			r.receive(c.reply)
			e := r.last()
			if e.Kind != Refused || e.Detail.Reason != c.want || len(r.events) != 1 {
				t.Fatalf("heard %+v, expected %v", r.events, c.want)
			}
			if r.s.Shut() != ShutNothing {
				t.Error("closed before the Terminate was sent")
			}
			m, ok := r.termination(true)
			if !ok || m != (iwarp.Termination{Term: c.term}) {
				t.Errorf("sent %+v, expected %v", m, c.term)
			}
			if r.s.Shut() != ShutClose || r.s.Deadline() != machine.Never {
				t.Errorf("shut %d, deadline %v", r.s.Shut(), r.s.Deadline())
			}
			if r.Attr.State != qp.Init || r.q.Stream() != nil {
				t.Error("the queue pair is not free")
			}
		})
	}
}

func TestResponderRefusesRequests(t *testing.T) {
	for name, c := range map[string]struct {
		request []byte
		want    reason.Reason
	}{
		"reply":      {frameBytes(iwarp.Frame{Reply: true, Revision: 2}, nil, nil), reason.MPAKey},
		"HTTP":       {[]byte("GET / HTTP/1.1\r\nHost: x\r\n"), reason.MPAKey},
		"revision 0": {frameBytes(iwarp.Frame{}, nil, nil), reason.MPARevision},
		"revision 3": {frameBytes(iwarp.Frame{Revision: 3}, nil, nil), reason.MPARevision},
		"too long":   {frameBytes(iwarp.Frame{Revision: 1, Private: 600}, nil, nil), reason.MPAPrivate},
		"too short":  {frameBytes(iwarp.Frame{Flags: iwarp.FlagEnhanced, Revision: 2}, nil, []byte{1}), reason.MPAPrivate},
		"data":       {append(frameBytes(iwarp.Frame{Revision: 1}, nil, nil), 0), reason.MPAEarly},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSetup(t, nil)
			r.maxPiece = 5
			r.receive(c.request)
			if e := r.last(); e.Kind != Refused || e.Detail.Reason != c.want {
				t.Fatalf("heard %+v, expected %v", r.events, c.want)
			}
			if b := r.drain(); len(b) > 0 || r.s.Shut() != ShutClose {
				t.Errorf("sent % x, shut %d", b, r.s.Shut())
			}
			if err := r.s.Accept(0, r.q, defaults()); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestRejectCarriesPrivateData(t *testing.T) {
	p := newPair(t, nil)
	p.begin(&Params{Private: []byte("please")})
	p.run()
	if e := p.n[1].last(); e.Kind != Requested || string(e.Private) != "please" {
		t.Fatalf("heard %+v", e)
	}
	if err := p.n[1].s.Reject(0, []byte("no")); err != nil {
		t.Fatal(err)
	}
	p.run()
	e := p.n[0].last()
	if e.Kind != Rejected || string(e.Private) != "no" || e.Detail.Reason != reason.MPARejected {
		t.Errorf("heard %+v", e)
	}
	for i, n := range p.n {
		if n.s.Shut() != ShutClose || n.Attr.State != qp.Init {
			t.Errorf("end %d: shut %d, %v", i, n.s.Shut(), n.Attr.State)
		}
	}
	// The queue pair can be connected to another peer.
	if err := NewStream(&Pool{}, func(*Event) {}).Connect(0, p.n[0].q, defaults()); err != nil {
		t.Error(err)
	}
}

func TestStartupTimesOut(t *testing.T) {
	r := newInitiator(t, &Params{Timeout: 3 * time.Second})
	s := newSetup(t, nil)
	s.receive([]byte("MPA ID"))
	for name, c := range map[string]struct {
		r    *raw
		at   time.Duration
		want reason.Detail
	}{
		"initiator": {r, 3 * time.Second, reason.Detail{Reason: reason.MPATimeout, Expected: 3000}},
		"responder": {s, 5 * time.Second, reason.Detail{Reason: reason.MPATimeout, Expected: 5000, Found: 6}},
	} {
		if d := c.r.s.Deadline(); d != c.at {
			t.Errorf("%s: deadline %v, expected %v", name, d, c.at)
		}
		c.r.s.Expire(c.at - 1)
		if len(c.r.events) > 0 {
			t.Errorf("%s: %+v too early", name, c.r.events)
		}
		c.r.s.Expire(c.at)
		if e := c.r.last(); e.Kind != Refused || e.Detail != c.want || c.r.s.Shut() != ShutClose {
			t.Errorf("%s: heard %+v, expected %v", name, e, c.want)
		}
	}
}

func TestStartupPeerCloses(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for name, r := range map[string]*raw{"initiator": newInitiator(t, defaults()), "responder": newSetup(t, nil)} {
			r.s.Closed(0, lost)
			want := reason.StreamClosed
			if lost {
				want = reason.StreamLost
			}
			if e := r.last(); e.Kind != Refused || e.Detail.Reason != want || r.s.Shut() != ShutClose || r.s.Deadline() != machine.Never {
				t.Errorf("%s: heard %+v", name, e)
			}
			r.s.Closed(0, lost)
			if len(r.events) != 1 {
				t.Errorf("%s: heard %+v", name, r.events)
			}
		}
	}
}

func TestResponderWaitsForFirstFPDU(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second, -1} {
		r := newSetup(t, nil)
		r.receive(frameBytes(iwarp.Frame{Flags: iwarp.FlagCRC, Revision: 1}, nil, nil))
		if err := r.s.Accept(0, r.q, &Params{FirstWait: wait}); err != nil {
			t.Fatal(err)
		}
		r.drain()
		r.post(queue.Send, 0, 10, queue.RDMA{})
		if b := r.drain(); len(b) > 0 {
			t.Errorf("wait %v: sent % x at once", wait, b)
		}
		at := map[time.Duration]time.Duration{0: firstWait, time.Second: time.Second, -1: machine.Never}[wait]
		if d := r.s.Deadline(); d != at {
			t.Errorf("wait %v: deadline %v", wait, d)
		}
		if at != machine.Never && r.rnd.IntN(2) == 0 {
			r.s.Expire(at)
		} else {
			r.receive(seal([]byte{0, 0})) // an empty FPDU is sufficient
		}
		if got := len(fpdus(t, r.drain(), true)); got != 1 || len(r.Refused) > 0 || r.s.Deadline() != machine.Never {
			t.Errorf("wait %v: %d FPDUs sent then, refused %v", wait, got, r.Refused)
		}
	}
}

// A responder may send data directly after its reply.
func TestInitiatorKeepsBytesAfterReply(t *testing.T) {
	r := newInitiator(t, &Params{ClientServer: true})
	r.drain()
	r.PostRecv(1, r.sge(0, 100))
	b := frameBytes(iwarp.Frame{Reply: true, Flags: iwarp.FlagEnhanced, Revision: 2}, &iwarp.Enhanced{}, []byte("private"))
	r.receive(append(b, r.fpdu(iwarp.Segment{Last: true, Opcode: iwarp.Send, MSN: 1}, []byte("hello"))...))
	if len(r.Received.List) != 1 || r.Received.List[0].ByteLen != 5 || string(r.mem[:5]) != "hello" {
		t.Errorf("received %+v, refused %v", r.Received.List, r.Refused)
	}
	if e := r.events[0]; e.Kind != Established || string(e.Private) != "private" {
		t.Errorf("heard %+v", r.events)
	}
}
