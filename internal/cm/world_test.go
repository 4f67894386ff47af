package cm

import (
	"bytes"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

const service mad.ServiceID = 0x0000000001061c06 // port 7174 of TCP

// A world is a set of communication managers with their users on virtual time.
type world struct {
	t     testing.TB
	now   time.Duration
	rand  *rand.Rand
	hosts []*host
	air   flights // datagrams, and later actions of users
	order int
	out   Datagram
	// lose and copies decide what happens to each datagram.
	lose   func(from *host, d *mad.Header) bool
	copies func() int
	delay  func() time.Duration
}

// A host is a device with its communication manager and a user.
type host struct {
	w       *world
	name    string
	addr    netip.AddrPort
	source  uint16 // source port of its packets
	m       *Manager
	dead    bool
	todo    []seen // events that the user has not read
	events  []seen
	refused []reason.Detail
	sent    map[mad.AttributeID]int
	last    map[mad.AttributeID][mad.Len]byte
	user    func(seen)                          // reacts to an event, outside the handler
	foreign func(from netip.AddrPort, d []byte) // if set, receives datagrams instead of m
}

// back returns the route back to the sender of a packet over IP.
func back(src netip.AddrPort, tos uint8) Route {
	return Route{Path: qp.Path{Dst: src, TrafficClass: tos}}
}

// seen is a copy of an event.
type seen struct {
	Event
	at time.Duration
}

// A flight is a datagram in flight.
type flight struct {
	at    time.Duration
	order int
	from  netip.AddrPort
	to    netip.AddrPort
	route Route
	mad   [mad.Len]byte
	do    func() // set for an action instead of a datagram
}

type flights []*flight

func (f flights) Len() int { return len(f) }
func (f flights) Less(i, j int) bool {
	return f[i].at < f[j].at || f[i].at == f[j].at && f[i].order < f[j].order
}
func (f flights) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flights) Push(x any)   { *f = append(*f, x.(*flight)) }
func (f *flights) Pop() any {
	old := *f
	e := old[len(old)-1]
	*f = old[:len(old)-1]
	return e
}

func newWorld(t testing.TB, seed uint64) *world {
	return &world{
		t: t, rand: rand.New(rand.NewPCG(seed, 77)),
		lose:   func(*host, *mad.Header) bool { return false },
		copies: func() int { return 1 },
		delay:  func() time.Duration { return time.Millisecond },
	}
}

// host adds a device.
func (w *world) host(name, addr string, guid uint64) *host {
	h := &host{w: w, name: name, addr: netip.MustParseAddrPort(addr), source: uint16(0xc000 + len(w.hosts)),
		sent: map[mad.AttributeID]int{}, last: map[mad.AttributeID][mad.Len]byte{}, user: func(seen) {}}
	h.restart(guid)
	w.hosts = append(w.hosts, h)
	return h
}

// restart creates the device again without its earlier state.
func (h *host) restart(guid uint64) {
	h.m = New(Config{GUID: guid, Local: h.addr, MTU: 1024, AckDelay: 15, Random: h.w.rand.Uint32,
		Refuse: func(d reason.Detail) { h.refused = append(h.refused, d) }})
	h.m.SetHandler(func(e *Event) { h.todo = append(h.todo, seen{clone(e), h.w.now}) })
}

// clone copies the memory that an event lends to its handler.
func clone(e *Event) Event {
	c := *e
	if e.REQ != nil {
		v := *e.REQ
		c.REQ = &v
	}
	if e.REP != nil {
		v := *e.REP
		c.REP = &v
	}
	if e.SIDRReq != nil {
		v := *e.SIDRReq
		c.SIDRReq = &v
	}
	if e.SIDRRep != nil {
		v := *e.SIDRRep
		c.SIDRRep = &v
	}
	c.Private, c.ARI = bytes.Clone(e.Private), bytes.Clone(e.ARI)
	return c
}

