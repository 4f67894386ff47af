package cm

import (
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// craft makes a datagram as another implementation would.
func craft(attr mad.AttributeID, m interface{ Put(*[mad.Len]byte) }) []byte {
	var d [mad.Len]byte
	h := mad.NewHeader(attr, 0x1234)
	h.Put(&d)
	m.Put(&d)
	return d[:]
}

// asks returns a REQ that b accepts.
func asks(a, b *host) mad.REQ {
	return mad.REQ{LocalID: 77, Service: service, GUID: 0xa, QPN: 0x11, StartingPSN: 5, RetryCount: 7, PKey: 0xffff, MTU: 3,
		LocalResponseTimeout: 10, MaxCMRetries: 3,
		Primary: mad.Path{LocalGID: a.m.gid, RemoteGID: b.m.gid, AckTimeout: 14, HopLimit: 64}}
}

// origin returns the source address and port of a host's packets.
func (h *host) origin() netip.AddrPort { return netip.AddrPortFrom(h.addr.Addr(), h.source) }

func lastREJ(t *testing.T, h *host) (j mad.REJ) {
	t.Helper()
	d, ok := h.last[mad.AttrREJ]
	if !ok {
		t.Fatalf("%s sent no REJ", h.name)
	}
	j.Parse(&d)
	return j
}

// Each request is rejected with its reason, and nothing is left.
func TestRequestsThatTheDeviceCannotServe(t *testing.T) {
	own := mad.GIDFrom(netip.MustParseAddr("192.0.2.2"))
	for _, c := range []struct {
		name   string
		change func(*mad.REQ)
		reject mad.RejectReason
		ari    string
		refuse reason.Reason
	}{
		{"no listener", func(q *mad.REQ) { q.Service++ }, mad.RejectInvalidServiceID, "", reason.CMService},
		{"RD", func(q *mad.REQ) { q.Transport = mad.TransportRD }, mad.RejectInvalidTransport, "", reason.CMTransport},
		{"XRC", func(q *mad.REQ) { q.Transport, q.ExtendedTransport = mad.TransportExtended, 1 }, mad.RejectInvalidTransport, "", reason.CMTransport},
		{"other device", func(q *mad.REQ) { q.Primary.RemoteGID[15]++ }, mad.RejectInvalidGID, string(own[:]), reason.CMGID},
		{"no own GID", func(q *mad.REQ) { q.Primary.LocalGID = mad.GID{} }, mad.RejectInvalidGID, string(own[:]), reason.CMPeerGID},
		{"multicast GID", func(q *mad.REQ) { q.Primary.LocalGID = mad.GIDFrom(netip.MustParseAddr("224.0.0.1")) }, mad.RejectInvalidGID, string(own[:]), reason.CMPeerGID},
		{"GID of the other family", func(q *mad.REQ) { q.Primary.LocalGID = mad.GIDFrom(netip.MustParseAddr("2001:db8::1")) }, mad.RejectInvalidGID, string(own[:]), reason.CMPeerGID},
		{"MTU too great", func(q *mad.REQ) { q.MTU = 4 }, mad.RejectInvalidMTU, "\x30", reason.CMMTU},
		{"MTU reserved", func(q *mad.REQ) { q.MTU = 0 }, mad.RejectInvalidMTU, "\x30", reason.CMMTU},
		{"other partition", func(q *mad.REQ) { q.PKey = 0x8001 }, mad.RejectInvalidGID, string(own[:]), reason.CMPKey},
	} {
		w, a, b, _ := pair(t)
		q := asks(a, b)
		c.change(&q)
		b.m.Receive(0, back(a.origin(), 0), craft(mad.AttrREQ, &q))
		w.work()
		j := lastREJ(t, b)
		if j.Reason != c.reject || string(j.ARI()) != c.ari || j.RemoteID != 77 || j.LocalID != 0 || j.Of != mad.OfREQ {
			t.Errorf("%s: rejected as %+v", c.name, j)
		}
		if len(b.refused) != 1 || b.refused[0].Reason != c.refuse || len(b.events) != 0 {
			t.Errorf("%s: refused %v, heard %q", c.name, b.refused, b.kinds())
		}
		b.empty()
	}
	// Requests of a limited member of the partition are served.
	w, a, b, _ := pair(t)
	q := asks(a, b)
	q.PKey = 0x7fff
	b.m.Receive(0, back(a.origin(), 0), craft(mad.AttrREQ, &q))
	w.work()
	b.one(EventReqReceived)
}

// This test covers the whole exchange.
func TestNoListenerIsReportedToTheActiveSide(t *testing.T) {
	w, a, b, l := pair(t)
	l.Close()
	c := a.connect(b)
	w.settle(time.Second)
	e := a.one(EventRejReceived)
	if e.Conn != c || e.Reject != mad.RejectInvalidServiceID || e.Detail != (reason.Detail{Reason: reason.CMRejected, Expected: uint64(ReqSent), Found: 8}) {
		t.Errorf("rejected with %v, %v", e.Reject, e.Detail)
	}
	w.state(c, Idle)
	c.Destroy(w.now)
	a.empty()
	b.empty()
}

// The datagrams are not messages of this class.
func TestForeignDatagramsAreRefusedByName(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*mad.Header)
		refuse reason.Reason
		answer mad.AttributeID
	}{
		{"Omni-Path", func(h *mad.Header) { h.BaseVersion = 0x80 }, reason.MADVersion, 0},
		{"subnet administration", func(h *mad.Header) { h.Class = 3 }, reason.MADClass, 0},
		{"Get", func(h *mad.Header) { h.Method = 1 }, reason.MADMethod, 0},
		{"unknown message", func(h *mad.Header) { h.Attribute = 0x1b }, reason.MADAttribute, 0},
		{"old REQ", func(h *mad.Header) { h.ClassVersion = 1 }, reason.MADClassVersion, mad.AttrREJ},
		{"old SIDR_REQ", func(h *mad.Header) { h.ClassVersion, h.Attribute = 1, mad.AttrSIDRReq }, reason.MADClassVersion, mad.AttrSIDRRep},
		{"old RTU", func(h *mad.Header) { h.ClassVersion, h.Attribute = 1, mad.AttrRTU }, reason.MADClassVersion, 0},
	} {
		w, a, b, _ := pair(t)
		q := asks(a, b)
		d := [mad.Len]byte(craft(mad.AttrREQ, &q))
		h := mad.NewHeader(mad.AttrREQ, 9)
		c.change(&h)
		h.Put(&d)
		b.m.Receive(0, back(a.origin(), 0), d[:])
		var out Datagram
		answered := b.m.Next(0, &out)
		if len(b.refused) != 1 || b.refused[0].Reason != c.refuse || answered != (c.answer != 0) {
			t.Errorf("%s: refused %v, answered %v", c.name, b.refused, answered)
		}
		if answered {
			h.Parse(&out.MAD)
			if h.Attribute != c.answer || h.TID != 9 || out.Path.Dst != a.addr {
				t.Errorf("%s: answered with %v to %v", c.name, h.Attribute, out.Path.Dst)
			}
			var j mad.REJ
			if j.Parse(&out.MAD); c.answer == mad.AttrREJ && (j.Reason != mad.RejectInvalidClassVersion || string(j.ARI()) != "\x02" || j.RemoteID != 77) {
				t.Errorf("%s: %+v", c.name, j)
			}
			var s mad.SIDRRep
			if s.Parse(&out.MAD); c.answer == mad.AttrSIDRRep && s.Status != mad.SIDRUnsupportedVersion {
				t.Errorf("%s: %+v", c.name, s)
			}
		}
		w.work()
		b.empty()
	}
	_, a, b, _ := pair(t)
	q := asks(a, b)
	d := append(craft(mad.AttrREQ, &q), make([]byte, 40)...)
	for n := range d {
		if n != mad.Len {
			b.m.Receive(0, back(a.origin(), 0), d[:n:n])
		}
	}
	if len(b.refused) != len(d)-1 || b.refusals(reason.MADLength) != len(d)-1 || b.m.Count().Queued != 0 {
		t.Errorf("%d of %d lengths are refused", b.refusals(reason.MADLength), len(d)-1)
	}
	b.empty()
}

