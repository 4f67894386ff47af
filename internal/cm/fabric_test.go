package cm

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// port adds a device on a port of an InfiniBand fabric.
func (w *world) port(lid uint16, guid uint64) *host {
	gid := netip.MustParseAddr(fmt.Sprintf("fe80::%x", guid))
	h := w.host(fmt.Sprintf("lid%d", lid), netip.AddrPortFrom(gid, 4791).String(), guid)
	h.addr, h.source = qp.LIDEndpoint(lid), lid
	h.m.Configure(&Port{GIDs: []netip.Addr{gid, netip.MustParseAddr("fe80::99")}, LID: lid, LMC: 1, MTU: 2048, PKeys: []uint16{0xffff, 0, 0x8001, 0x0002}})
	return h
}

// fabricPair is pair on a fabric.
func fabricPair(t testing.TB) (w *world, a, b *host, l *Listener) {
	t.Helper()
	w = newWorld(t, 1)
	a, b = w.port(4, 0xa), w.port(6, 0xb)
	l, err := b.m.Listen(w.now, service)
	w.must(err)
	return w, a, b, l
}

// byLID returns parameters of a connection by LID.
func (h *host) byLID(to *host) *ConnectParams {
	p := h.quick(to)
	p.Path = qp.Path{Dst: to.addr, ServiceLevel: 3, PathBits: 1}
	p.RemoteGID, p.PKey, p.PacketRate = to.m.gid.Addr(), 0x8001, 5
	return p
}

func lastREQ(t *testing.T, h *host) (q mad.REQ) {
	t.Helper()
	d, ok := h.last[mad.AttrREQ]
	if !ok {
		t.Fatalf("%s sent no REQ", h.name)
	}
	q.Parse(&d)
	return q
}

func TestConnectionByLID(t *testing.T) {
	w, a, b, _ := fabricPair(t)
	ca, err := a.m.Connect(w.now, a.byLID(b))
	w.must(err)
	w.pass(2 * time.Millisecond)
	cb := b.one(EventReqReceived).Conn
	q := lastREQ(t, a)
	if q.PKey != 0x8001 || q.MTU != mad.MTUFrom(2048) {
		t.Errorf("P_Key %#x, MTU %v", q.PKey, q.MTU)
	}
	q.Primary.AckTimeout = 0
	if want := (mad.Path{
		LocalLID: 5, RemoteLID: 6, LocalGID: a.m.gid, RemoteGID: b.m.gid, SL: 3, PacketRate: 5, SubnetLocal: true,
	}); q.Primary != want {
		t.Errorf("path %+v\nexpected %+v", q.Primary, want)
	}
	if want := (qp.Path{Dst: qp.LIDEndpoint(5), ServiceLevel: 3}); cb.Path() != want {
		t.Errorf("passive end's path %+v, expected %+v", cb.Path(), want)
	}
	w.must(cb.Accept(w.now, &accepting))
	w.pass(2 * time.Millisecond)
	w.must(ca.Ready(w.now, nil))
	w.pass(2 * time.Millisecond)
	for _, c := range []*Conn{ca, cb} {
		w.state(c, Established)
		_, init, err := c.Attr(qp.Init)
		w.must(err)
		_, rtr, err := c.Attr(qp.RTR)
		w.must(err)
		if init.PKeyIndex != 2 || rtr.Path != c.Path() || rtr.PathMTU != 2048 {
			t.Errorf("P_Key index %d, %+v, MTU %d", init.PKeyIndex, rtr.Path, rtr.PathMTU)
		}
	}
	w.must(ca.Disconnect(w.now, nil))
	w.pass(2 * time.Millisecond)
	w.must(cb.DisconnectReply(w.now, nil))
	w.settle(time.Minute)
	ca.Destroy(w.now)
	cb.Destroy(w.now)
	a.empty()
	b.empty()
}