// work lets users react and sends the datagrams of the managers.
func (w *world) work() {
	for again := true; again; {
		again = false
		for _, h := range w.hosts {
			for len(h.todo) > 0 {
				e := h.todo[0]
				h.todo = h.todo[1:]
				h.events = append(h.events, e)
				h.user(e)
				again = true
			}
			for h.m.Next(w.now, &w.out) {
				h.transmit(&w.out)
				again = true
			}
		}
	}
}

func (h *host) transmit(d *Datagram) {
	w := h.w
	var hd mad.Header
	if _, refused := mad.ParseHeader(d.MAD[:], &hd); refused.Reason != reason.None {
		w.t.Fatalf("%s sends a datagram that is refused: %v", h.name, refused)
	}
	if h.dead {
		return
	}
	h.sent[hd.Attribute]++
	h.last[hd.Attribute] = d.MAD
	lost := w.lose(h, &hd)
	w.tell("%v %s sends %v %x, lost %v", w.now, h.name, hd.Attribute, d.MAD[mad.HeaderLen:mad.HeaderLen+12], lost)
	if lost {
		return
	}
	if !slices.ContainsFunc(w.hosts, func(to *host) bool { return to.addr == d.Path.Dst }) {
		return
	}
	for range w.copies() {
		w.order++
		heap.Push(&w.air, &flight{w.now + w.delay(), w.order, netip.AddrPortFrom(h.addr.Addr(), h.source), d.Path.Dst, d.Route, d.MAD, nil})
	}
}

// run advances the time to an instant.
func (w *world) run(until time.Duration) {
	w.work()
	for {
		at := until
		if len(w.air) > 0 {
			at = min(at, w.air[0].at)
		}
		for _, h := range w.hosts {
			if !h.dead {
				at = min(at, h.m.Deadline())
			}
		}
		if at >= until {
			w.now = until
			return
		}
		w.now = max(w.now, at)
		for len(w.air) > 0 && w.air[0].at <= w.now {
			w.arrive(heap.Pop(&w.air).(*flight))
			w.work()
		}
		for _, h := range w.hosts {
			if !h.dead {
				h.m.Expire(w.now)
			}
		}
		w.work()
	}
}

// later runs an action at a given time.
func (w *world) later(at time.Duration, do func()) {
	w.order++
	heap.Push(&w.air, &flight{at: at, order: w.order, do: do})
}

func (w *world) arrive(f *flight) {
	if f.do != nil {
		f.do()
		return
	}
	for _, h := range w.hosts {
		switch {
		case h.addr != f.to || h.dead:
		case h.foreign != nil:
			h.foreign(f.from, f.mad[:])
		default:
			r := back(f.from, f.route.Path.TrafficClass)
			r.Path.ServiceLevel, r.PKeyIndex = f.route.Path.ServiceLevel, f.route.PKeyIndex
			h.m.Receive(w.now, r, f.mad[:])
		}
	}
}

// pass advances the time by a duration.
func (w *world) pass(d time.Duration) { w.run(w.now + d) }

// settle runs until no datagram is in flight and no manager waits. It fails after limit.
func (w *world) settle(limit time.Duration) {
	w.t.Helper()
	end := w.now + limit
	for {
		w.work()
		next := machine.Never
		if len(w.air) > 0 {
			next = w.air[0].at
		}
		for _, h := range w.hosts {
			if !h.dead {
				next = min(next, h.m.Deadline())
			}
		}
		if next == machine.Never {
			return
		}
		if next > end {
			w.t.Fatalf("at %v somebody still waits, for %v", w.now, next)
		}
		w.run(next + 1)
	}
}

// kinds formats the events so far.
func (h *host) kinds() string {
	var b []string
	for _, e := range h.events {
		b = append(b, e.Kind.String())
	}
	return strings.Join(b, " ")
}