// IBTA 12.9.8.3.1.
func TestDuplicateREQIsAnsweredByState(t *testing.T) {
	for _, c := range []struct {
		state State
		want  mad.AttributeID
	}{
		{ReqReceived, 0}, {MRAReqSent, mad.AttrMRA}, {RepSent, 0}, {MRARepReceived, 0}, {Established, 0},
		{DreqSent, 0}, {DreqReceived, 0}, {Timewait, mad.AttrREJ},
	} {
		w, a, b, _, cb := established(t)
		d := a.last[mad.AttrREQ]
		cb.state = c.state
		b.m.Receive(w.now, back(a.origin(), 0), d[:])
		var out Datagram
		var h mad.Header
		if b.m.Next(w.now, &out) {
			h.Parse(&out.MAD)
		}
		if h.Attribute != c.want || b.refusals(reason.CMDuplicate) != 1 || len(b.events) != 2 || len(b.todo) != 0 {
			t.Errorf("in state %v: answered %v, refused %v", c.state, h.Attribute, b.refused)
		}
		if c.state == Timewait {
			var j mad.REJ
			if j.Parse(&out.MAD); j.Reason != mad.RejectStaleConnection || j.Of != mad.OfREQ {
				t.Errorf("in the time wait: %+v", j)
			}
		}
	}
}