// The passive end's messages return the way the request came, and its queue pair's packets use
// the path in the request.
func TestPathFromARequest(t *testing.T) {
	gid := netip.MustParseAddr("fec0::a")
	local := qp.Path{Dst: qp.LIDEndpoint(0x10), ServiceLevel: 7, PathBits: 1}
	for _, c := range []struct {
		name   string
		change func(*mad.Path)
		want   qp.Path
	}{
		{"inside the subnet", func(p *mad.Path) { p.SubnetLocal, p.LocalLID, p.RemoteLID, p.SL = true, 0x10, 7, 7 }, local},
		{"permissive LIDs", func(p *mad.Path) { p.SubnetLocal, p.LocalLID, p.RemoteLID = true, mad.PermissiveLID, mad.PermissiveLID },
			qp.Path{Dst: qp.LIDEndpoint(4), ServiceLevel: 2, PathBits: 1}},
		{"routed", func(p *mad.Path) {
			p.LocalLID, p.RemoteLID, p.LocalGID = mad.PermissiveLID, mad.PermissiveLID, mad.GIDFrom(gid)
			p.FlowLabel, p.TrafficClass, p.HopLimit = 9, 8, 7
		}, qp.Path{Dst: netip.AddrPortFrom(gid, 4), FlowLabel: 9, TrafficClass: 8, HopLimit: 7, ServiceLevel: 2, PathBits: 1}},
	} {
		w, a, b, _ := fabricPair(t)
		q := asks(a, b)
		c.change(&q.Primary)
		b.m.Receive(0, Route{Path: qp.Path{Dst: qp.LIDEndpoint(4), ServiceLevel: 2, PathBits: 1}}, craft(mad.AttrREQ, &q))
		w.work()
		cb := b.one(EventReqReceived).Conn
		if cb.Path() != c.want {
			t.Errorf("%s: %+v, expected %+v", c.name, cb.Path(), c.want)
		}
		w.must(cb.Reject(w.now, mad.RejectConsumer, nil, nil))
		var out Datagram
		if !b.m.Next(w.now, &out) || out.Path.Dst != qp.LIDEndpoint(4) || out.Path.ServiceLevel != 2 || out.Path.PathBits != 1 {
			t.Errorf("%s: rejected along %+v", c.name, out.Path)
		}
	}
}

func TestRequestsThatTheFabricRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*mad.REQ)
		refuse reason.Detail // the zero value means served
	}{
		{"second GID", func(q *mad.REQ) { q.Primary.RemoteGID = mad.GIDFrom(netip.MustParseAddr("fe80::99")) }, reason.Detail{}},
		{"other GID", func(q *mad.REQ) { q.Primary.RemoteGID[15]++ }, reason.Detail{Reason: reason.CMGID, Expected: 0xb, Found: 0xc}},
		{"no GID", func(q *mad.REQ) { q.Primary.RemoteGID = mad.GID{} }, reason.Detail{Reason: reason.CMGID, Expected: 0xb}},
		{"other partition", func(q *mad.REQ) { q.PKey = 0x8003 }, reason.Detail{Reason: reason.CMPKey, Expected: 0xffff, Found: 0x8003}},
		{"limited member, as in the table", func(q *mad.REQ) { q.PKey = 0x0002 }, reason.Detail{}}, // the peer may be the full one
		{"full member to a limited one", func(q *mad.REQ) { q.PKey = 0x8002 }, reason.Detail{}},
		{"limited member to a full one", func(q *mad.REQ) { q.PKey = 0x7fff }, reason.Detail{}},
		{"MTU of the port", func(q *mad.REQ) { q.MTU = mad.MTUFrom(2048) }, reason.Detail{}},
		{"MTU too great", func(q *mad.REQ) { q.MTU = mad.MTUFrom(4096) }, reason.Detail{Reason: reason.CMMTU, Expected: 2048, Found: 4096}},
	} {
		w, a, b, _ := fabricPair(t)
		q := asks(a, b)
		c.change(&q)
		b.m.Receive(0, back(a.addr, 0), craft(mad.AttrREQ, &q))
		w.work()
		if c.refuse.Reason == reason.None {
			b.one(EventReqReceived)
		} else if len(b.refused) != 1 || b.refused[0] != c.refuse || lastREJ(t, b).Of != mad.OfREQ {
			t.Errorf("%s: refused %v, expected %v", c.name, b.refused, c.refuse)
		}
	}
}

func TestPartitionThatThePortLacks(t *testing.T) {
	w, a, b, _ := fabricPair(t)
	p := a.byLID(b)
	p.PKey = 0x8003
	_, err := a.m.Connect(w.now, p)
	if want := (reason.Detail{Reason: reason.CMPKey, Expected: 0xffff, Found: 0x8003}); err == nil || err.(*Error).Detail() != want {
		t.Errorf("connect: %v", err)
	}
	if _, err := a.m.Resolve(w.now, &SIDRParams{Service: service, Path: p.Path, PKey: 0x8003}); err == nil || err.(*Error).Detail().Reason != reason.CMPKey {
		t.Errorf("resolve: %v", err)
	}
	a.empty()
}

