package cm

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

const floodRate = 50_000 // requests a second

// A flood sends forged requests to a host.
type flood struct {
	w      *world
	to     *host
	lasts  time.Duration
	rand   *rand.Rand
	source func() netip.AddrPort // source address of the next request
	lookup bool                  // SIDR_REQs instead of REQs
	sent   int

	peak Count // largest number of connections that the host held
}

// start sends floodRate requests per second.
func (f *flood) start() {
	if f.w.now >= f.lasts {
		return
	}
	src := f.source()
	q := mad.REQ{
		LocalID: f.rand.Uint32(), Service: service, GUID: f.rand.Uint64(), QPN: f.rand.Uint32() >> 8, PKey: 0xffff, MTU: 3,
		LocalResponseTimeout: 31, RemoteResponseTimeout: 31, MaxCMRetries: 15,
		Primary: mad.Path{LocalGID: mad.GIDFrom(src.Addr()), RemoteGID: f.to.m.gid, AckTimeout: 31},
	}
	msg := craft(mad.AttrREQ, &q)
	if f.lookup {
		msg = craft(mad.AttrSIDRReq, &mad.SIDRReq{RequestID: f.rand.Uint32(), PKey: 0xffff, Service: service})
	}
	f.to.m.Receive(f.w.now, back(src, 0), msg)
	f.sent++
	n := Count{Conns: f.to.m.live, Detached: len(f.to.m.conns) - f.to.m.live}
	f.peak.Conns, f.peak.Detached = max(f.peak.Conns, n.Conns), max(f.peak.Detached, n.Detached)
	f.w.later(f.w.now+time.Second/floodRate, f.start)
}

// dead returns a source address that no host has.
func (f *flood) dead() netip.AddrPort {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 198<<24|18<<16|f.rand.Uint32()>>15)
	return netip.AddrPortFrom(netip.AddrFrom4(b), 4791)
}

// A server is a program that handles one request at a time, each for a while.
type server struct {
	h     *host
	todo  []*Conn
	busy  bool
	taken int
}

const acceptTime = 130 * time.Microsecond

func (s *server) hear(e seen) {
	switch e.Kind {
	case EventReqReceived:
		if s.todo = append(s.todo, e.Conn); !s.busy {
			s.busy = true
			s.h.w.later(s.h.w.now+acceptTime, s.work)
		}
	case EventRejReceived, EventRepTimeout:
		e.Conn.Destroy(s.h.w.now)
	}
	s.h.events = s.h.events[:0] // saves memory: a flood causes many events
}

func (s *server) work() {
	p := accepting
	p.QPN = uint32(s.taken)
	if err := s.todo[0].Accept(s.h.w.now, &p); err != nil {
		s.todo[0].Destroy(s.h.w.now)
	}
	s.taken++
	if s.todo = s.todo[1:]; len(s.todo) == 0 {
		s.busy = false
		return
	}
	s.h.w.later(s.h.w.now+acceptTime, s.work)
}

// flooded makes a host with a listener whose program is slow, and a flood to it.
func flooded(t *testing.T) (*flood, *server) {
	w := newWorld(t, 5)
	b := w.host("b", "192.0.2.2:4791", 0xb)
	l, err := b.m.Listen(0, service)
	w.must(err)
	l.Backlog = 1024
	s := &server{h: b}
	b.user = s.hear
	f := &flood{w: w, to: b, lasts: 2 * time.Second, rand: rand.New(rand.NewPCG(1, 2))}
	if testing.Short() {
		f.lasts /= 4
	}
	f.source = f.dead
	return f, s
}

// clients lets n existing hosts connect during the flood, at random times and with Linux's
// timeouts. It counts those that are connected within a second.
func (f *flood) clients(n int) (inTime int) {
	for i := range n {
		f.connects(f.client(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), uint64(0x1000+i)), &inTime)
	}
	f.start()
	f.w.run(f.lasts + time.Second)
	return inTime
}