// This test sends each message with unknown IDs, and with the right IDs from another address.
func TestHostileIDsChangeNothing(t *testing.T) {
	w, a, b, ca, cb := established(t)
	evil := netip.MustParseAddrPort("203.0.113.9:4791")
	messages := func(local, remote, q uint32) map[mad.AttributeID][]byte {
		return map[mad.AttributeID][]byte{
			mad.AttrREP:  craft(mad.AttrREP, &mad.REP{LocalID: local, RemoteID: remote}),
			mad.AttrRTU:  craft(mad.AttrRTU, &mad.RTU{LocalID: local, RemoteID: remote}),
			mad.AttrREJ:  craft(mad.AttrREJ, &mad.REJ{LocalID: local, RemoteID: remote, Of: mad.OfOther, Reason: mad.RejectConsumer}),
			mad.AttrMRA:  craft(mad.AttrMRA, &mad.MRA{LocalID: local, RemoteID: remote, Of: mad.OfREP, ServiceTimeout: 31}),
			mad.AttrDREQ: craft(mad.AttrDREQ, &mad.DREQ{LocalID: local, RemoteID: remote, RemoteQPN: q}),
			mad.AttrDREP: craft(mad.AttrDREP, &mad.DREP{LocalID: local, RemoteID: remote}),
		}
	}
	for _, c := range []struct {
		name   string
		src    netip.AddrPort
		all    map[mad.AttributeID][]byte
		reason reason.Reason
	}{
		{"nobody's", a.origin(), messages(1, 2, 3), reason.CMCommID},
		{"half right", a.origin(), messages(1, cb.LocalID(), 0x22), reason.CMCommID},
		{"from elsewhere", evil, messages(ca.LocalID(), cb.LocalID(), 0x22), reason.CMSource},
	} {
		for attr, d := range c.all {
			b.refused = nil
			b.m.Receive(w.now, back(c.src, 0), d)
			if len(b.refused) != 1 || b.refused[0].Reason != c.reason {
				t.Errorf("%v %s: refused %v", attr, c.name, b.refused)
			}
		}
	}
	b.refused = nil
	b.m.Receive(w.now, back(a.origin(), 0), messages(ca.LocalID(), cb.LocalID(), 0x23)[mad.AttrDREQ])
	if b.refusals(reason.CMQPN) != 1 {
		t.Errorf("DREQ of another queue pair: refused %v", b.refused)
	}
	for attr, d := range map[mad.AttributeID][]byte{
		mad.AttrRTU:  messages(ca.LocalID(), cb.LocalID(), 0)[mad.AttrRTU],
		mad.AttrMRA:  messages(ca.LocalID(), cb.LocalID(), 0)[mad.AttrMRA],
		mad.AttrDREP: messages(ca.LocalID(), cb.LocalID(), 0)[mad.AttrDREP],
	} {
		b.refused = nil
		b.m.Receive(w.now, back(a.origin(), 0), d)
		if b.refusals(reason.CMState)+b.refusals(reason.CMDuplicate) != 1 {
			t.Errorf("%v in the wrong state: refused %v", attr, b.refused)
		}
	}
	w.work()
	w.state(cb, Established)
	if len(b.events) != 2 {
		t.Errorf("b heard %q", b.kinds())
	}
}

