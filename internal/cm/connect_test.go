package cm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

func TestConnectReportsParametersToBothSides(t *testing.T) {
	w, a, b, ca, cb := established(t)
	if a.kinds() != "RepReceived" || b.kinds() != "ReqReceived RtuReceived" {
		t.Fatalf("a heard %q, b heard %q", a.kinds(), b.kinds())
	}
	q, p := b.one(EventReqReceived), a.one(EventRepReceived)
	if string(q.Private[:6]) != "hello\x00" || len(q.Private) != mad.REQPrivateLen {
		t.Errorf("private data of the REQ: %q", q.Private)
	}
	if string(p.Private[:8]) != "welcome\x00" || len(p.Private) != mad.REPPrivateLen {
		t.Errorf("private data of the REP: %q", p.Private)
	}
	if q.Listener == nil || q.Listener.Service() != service || q.Source != a.addr || p.Source != b.addr {
		t.Errorf("REQ from %v for %v, REP from %v", q.Source, q.Listener, p.Source)
	}
	if ca.LocalID() != cb.RemoteID() || ca.RemoteID() != cb.LocalID() || ca.LocalID() == 0 || cb.LocalID() == 0 {
		t.Errorf("communication IDs %#x, %#x and %#x, %#x", ca.LocalID(), ca.RemoteID(), cb.LocalID(), cb.RemoteID())
	}
	if ca.LocalQPN() != 0x11 || ca.RemoteQPN() != 0x22 || cb.LocalQPN() != 0x22 || cb.RemoteQPN() != 0x11 {
		t.Errorf("QPNs %#x, %#x and %#x, %#x", ca.LocalQPN(), ca.RemoteQPN(), cb.LocalQPN(), cb.RemoteQPN())
	}
	w.must(ca.Disconnect(w.now, []byte("bye")))
	w.pass(2 * time.Millisecond)
	if e := b.one(EventDreqReceived); e.Conn != cb || string(e.Private[:4]) != "bye\x00" {
		t.Errorf("disconnect with %q", e.Private)
	}
	w.must(cb.DisconnectReply(w.now, []byte("bye bye")))
	w.pass(2 * time.Millisecond)
	if e := a.one(EventDrepReceived); e.Conn != ca || string(e.Private[:8]) != "bye bye\x00" {
		t.Errorf("disconnect confirmed with %q", e.Private)
	}
	w.state(ca, Timewait)
	w.state(cb, Timewait)
	w.settle(time.Second)
	a.one(EventTimewaitExit)
	b.one(EventTimewaitExit)
	w.state(ca, Idle)
	ca.Destroy(w.now)
	cb.Destroy(w.now)
	a.empty()
	b.empty()
	if n := len(a.refused) + len(b.refused); n != 0 {
		t.Errorf("refused: %v, %v", a.refused, b.refused)
	}
}