// one returns the only event, which must be of the given kind.
func (h *host) one(k Kind) seen {
	h.w.t.Helper()
	var found []seen
	for _, e := range h.events {
		if e.Kind == k {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		h.w.t.Fatalf("%s heard %d of %v, expected 1 (%s)", h.name, len(found), k, h.kinds())
	}
	return found[0]
}

// refusals counts refusals by reason.
func (h *host) refusals(r reason.Reason) (n int) {
	for _, d := range h.refused {
		if d.Reason == r {
			n++
		}
	}
	return n
}

// quick returns parameters with short times: 4 ms for an answer, 3 retries and 16 ms of packet
// life.
func (h *host) quick(to *host) *ConnectParams {
	return &ConnectParams{Service: service, Path: qp.Path{Dst: to.addr, TrafficClass: 0x20, FlowLabel: 0x12345}, QPN: 0x11,
		ResponderResources: 4, InitiatorDepth: 3, RetryCount: 6, RNRRetryCount: 5, PacketLifeTime: 12,
		RemoteResponseTimeout: 10, LocalResponseTimeout: 10, Retries: 3, Private: []byte("hello")}
}

// pair makes two hosts, of which the second listens.
func pair(t testing.TB) (w *world, a, b *host, l *Listener) {
	t.Helper()
	w = newWorld(t, 1)
	a, b = w.host("a", "192.0.2.1:4791", 0xa), w.host("b", "192.0.2.2:4791", 0xb)
	l, err := b.m.Listen(w.now, service)
	if err != nil {
		t.Fatal(err)
	}
	return w, a, b, l
}

func (h *host) connect(to *host) *Conn {
	h.w.t.Helper()
	c, err := h.m.Connect(h.w.now, h.quick(to))
	if err != nil {
		h.w.t.Fatal(err)
	}
	return c
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// state fails unless the connection is in the given state.
func (w *world) state(c *Conn, s State) {
	w.t.Helper()
	if c.State() != s {
		w.t.Fatalf("at %v the connection is in state %v, expected %v", w.now, c.State(), s)
	}
}

var accepting = AcceptParams{QPN: 0x22, ResponderResources: 3, InitiatorDepth: 2, RNRRetryCount: 4, Private: []byte("welcome")}

// requested returns a pair whose request has been received.
func requested(t testing.TB) (w *world, a, b *host, ca, cb *Conn) {
	t.Helper()
	w, a, b, _ = pair(t)
	ca = a.connect(b)
	w.pass(2 * time.Millisecond)
	cb = b.one(EventReqReceived).Conn
	return w, a, b, ca, cb
}

// replied returns a pair whose reply has been received.
func replied(t testing.TB) (w *world, a, b *host, ca, cb *Conn) {
	t.Helper()
	w, a, b, ca, cb = requested(t)
	w.must(cb.Accept(w.now, &accepting))
	w.pass(2 * time.Millisecond)
	return w, a, b, ca, cb
}

// established returns a connected pair.
func established(t testing.TB) (w *world, a, b *host, ca, cb *Conn) {
	t.Helper()
	w, a, b, ca, cb = replied(t)
	w.must(ca.Ready(w.now, nil))
	w.pass(2 * time.Millisecond)
	w.state(ca, Established)
	w.state(cb, Established)
	return w, a, b, ca, cb
}

// empty fails if a manager holds anything but its listeners.
func (h *host) empty() {
	h.w.t.Helper()
	n := h.m.Count()
	n.Listeners = 0
	if n != (Count{}) || len(h.m.conns)+len(h.m.remotes)+len(h.m.qpns)+len(h.m.crossing)+len(h.m.lookups)+len(h.m.inquiries) != 0 {
		h.w.t.Errorf("%s still holds %+v, and tables of %d, %d, %d, %d, %d, %d", h.name, n, len(h.m.conns), len(h.m.remotes),
			len(h.m.qpns), len(h.m.crossing), len(h.m.lookups), len(h.m.inquiries))
	}
	for _, l := range h.m.listeners {
		if l.waiting != 0 {
			h.w.t.Errorf("%s: %d requests still wait", h.name, l.waiting)
		}
	}
}

// once loses the first n datagrams with an attribute.
func (w *world) loseFirst(a mad.AttributeID, n int) {
	w.lose = func(_ *host, h *mad.Header) bool {
		if h.Attribute == a && n > 0 {
			n--
			return true
		}
		return false
	}
}

func (e seen) String() string { return fmt.Sprintf("%v at %v", e.Kind, e.at) }