// A REP is rejected and a DREQ confirmed. All others get no answer.
func TestAnswersToMessagesOfUnknownConnections(t *testing.T) {
	for _, c := range []struct {
		attr mad.AttributeID
		m    interface{ Put(*[mad.Len]byte) }
		want mad.AttributeID
	}{
		{mad.AttrREP, &mad.REP{LocalID: 5, RemoteID: 6}, mad.AttrREJ},
		{mad.AttrDREQ, &mad.DREQ{LocalID: 5, RemoteID: 6}, mad.AttrDREP},
		{mad.AttrRTU, &mad.RTU{LocalID: 5, RemoteID: 6}, 0},
		{mad.AttrREJ, &mad.REJ{LocalID: 5, RemoteID: 6}, 0},
		{mad.AttrREJ, &mad.REJ{LocalID: 5, RemoteID: 6, Of: mad.OfREP}, 0},
		{mad.AttrREJ, &mad.REJ{LocalID: 5, RemoteID: 6, Reason: mad.RejectTimeout, InfoLen: 8}, 0},
		{mad.AttrMRA, &mad.MRA{LocalID: 5, RemoteID: 6}, 0},
		{mad.AttrDREP, &mad.DREP{LocalID: 5, RemoteID: 6}, 0},
		{mad.AttrSIDRRep, &mad.SIDRRep{RequestID: 6}, 0},
		{mad.AttrLAP, &mad.LAP{LocalID: 5, RemoteID: 6}, mad.AttrAPR},
		{mad.AttrAPR, &mad.APR{LocalID: 5, RemoteID: 6}, 0},
	} {
		_, a, b, _ := pair(t)
		b.m.Receive(0, back(a.origin(), 0x40), craft(c.attr, c.m))
		var out Datagram
		var h mad.Header
		if b.m.Next(0, &out) {
			h.Parse(&out.MAD)
		}
		if h.Attribute != c.want || len(b.refused) != 1 || len(b.todo) != 0 {
			t.Errorf("%v: answered %v, refused %v", c.attr, h.Attribute, b.refused)
		}
		if c.want != 0 && (h.TID != 0x1234 || out.Path.Dst != a.addr || out.Path.TrafficClass != 0x40) {
			t.Errorf("%v: answered to %+v, transaction %#x", c.attr, out.Path, h.TID)
		}
		// Both IDs are returned, swapped.
		var r mad.RTU
		if r.Parse(&out.MAD); c.want != 0 && (r.LocalID != 6 || r.RemoteID != 5) {
			t.Errorf("%v: answered with IDs %d, %d", c.attr, r.LocalID, r.RemoteID)
		}
		b.empty()
	}
}

func TestAlternatePathIsRefused(t *testing.T) {
	w, a, b, ca, cb := established(t)
	b.m.Receive(w.now, back(a.origin(), 0), craft(mad.AttrLAP, &mad.LAP{LocalID: ca.LocalID(), RemoteID: cb.LocalID(), RemoteQPN: 0x22}))
	var out Datagram
	if !b.m.Next(w.now, &out) {
		t.Fatal("no answer to the LAP")
	}
	var p mad.APR
	if p.Parse(&out.MAD); p.Status != mad.APUnsupported || p.RemoteID != ca.LocalID() || p.LocalID != cb.LocalID() {
		t.Errorf("answered %+v", p)
	}
	if b.refusals(reason.CMAlternatePath) != 1 {
		t.Errorf("refused %v", b.refused)
	}
	w.state(cb, Established)
	// A REQ may have an alternate path; the REP says that it is not used.
	w, a, b, _ = pair(t)
	q := asks(a, b)
	q.Alternate = q.Primary
	b.m.Receive(w.now, back(a.origin(), 0), craft(mad.AttrREQ, &q))
	w.work()
	w.must(b.one(EventReqReceived).Conn.Accept(w.now, &accepting))
	w.work()
	d := b.last[mad.AttrREP]
	var rep mad.REP
	if rep.Parse(&d); rep.Failover != mad.FailoverNotSupported {
		t.Errorf("failover %d", rep.Failover)
	}
}

