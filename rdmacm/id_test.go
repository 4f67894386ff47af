package rdmacm

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"testing"

	"softrdma/internal/wire/mad"
	"softrdma/verbs"
)

func newID(t testing.TB, ch *EventChannel, ps PortSpace) *ID {
	t.Helper()
	id, err := ch.NewID(ps)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// expect takes the next event of a channel, which must be of a type.
func expect(t testing.TB, ch *EventChannel, want EventType) Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	e, err := ch.Next(ctx)
	if err != nil {
		t.Errorf("expected %v, found %v", want, err)
	} else if e.Type != want {
		t.Errorf("expected %v, found %v", want, e)
	}
	return e
}

// toRoute takes an id to the state in which it can connect.
func toRoute(t testing.TB, ch *EventChannel, id *ID, to interface{ Addr() netip.AddrPort }) {
	t.Helper()
	if err := id.ResolveAddr(addr(clientIP, 0), to.Addr()); err != nil {
		t.Fatal(err)
	}
	expect(t, ch, EventAddrResolved)
	if err := id.ResolveRoute(); err != nil {
		t.Fatal(err)
	}
	expect(t, ch, EventRouteResolved)
}

// pair is two channels, one with a listener's id and one with a client's.
type pair struct {
	t                *testing.T
	server, client   *EventChannel
	listener, dialer *ID
}

type at netip.AddrPort

func (a at) Addr() netip.AddrPort { return netip.AddrPort(a) }