// client makes a host that confirms the connections it requests.
func (f *flood) client(addr netip.Addr, guid uint64) *host {
	h := f.w.host("client", netip.AddrPortFrom(addr, 4791).String(), guid)
	h.user = func(e seen) {
		if e.Kind == EventRepReceived {
			f.w.must(e.Conn.Ready(f.w.now, nil))
		}
	}
	return h
}

// connects lets a host connect at a random time and counts it if it is in time.
func (f *flood) connects(h *host, inTime *int) {
	w := f.w
	w.later(f.lasts/10+time.Duration(w.rand.Int64N(int64(f.lasts*4/10))), func() {
		p := h.quick(f.to)
		p.QPN = w.rand.Uint32() >> 8
		p.RemoteResponseTimeout, p.LocalResponseTimeout, p.PacketLifeTime, p.Retries = 0, 0, 0, 0
		c, err := h.m.Connect(w.now, p)
		w.must(err)
		w.later(w.now+time.Second, func() {
			if c.State() == Established {
				*inTime++
			}
		})
	})
}

// The flood sends 50,000 requests per second from addresses that no host has.
func TestFloodOfForgedRequestsLeavesRoomForOthers(t *testing.T) {
	const n = 100
	f, s := flooded(t)
	got := f.clients(n)
	t.Logf("%d forged requests; %d of %d clients connected within a second; the program took %d requests; at most %+v", f.sent, got, n, s.taken, f.peak)
	if got < n*99/100 {
		t.Errorf("%d of %d clients connected within a second", got, n)
	}
	if s.taken > n+2*trustBurst || f.peak.Conns > n+2*trustBurst {
		t.Errorf("the program took %d requests, the manager held %+v", s.taken, f.peak)
	}
	if f.to.refusals(reason.CMChallenge) == 0 || f.to.refusals(reason.CMUnproven) == 0 {
		t.Error("no sender was challenged")
	}
	for _, h := range f.w.hosts[1:] {
		for _, e := range h.events {
			e.Conn.Destroy(f.w.now)
		}
	}
	f.to.user = func(e seen) {
		if e.Kind == EventDreqReceived {
			e.Conn.Destroy(f.w.now)
		}
	}
	f.w.settle(2 * time.Minute)
	if f.to.m.screening.ring != nil || f.to.m.screening.asked != nil || len(f.to.m.half.sources)+len(f.to.m.screening.turns)+len(f.to.m.screening.queues) != 0 {
		t.Errorf("the flood is over, and takes memory still")
	}
	if c := f.to.m.Count(); c.Waiting != 0 || len(f.to.m.remotes) != 0 {
		t.Errorf("the manager holds %+v, %d requests", c, len(f.to.m.remotes))
	}
}

// linux makes a host with the behaviour of Linux's communication manager: it answers every DREQ of
// an unknown connection and drops such REPs silently.
func (w *world) linux(addr string) *host {
	h := w.host("linux", addr, 0)
	h.foreign = func(from netip.AddrPort, b []byte) {
		var hd mad.Header
		d, _ := mad.ParseHeader(b, &hd)
		if hd.Attribute != mad.AttrDREQ {
			return
		}
		var q mad.DREQ
		q.Parse(d)
		hd = mad.NewHeader(mad.AttrDREP, hd.TID)
		out := Datagram{Route: back(netip.AddrPortFrom(from.Addr(), 4791), 0)}
		hd.Put(&out.MAD)
		(&mad.DREP{LocalID: q.RemoteID, RemoteID: q.LocalID}).Put(&out.MAD)
		h.transmit(&out)
	}
	return h
}