// The senders repeat dropped requests, which are accepted once there is room.
func TestFullBacklogDropsRequests(t *testing.T) {
	w, a, b, l := pair(t)
	l.Backlog = 2
	var all []*Conn
	for i := range 4 {
		p := a.quick(b)
		p.QPN += uint32(i)
		p.Retries = 15
		c, err := a.m.Connect(w.now, p)
		w.must(err)
		all = append(all, c)
	}
	w.pass(2 * time.Millisecond)
	if l.Waiting() != 2 || b.refusals(reason.CMBacklog) != 2 || b.sent[mad.AttrREJ] != 0 {
		t.Fatalf("%d wait, refused %v", l.Waiting(), b.refused)
	}
	first := b.events[0].Conn
	w.must(first.Reject(w.now, mad.RejectConsumer, nil, nil))
	b.events[1].Conn.Destroy(w.now)
	if l.Waiting() != 0 {
		t.Fatalf("%d wait", l.Waiting())
	}
	w.pass(activeWait)
	if l.Waiting() != 2 || b.kinds() != "ReqReceived ReqReceived ReqReceived ReqReceived" {
		t.Errorf("%d wait, b heard %q", l.Waiting(), b.kinds())
	}
	for _, e := range b.events[2:] {
		w.must(e.Conn.Accept(w.now, &accepting))
	}
	if l.Waiting() != 0 {
		t.Errorf("%d wait after all are accepted", l.Waiting())
	}
	for _, c := range all {
		c.Destroy(w.now)
	}
	for _, e := range b.events {
		if e.Kind == EventReqReceived {
			e.Conn.Destroy(w.now)
		}
	}
	w.settle(5 * time.Second)
	a.empty()
	b.empty()
}

// A duplicate of the REQ created a second connection at the peer.
func TestSecondAnswerToOneRequestIsRejected(t *testing.T) {
	w, a, b, ca, cb := established(t)
	r := mad.REP{LocalID: cb.LocalID() + 1, RemoteID: ca.LocalID(), QPN: 0x99, GUID: 0xb}
	a.m.Receive(w.now, back(b.origin(), 0), craft(mad.AttrREP, &r))
	w.work()
	j := lastREJ(t, a)
	if j.Reason != mad.RejectInvalidCommInstance || j.Of != mad.OfREP || j.RemoteID != cb.LocalID()+1 || j.LocalID != ca.LocalID() {
		t.Errorf("rejected %+v", j)
	}
	w.state(ca, Established)
	if a.kinds() != "RepReceived" {
		t.Error(a.kinds())
	}
}

// Paths name peers in the form of packets. The zone is that of the sending device.
func TestPathToALinkLocalPeerHasNoZone(t *testing.T) {
	w := newWorld(t, 3)
	a, b := w.host("a", "[fe80::1%eth0]:4791", 0xa), w.host("b", "[fe80::2%eth0]:4791", 0xb)
	_, err := b.m.Listen(0, service)
	w.must(err)
	ca, err := a.m.Connect(0, &ConnectParams{Service: service, Path: qp.Path{Dst: b.addr}, QPN: 0x11})
	w.must(err)
	w.pass(2 * time.Millisecond)
	cb := b.one(EventReqReceived).Conn
	if cb.Path().Dst != qp.OnWire(a.addr) {
		t.Errorf("b's path leads to %v", cb.Path().Dst)
	}
	w.must(cb.Accept(w.now, &accepting))
	w.pass(2 * time.Millisecond)
	w.state(ca, RepReceived)
}