func newPair(t *testing.T, ps PortSpace) *pair {
	t.Helper()
	leavesNothing(t)
	p := &pair{t: t, server: NewEventChannel(), client: NewEventChannel()}
	p.listener, p.dialer = newID(t, p.server, ps), newID(t, p.client, ps)
	t.Cleanup(func() {
		if err := errors.Join(p.listener.Destroy(), p.dialer.Destroy(), p.server.Close(), p.client.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := p.listener.Bind(addr(serverIP, 0)); err != nil {
		t.Fatal(err)
	}
	if err := p.listener.Listen(4); err != nil {
		t.Fatal(err)
	}
	return p
}

// destroy destroys an id when the test ends.
func (p *pair) destroy(id *ID) *ID {
	p.t.Helper()
	p.t.Cleanup(func() {
		if err := id.Destroy(); err != nil {
			p.t.Error(err)
		}
	})
	return id
}

func (p *pair) ok(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// request takes the dialer through its steps to a request at the listener.
func (p *pair) request(param *ConnParam, withQP bool) *ID {
	p.t.Helper()
	toRoute(p.t, p.client, p.dialer, at(p.listener.LocalAddr()))
	if withQP {
		_, err := p.dialer.CreateQP(nil, verbs.QPConfig{})
		p.ok(err)
	}
	p.ok(p.dialer.Connect(param))
	e := expect(p.t, p.server, EventConnectRequest)
	if e.Listen != p.listener || e.ID == nil {
		p.t.Fatalf("found %+v", e)
	}
	return p.destroy(e.ID)
}

func TestIDConnectAcceptDisconnectEvents(t *testing.T) {
	p := newPair(t, PortSpaceTCP)
	p.listener.Context = "the listener's"
	id := p.request(&ConnParam{PrivateData: []byte("q")}, true)
	if id.Context != "the listener's" || id.PortSpace() != PortSpaceTCP || id.RemoteAddr() != p.dialer.LocalAddr() {
		t.Errorf("found context %v, %v, peer %v", id.Context, id.PortSpace(), id.RemoteAddr())
	}
	q, err := id.CreateQP(nil, verbs.QPConfig{})
	p.ok(err)
	if q.State() != verbs.Init {
		t.Errorf("expected INIT, found %v", q.State())
	}
	p.ok(id.Accept(&ConnParam{PrivateData: []byte("a")}))
	e := expect(t, p.client, EventEstablished)
	if e.ID != p.dialer || !bytes.HasPrefix(e.Conn.PrivateData, []byte("a\x00")) || e.Conn.QPN != q.Number() || e.Status != 0 || e.Err != nil {
		t.Errorf("found %+v", e)
	}
	expect(t, p.server, EventEstablished)
	if s, c := q.State(), p.dialer.QP().State(); s != verbs.RTS || c != verbs.RTS {
		t.Errorf("expected RTS, found %v and %v", s, c)
	}
	p.ok(p.dialer.Disconnect())
	expect(t, p.server, EventDisconnected)
	if q.State() != verbs.RTS {
		t.Errorf("the program has not disconnected: expected RTS, found %v", q.State())
	}
	p.ok(id.Disconnect())
	expect(t, p.client, EventDisconnected)
	if s, c := q.State(), p.dialer.QP().State(); s != verbs.Err || c != verbs.Err {
		t.Errorf("expected ERR, found %v and %v", s, c)
	}
}

func TestIDRejectEvent(t *testing.T) {
	p := newPair(t, PortSpaceTCP)
	id := p.request(nil, true)
	p.ok(id.Reject([]byte("no")))
	e := expect(t, p.client, EventRejected)
	if e.Status != int(mad.RejectConsumer) || !bytes.HasPrefix(e.Conn.PrivateData, []byte("no\x00")) {
		t.Errorf("found %+v", e)
	}
	if r := isReject(t, e.Err); r.Code != uint16(mad.RejectConsumer) || r.Addr != p.listener.LocalAddr() {
		t.Errorf("found %+v", r)
	}
	if s := p.dialer.QP().State(); s != verbs.Err {
		t.Errorf("expected ERR, found %v", s)
	}
	wants(t, e.Err, e.String()[len("RDMA_CM_EVENT_REJECTED: "):])
}

// The accepting side rejects before the program has taken the event of the response.
// The program gets the rejection only.
func TestIDRejectedAfterResponse(t *testing.T) {
	p := newPair(t, PortSpaceTCP)
	id := p.request(nil, true)
	_, err := id.CreateQP(nil, verbs.QPConfig{})
	p.ok(err)
	p.ok(id.Accept(nil))
	eventually(t, "the response", func() bool {
		_, err := p.dialer.RTRAttr()
		return err == nil
	})
	p.ok(id.Reject([]byte("after all not")))
	eventually(t, "the connection's end", func() bool {
		_, err := p.dialer.RTRAttr()
		return err != nil
	})
	e := expect(t, p.client, EventRejected)
	if r := isReject(t, e.Err); r.Code != uint16(mad.RejectConsumer) || !bytes.HasPrefix(r.PrivateData, []byte("after all not\x00")) {
		t.Errorf("found %+v", r)
	}
	if s := p.dialer.QP().State(); s != verbs.Err {
		t.Errorf("expected ERR, found %v", s)
	}
}

// The peer rejects after it has accepted, before the waiting call returns. The call
// returns a connection that has ended, with the reason.
func TestConnRejectedBeforeItIsTakenHasEnded(t *testing.T) {
	leavesNothing(t)
	d := client()
	ep, err := d.Resolve(within(t), addr(serverIP, 7).String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ep.CreateQP(nil, d.QP); err != nil {
		t.Fatal(err)
	}
	ep.end.deliver(&Event{Type: EventEstablished})
	rejected := Event{Type: EventRejected, Err: &RejectedError{Code: 28}}
	if !ep.end.id.progress(&rejected) || ep.end.id.QP().State() == verbs.Err {
		t.Error("the queue pair went to ERR too early")
	}
	ep.end.deliver(&rejected)
	if e, err := ep.end.wait(within(t), "the reply of"); err != nil || e.Type != EventEstablished {
		t.Fatalf("found %v, %v", e, err)
	}
	c := &Conn{end: ep.end}
	defer closed(t, c)
	select {
	case <-c.Done():
	default:
		t.Fatal("the connection is still established")
	}
	if isReject(t, c.Err()).Code != 28 || c.QP().State() != verbs.Err {
		t.Errorf("found %v, queue pair in %v", c.Err(), c.QP().State())
	}
}

// Both sides end the connection at the same time, and this side's message is lost: the peer is
// answered nevertheless, before the connection is closed.
func TestConnAnswersPeerThatLeavesAsWell(t *testing.T) {
	p := newPair(t, PortSpaceTCP)
	l := listen(t, ListenConfig{})
	server := accepted(t, l)
	toRoute(t, p.client, p.dialer, l)
	_, err := p.dialer.CreateQP(nil, verbs.QPConfig{})
	p.ok(err)
	p.ok(p.dialer.Connect(nil))
	expect(t, p.client, EventEstablished)
	s := server()
	defer closed(t, s)
	s.end.mu.Lock()
	s.end.left = true // its own message is lost
	s.end.mu.Unlock()
	s.end.finish(ErrDisconnected, func() {})
	p.ok(p.dialer.Disconnect())
	expect(t, p.client, EventDisconnected)
}

func TestIDWithoutQPEstablishes(t *testing.T) {
	p := newPair(t, PortSpaceTCP)
	id := p.request(&ConnParam{QPN: 0x123, ResponderResources: 2, InitiatorDepth: 3, SRQ: true}, false)
	if a := id.asked; a.QPN != 0x123 || a.ResponderResources != 3 || a.InitiatorDepth != 2 || !a.SRQ {
		t.Errorf("the request asks %+v", a)
	}
	p.ok(id.Accept(&ConnParam{QPN: 0x456}))
	e := expect(t, p.client, EventConnectResponse)
	if e.Conn.QPN != 0x456 {
		t.Errorf("found %+v", e)
	}
	// The program moves its queue pair itself.
	for _, end := range []struct {
		id   *ID
		peer uint32
	}{{p.dialer, 0x456}, {id, 0x123}} {
		if _, err := end.id.InitAttr(); err != nil {
			t.Error(err)
		}
		rtr, err := end.id.RTRAttr()
		if err != nil || rtr.DestQPN != end.peer || rtr.AV.DGID.Addr() != end.id.RemoteAddr().Addr() || rtr.PathMTU == 0 {
			t.Errorf("found %+v, %v", rtr, err)
		}
		if rts, err := end.id.RTSAttr(); err != nil || rts.RetryCnt != 7 || rts.Timeout == 0 {
			t.Errorf("found %+v, %v", rts, err)
		}
	}
	p.ok(p.dialer.Establish())
	expect(t, p.server, EventEstablished)
}

func TestIDNotifyEstablishesWithoutConfirmation(t *testing.T) {
	p := newPair(t, PortSpaceTCP)
	id := p.request(&ConnParam{QPN: 0x123}, false)
	p.ok(id.Accept(&ConnParam{QPN: 0x456}))
	p.ok(id.Notify(verbs.EventCommEst))
	expect(t, p.server, EventEstablished)
	if err := id.Notify(verbs.EventQPFatal); err == nil {
		t.Error("another event was taken")
	}
}

func TestIDEstablishWithQPRefused(t *testing.T) {
	p := newPair(t, PortSpaceTCP)
	p.request(nil, true)
	if err := p.dialer.Establish(); err == nil {
		t.Error("an id with a queue pair was established by hand")
	}
}

func TestIDMigrateTakesEventsAlong(t *testing.T) {
	p := newPair(t, PortSpaceTCP)
	other := NewEventChannel()
	defer other.Close()
	id := p.request(nil, true)
	_, err := id.CreateQP(nil, verbs.QPConfig{})
	p.ok(err)
	p.ok(id.Accept(nil))
	expect(t, p.client, EventEstablished)
	p.ok(p.dialer.Disconnect())
	// Established and disconnected wait on the server's channel.
	p.ok(id.Migrate(other))
	if id.Channel() != other {
		t.Error("the id reports to its old channel")
	}
	expect(t, other, EventEstablished)
	expect(t, other, EventDisconnected)
	if err := other.Close(); !errors.Is(err, ErrBusy) {
		t.Errorf("expected %v, found %v", ErrBusy, err)
	}
	p.ok(id.Destroy())
	p.ok(other.Close())
	if err := p.dialer.Migrate(other); !errors.Is(err, ErrClosed) {
		t.Errorf("to a closed channel: expected %v, found %v", ErrClosed, err)
	}
}