// This test checks the REQ and the REP as sent.
func TestRequestHasTheFieldsThatLinuxExpects(t *testing.T) {
	w, a, b, ca, cb := established(t)
	var q mad.REQ
	d := a.last[mad.AttrREQ]
	q.Parse(&d)
	want := mad.REQ{
		LocalID: ca.LocalID(), Service: service, GUID: 0xa, Announcement: mad.Announce(4791), QPN: 0x11,
		ResponderResources: 4, InitiatorDepth: 3, RemoteResponseTimeout: 10, LocalResponseTimeout: 10,
		StartingPSN: q.StartingPSN, RetryCount: 6, RNRRetryCount: 5, PKey: 0xffff, MTU: 3, MaxCMRetries: 3,
		Primary: mad.Path{LocalLID: 0xffff, RemoteLID: 0xffff, LocalGID: mad.GIDFrom(a.addr.Addr()), RemoteGID: mad.GIDFrom(b.addr.Addr()),
			FlowLabel: 0x12345, TrafficClass: 0x20, HopLimit: 64, AckTimeout: 15},
	}
	copy(want.Private[:], "hello")
	if q != want {
		t.Errorf("REQ is\n%+v, expected\n%+v", q, want)
	}
	var p mad.REP
	d = b.last[mad.AttrREP]
	p.Parse(&d)
	wantREP := mad.REP{LocalID: ca.RemoteID(), RemoteID: ca.LocalID(), QPN: 0x22, StartingPSN: p.StartingPSN, ResponderResources: 3,
		InitiatorDepth: 2, TargetAckDelay: 15, RNRRetryCount: 4, GUID: 0xb}
	copy(wantREP.Private[:], "welcome")
	if p != wantREP {
		t.Errorf("REP is\n%+v, expected\n%+v", p, wantREP)
	}
	// All messages of an exchange have the same transaction ID. A DREQ begins a new one.
	w.must(ca.Disconnect(w.now, nil))
	w.pass(2 * time.Millisecond)
	w.must(cb.DisconnectReply(w.now, nil))
	w.pass(2 * time.Millisecond)
	tid := map[mad.AttributeID]uint64{}
	for _, h := range []*host{a, b} {
		for attr, d := range h.last {
			var hd mad.Header
			hd.Parse(&d)
			tid[attr] = hd.TID
			if hd.Port != 0 || hd.Modifier != 0 || hd.Status != 0 {
				t.Errorf("header of %v is %+v", attr, hd)
			}
		}
	}
	if tid[mad.AttrREQ] != tid[mad.AttrREP] || tid[mad.AttrREQ] != tid[mad.AttrRTU] || tid[mad.AttrREQ] == tid[mad.AttrDREQ] || tid[mad.AttrDREQ] != tid[mad.AttrDREP] || uint32(tid[mad.AttrREQ]) != ca.LocalID() {
		t.Errorf("transaction IDs %x", tid)
	}
}

// A REP has the longer one of the device's and the caller's ACK delay.
func TestAckDelayOfAcceptReachesThePeer(t *testing.T) {
	for _, c := range []struct{ said, sent uint8 }{{0, 15}, {14, 15}, {23, 23}} {
		w, _, b, ca, cb := requested(t)
		p := accepting
		p.AckDelay = 32
		if err := cb.Accept(w.now, &p); err == nil {
			t.Error("a delay of 6 bits was taken")
		}
		p.AckDelay = c.said
		w.must(cb.Accept(w.now, &p))
		w.pass(2 * time.Millisecond)
		var rep mad.REP
		d := b.last[mad.AttrREP]
		rep.Parse(&d)
		if rep.TargetAckDelay != c.sent || ca.ack < c.sent {
			t.Errorf("delay %d: the REP has %d, and the peer's timeout is %d, expected %d", c.said, rep.TargetAckDelay, ca.ack, c.sent)
		}
	}
}

// Zero parameters have defaults.
func TestRequestDefaults(t *testing.T) {
	w, a, b, _ := pair(t)
	if _, err := a.m.Connect(w.now, &ConnectParams{Service: service, Path: qp.Path{Dst: b.addr}}); err != nil {
		t.Fatal(err)
	}
	w.pass(2 * time.Millisecond)
	q := b.one(EventReqReceived).REQ
	if q.RemoteResponseTimeout != 20 || q.LocalResponseTimeout != 20 || q.MaxCMRetries != 15 || q.MTU.Bytes() != 1024 || q.Primary.AckTimeout != 17 || q.Transport != mad.TransportRC {
		t.Errorf("the REQ is %+v", q)
	}
}

func TestConnectOverUC(t *testing.T) {
	w, a, b, _ := pair(t)
	p := a.quick(b)
	p.Type = qp.UC
	ca, err := a.m.Connect(w.now, p)
	w.must(err)
	w.pass(2 * time.Millisecond)
	cb := b.one(EventReqReceived).Conn
	w.must(cb.Accept(w.now, &accepting))
	w.pass(2 * time.Millisecond)
	for _, c := range []*Conn{ca, cb} {
		if c.Type() != qp.UC {
			t.Errorf("the connection is %v", c.Type())
		}
		checkTransitions(t, c)
	}
}