// Eight hosts answer the challenges although they sent no request. Each gets only its share.
func TestFloodInTheNameOfLiveHostsLeavesRoomForOthers(t *testing.T) {
	const n = 100
	f, s := flooded(t)
	var live []netip.AddrPort
	for i := range 8 {
		live = append(live, f.w.linux(netip.AddrPortFrom(netip.AddrFrom4([4]byte{172, 16, 0, byte(i)}), 4791).String()).addr)
	}
	f.source = func() netip.AddrPort { return live[f.rand.IntN(len(live))] }
	got := f.clients(n)
	t.Logf("%d forged requests; %d of %d clients connected within a second; the program took %d requests; at most %+v", f.sent, got, n, s.taken, f.peak)
	if got < n*99/100 {
		t.Errorf("%d of %d clients connected within a second", got, n)
	}
	if peak := maxHalfOpen + 2*n; f.peak.Conns > peak || len(f.to.m.screening.turns) > len(live)+n {
		t.Errorf("the manager held %+v, expected at most %d", f.peak, peak)
	}
	for s, n := range f.to.m.half.sources {
		if n > maxShare {
			t.Errorf("%v has %d half-open connections", s, n)
		}
	}
}

// The forged requests have the address of the host that wants to connect. That host answers the
// challenges of its own requests first, so few forged requests pass.
func TestFloodInAClientsOwnNameDoesNotLockItOut(t *testing.T) {
	const n = 100
	inTime := 0
	f, _ := flooded(t)
	h := f.client(netip.MustParseAddr("10.0.0.1"), 0x1000)
	for range n {
		f.connects(h, &inTime)
	}
	f.source = func() netip.AddrPort { return h.addr }
	f.start()
	f.w.run(f.lasts + time.Second)
	t.Logf("%d of %d clients connected within a second", inTime, n)
	if inTime < n*9/10 {
		t.Errorf("%d of %d clients connected within a second", inTime, n)
	}
}

// This is the same test for SIDR_REQs.
func TestFloodOfLookupsLeavesRoomForOthers(t *testing.T) {
	f, _ := flooded(t)
	f.lookup = true
	w, b, heard := f.w, f.to, 0
	b.user = func(e seen) {
		if e.Kind == EventSidrReqReceived {
			heard++
			w.must(e.Inquiry.Reply(w.now, &SIDRReply{QPN: 7}))
		}
	}
	const n = 50
	answered := 0
	for i := range n {
		h := w.host("client", netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 4791).String(), 1)
		h.user = func(e seen) {
			if e.Kind == EventSidrRepReceived {
				answered++
			}
		}
		w.later(time.Duration(i)*f.lasts/2/n, func() {
			_, err := h.m.Resolve(w.now, &SIDRParams{Service: service, Path: qp.Path{Dst: b.addr}})
			w.must(err)
		})
	}
	f.start()
	w.run(f.lasts + time.Second)
	if answered != n || heard > n+2*trustBurst {
		t.Errorf("%d of %d lookups were answered; the program heard of %d, %d were forged", answered, n, heard, f.sent)
	}
}

// A REJ for a timeout needs no secret ID and frees a place that the next forged request could take.
func TestForgedRequestAndItsRejectionSeldomReachTheProgram(t *testing.T) {
	f, s := flooded(t)
	for range 5000 {
		src := f.dead()
		q := mad.REQ{LocalID: f.rand.Uint32(), Service: service, GUID: 5, QPN: f.rand.Uint32() >> 8, PKey: 0xffff, MTU: 3,
			Primary: mad.Path{LocalGID: mad.GIDFrom(src.Addr()), RemoteGID: f.to.m.gid}}
		j := mad.REJ{LocalID: q.LocalID, Reason: mad.RejectTimeout, InfoLen: 8}
		j.Info[7] = 5
		f.to.m.Receive(f.w.now, back(src, 0), craft(mad.AttrREQ, &q))
		f.w.pass(200 * time.Microsecond)
		f.to.m.Receive(f.w.now, back(src, 0), craft(mad.AttrREJ, &j))
		f.w.work()
	}
	if s.taken > trustBurst+2 {
		t.Errorf("the program took %d requests", s.taken)
	}
}