func TestResolveByLID(t *testing.T) {
	w, a, b, _ := fabricPair(t)
	b.user = func(e seen) {
		if e.Kind == EventSidrReqReceived {
			if e.SIDRReq.PKey != 0x8001 || e.Inquiry.Path() != (qp.Path{Dst: a.addr, ServiceLevel: 5}) {
				t.Errorf("P_Key %#x, back along %+v", e.SIDRReq.PKey, e.Inquiry.Path())
			}
			w.must(e.Inquiry.Reply(w.now, &SIDRReply{QPN: 0x42, QKey: 7}))
		}
	}
	l, err := a.m.Resolve(w.now, &SIDRParams{Service: service, Path: qp.Path{Dst: b.addr, ServiceLevel: 5}, PKey: 0x8001})
	w.must(err)
	w.settle(time.Second)
	if e := a.one(EventSidrRepReceived); e.Lookup != l || e.SIDRRep.QPN != 0x42 {
		t.Errorf("%+v", e.SIDRRep)
	}
	a.empty()
	b.empty()
}

func TestMessagesOfAnotherLIDAreRefused(t *testing.T) {
	w, a, b, _ := fabricPair(t)
	ca, err := a.m.Connect(w.now, a.byLID(b))
	w.must(err)
	w.pass(2 * time.Millisecond)
	cb := b.one(EventReqReceived).Conn
	a.m.Receive(w.now, back(qp.LIDEndpoint(8), 0), craft(mad.AttrREJ, &mad.REJ{LocalID: cb.LocalID(), RemoteID: ca.LocalID(), Reason: mad.RejectConsumer}))
	if want := (reason.Detail{Reason: reason.CMSource, Expected: 6, Found: 8}); len(a.refused) != 1 || a.refused[0] != want {
		t.Errorf("refused %v, expected %v", a.refused, want)
	}
	w.state(ca, ReqSent)
	// With a GRH the same LID is the same peer.
	a.m.Receive(w.now, back(netip.AddrPortFrom(b.m.gid.Addr(), 6), 0), craft(mad.AttrREJ, &mad.REJ{LocalID: cb.LocalID(), RemoteID: ca.LocalID(), Reason: mad.RejectConsumer}))
	w.state(ca, Idle)
}

// Ports with one GUID and one communication ID are distinguished by their LIDs, and a flooding
// one only uses up its own share.
func TestPeersAreDistinguishedByLID(t *testing.T) {
	w, a, b, _ := fabricPair(t)
	c := w.port(8, 0xc)
	for _, h := range []*host{a, c} {
		q := asks(a, b)
		q.Announcement = mad.Announce(77) // means nothing on a fabric
		b.m.Receive(w.now, back(h.addr, 0), craft(mad.AttrREQ, &q))
		b.m.Receive(w.now, back(h.addr, 0), craft(mad.AttrREQ, &q))
	}
	w.work()
	if n := b.m.Count().Conns; n != 2 || b.refusals(reason.CMDuplicate) != 2 {
		t.Errorf("%d connections, refused %v", n, b.refused)
	}
	if s := b.m.half.sources; len(s) != 2 || s[a.addr] != 1 || s[c.addr] != 1 {
		t.Errorf("shares %v", s)
	}
}

func TestSubnetManagerChangesThePort(t *testing.T) {
	w, a, b, _ := fabricPair(t)
	_, err := a.m.Connect(w.now, a.byLID(b))
	w.must(err)
	w.pass(2 * time.Millisecond)
	port := *a.m.port
	port.GIDs, port.LID, port.MTU = nil, 12, 256
	a.m.Configure(&port)
	_, err = a.m.Connect(w.now, a.byLID(b))
	w.must(err)
	w.work()
	if q := lastREQ(t, a); q.Primary.LocalLID != 13 || q.MTU != mad.MTUFrom(256) || q.Primary.LocalGID != (mad.GID{}) {
		t.Errorf("LID %d, MTU %v, GID %v", q.Primary.LocalLID, q.MTU, q.Primary.LocalGID)
	}
}