// checkTransitions checks the attributes against the table of transitions.
func checkTransitions(t *testing.T, c *Conn) (all qp.Attr) {
	t.Helper()
	from := qp.Reset
	for _, to := range []qp.State{qp.Init, qp.RTR, qp.RTS} {
		mask, a, err := c.Attr(to)
		if err == nil {
			err = qp.Check(c.Type(), from, to, mask)
		}
		if err == nil {
			err = qp.Validate(mask, &a)
		}
		if err != nil || a.State != to {
			t.Fatalf("%v to %v: %v, attributes %+v", from, to, err, a)
		}
		all.Apply(mask, &a)
		from = to
	}
	return all
}

func TestAttributesOfBothSidesMatch(t *testing.T) {
	_, a, b, ca, cb := established(t)
	x, y := checkTransitions(t, ca), checkTransitions(t, cb)
	var q mad.REQ
	d := a.last[mad.AttrREQ]
	q.Parse(&d)
	var p mad.REP
	d = b.last[mad.AttrREP]
	p.Parse(&d)
	if x.SQPSN != y.RQPSN || x.RQPSN != y.SQPSN || x.RQPSN != q.StartingPSN || y.RQPSN != p.StartingPSN || x.RQPSN == y.RQPSN || x.RQPSN == 0 || y.RQPSN == 0 {
		t.Errorf("PSNs: a sends %v and expects %v, b sends %v and expects %v; told %v and %v",
			x.SQPSN, x.RQPSN, y.SQPSN, y.RQPSN, q.StartingPSN, p.StartingPSN)
	}
	if x.DestQPN != 0x22 || y.DestQPN != 0x11 || x.PathMTU != 1024 || y.PathMTU != 1024 {
		t.Errorf("QPNs %#x, %#x, MTUs %d, %d", x.DestQPN, y.DestQPN, x.PathMTU, y.PathMTU)
	}
	// The active side adopts the depths of the REP.
	if x.MaxDestRdAtomic != 2 || x.MaxRdAtomic != 3 || y.MaxDestRdAtomic != 3 || y.MaxRdAtomic != 2 {
		t.Errorf("READs: a serves %d and asks %d, b serves %d and asks %d", x.MaxDestRdAtomic, x.MaxRdAtomic, y.MaxDestRdAtomic, y.MaxRdAtomic)
	}
	if x.RetryCnt != 6 || y.RetryCnt != 6 || x.RNRRetry != 4 || y.RNRRetry != 5 {
		t.Errorf("retries %d, %d, RNR %d, %d", x.RetryCnt, y.RetryCnt, x.RNRRetry, y.RNRRetry)
	}
	// An ACK delay of 15, and twice a packet life time of 12.
	if x.Timeout != 15 || y.Timeout != 15 {
		t.Errorf("acknowledge timeouts %d, %d", x.Timeout, y.Timeout)
	}
	if x.Path != (qp.Path{Dst: b.addr, TrafficClass: 0x20, FlowLabel: 0x12345}) || y.Path != (qp.Path{Dst: a.addr, TrafficClass: 0x20, FlowLabel: 0x12345}) {
		t.Errorf("paths %+v, %+v", x.Path, y.Path)
	}
	if full := qp.RemoteWrite | qp.RemoteRead | qp.RemoteAtomic | qp.FlushGlobal; x.Access != full || y.Access != full || x.Port != 1 || y.Port != 1 {
		t.Errorf("access %v, %v", x.Access, y.Access)
	}
}

// The passive side modifies its queue pair before it accepts.
func TestAttributesBeforeAccept(t *testing.T) {
	w, _, _, ca, cb := requested(t)
	y := checkTransitions(t, cb)
	if y.MaxRdAtomic != 4 || y.MaxDestRdAtomic != 3 {
		t.Errorf("READs: serves %d, asks %d, expected what the REQ allows", y.MaxDestRdAtomic, y.MaxRdAtomic)
	}
	if _, _, err := ca.Attr(qp.Init); err != nil {
		t.Error(err)
	}
	var wrong *StateError
	if _, _, err := ca.Attr(qp.RTR); !errors.As(err, &wrong) || wrong.Found != ReqSent {
		t.Errorf("RTR before the REP: %v", err)
	}
	if _, _, err := ca.Attr(qp.RTS); !errors.As(err, &wrong) {
		t.Errorf("RTS before the REP: %v", err)
	}
	var illegal *qp.TransitionError
	if _, _, err := ca.Attr(qp.SQD); !errors.As(err, &illegal) {
		t.Errorf("SQD: %v", err)
	}
	p := accepting
	p.ResponderResources = 0
	w.must(cb.Accept(w.now, &p))
	w.pass(2 * time.Millisecond)
	if x := checkTransitions(t, ca); x.SQPSN != y.RQPSN {
		t.Errorf("a begins at %v, b expects %v", x.SQPSN, y.RQPSN)
	}
	if _, at, _ := cb.Attr(qp.Init); at.Access != qp.RemoteWrite {
		t.Errorf("access %#x without responder resources", at.Access)
	}
}

// This test makes every call in every state. An error names the call and the state.
func TestCallsInTheWrongStateNameBoth(t *testing.T) {
	const now = time.Second
	calls := map[string]func(*Conn) error{
		"accept":           func(c *Conn) error { return c.Accept(now, &accepting) },
		"ready":            func(c *Conn) error { return c.Ready(now, nil) },
		"reject":           func(c *Conn) error { return c.Reject(now, mad.RejectConsumer, nil, nil) },
		"delay":            func(c *Conn) error { return c.Delay(now, 5, nil) },
		"establish":        func(c *Conn) error { return c.Establish(now) },
		"disconnect":       func(c *Conn) error { return c.Disconnect(now, nil) },
		"disconnect reply": func(c *Conn) error { return c.DisconnectReply(now, nil) },
	}
	allowed := map[string]string{
		"accept": "REQ received, MRA(REQ) sent", "ready": "REP received, MRA(REP) sent", "delay": "REQ received, REP received",
		"reject":    "REQ received, MRA(REQ) sent, REQ sent, MRA(REQ) received, REP received, MRA(REP) sent, REP sent, MRA(REP) received",
		"establish": "REP sent, MRA(REP) received", "disconnect": "established", "disconnect reply": "DREQ received",
	}
	for s, name := range states {
		if name == "" {
			continue
		}
		for op, call := range calls {
			_, _, _, ca, _ := established(t)
			ca.state = State(s)
			err := call(ca)
			legal := false
			for _, l := range strings.Split(allowed[op], ", ") {
				legal = legal || l == name
			}
			if legal {
				if err != nil {
					t.Errorf("%s in state %s: %v", op, name, err)
				}
				continue
			}
			var e *StateError
			if !errors.As(err, &e) || e.Found != State(s) || e.Detail().Reason != reason.CMState || !strings.Contains(err.Error(), op) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s in state %s: %v", op, name, err)
			}
		}
	}
}

func TestConnectRefusesParametersByName(t *testing.T) {
	w, a, b, _ := pair(t)
	long := make([]byte, 300)
	for field, c := range map[string]struct {
		change func(*ConnectParams)
		reason reason.Reason
	}{
		"QPN":                   {func(p *ConnectParams) { p.QPN = 1 << 24 }, reason.CMParameter},
		"PSN":                   {func(p *ConnectParams) { p.PSN = 1 << 24 }, reason.CMParameter},
		"RetryCount":            {func(p *ConnectParams) { p.RetryCount = 8 }, reason.CMParameter},
		"RNRRetryCount":         {func(p *ConnectParams) { p.RNRRetryCount = 8 }, reason.CMParameter},
		"Retries":               {func(p *ConnectParams) { p.Retries = 16 }, reason.CMParameter},
		"PacketLifeTime":        {func(p *ConnectParams) { p.PacketLifeTime = 31 }, reason.CMParameter},
		"RemoteResponseTimeout": {func(p *ConnectParams) { p.RemoteResponseTimeout = 32 }, reason.CMParameter},
		"LocalResponseTimeout":  {func(p *ConnectParams) { p.LocalResponseTimeout = 32 }, reason.CMParameter},
		"Path.FlowLabel":        {func(p *ConnectParams) { p.Path.FlowLabel = 1 << 20 }, reason.CMParameter},
		"Path":                  {func(p *ConnectParams) { p.Path.Dst = w.host("c", "[2001:db8::1]:4791", 3).addr }, reason.CMGID},
		"PathMTU":               {func(p *ConnectParams) { p.PathMTU = 2048 }, reason.CMMTU},
		"Type":                  {func(p *ConnectParams) { p.Type = qp.UD }, reason.CMTransport},
		"Private":               {func(p *ConnectParams) { p.Private = long[:93] }, reason.CMPrivateData},
	} {
		p := a.quick(b)
		c.change(p)
		_, err := a.m.Connect(w.now, p)
		var e *Error
		if !errors.As(err, &e) || e.Field != field || e.Detail().Reason != c.reason || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if n := a.m.Count(); n != (Count{}) {
		t.Errorf("refused calls leave %+v", n)
	}
	_, _, _, _, cb := requested(t)
	for name, err := range map[string]error{
		"accept private": cb.Accept(0, &AcceptParams{Private: long[:197]}),
		"accept QPN":     cb.Accept(0, &AcceptParams{QPN: 1 << 24}),
		"reject private": cb.Reject(0, mad.RejectConsumer, nil, long[:149]),
		"reject ari":     cb.Reject(0, mad.RejectConsumer, long[:73], nil),
		"delay":          cb.Delay(0, 32, nil),
		"delay private":  cb.Delay(0, 3, long[:223]),
	} {
		var e *Error
		if !errors.As(err, &e) || cb.State() != ReqReceived {
			t.Errorf("%s: %v, state %v", name, err, cb.State())
		}
	}
	_, _, _, ca, _ := replied(t)
	var e *Error
	if err := ca.Ready(0, long[:225]); !errors.As(err, &e) || ca.State() != RepReceived {
		t.Errorf("ready: %v", err)
	}
	_, _, _, ca, cb = established(t)
	if err := ca.Disconnect(0, long[:221]); !errors.As(err, &e) || ca.State() != Established {
		t.Errorf("disconnect: %v", err)
	}
	cb.state = DreqReceived
	if err := cb.DisconnectReply(0, long[:225]); !errors.As(err, &e) || cb.State() != DreqReceived {
		t.Errorf("disconnect reply: %v", err)
	}
}

func TestListenTwiceIsRefused(t *testing.T) {
	w, _, b, l := pair(t)
	var e *Error
	if _, err := b.m.Listen(w.now, service); !errors.As(err, &e) || e.Reason.Reason != reason.CMServiceBusy {
		t.Errorf("second listener: %v", err)
	}
	l.Close()
	l2, err := b.m.Listen(w.now, service)
	w.must(err)
	l.Close() // closing twice must not affect the other listener
	if b.m.listeners[service] != l2 {
		t.Error("closing the first listener twice closes the second")
	}
}

// The two ends have different UDP ports on one address.
func TestPortIsAnnounced(t *testing.T) {
	w := newWorld(t, 5)
	a, b := w.host("a", "[::1]:4793", 0xa), w.host("b", "[::1]:4792", 0xb)
	_, err := b.m.Listen(w.now, service)
	w.must(err)
	ca := a.connect(b)
	w.pass(2 * time.Millisecond)
	cb := b.one(EventReqReceived).Conn
	if cb.Path().Dst != a.addr {
		t.Fatalf("b would send to %v", cb.Path().Dst)
	}
	w.must(cb.Accept(w.now, &accepting))
	w.pass(2 * time.Millisecond)
	w.must(ca.Ready(w.now, nil))
	w.pass(2 * time.Millisecond)
	w.state(cb, Established)
	// Answers for unknown connections also go to the right port.
	w.must(ca.Disconnect(w.now, nil))
	b.restart(0xb)
	w.pass(3 * time.Millisecond)
	a.one(EventDrepReceived)
	// So do requests for datagram services.
	_, err = a.m.Resolve(w.now, &SIDRParams{Service: service, Path: qp.Path{Dst: b.addr}})
	w.must(err)
	w.pass(3 * time.Millisecond)
	if e := a.one(EventSidrRepReceived); e.SIDRRep.Status != mad.SIDRUnsupported {
		t.Errorf("answered %v", e.SIDRRep.Status)
	}
}
