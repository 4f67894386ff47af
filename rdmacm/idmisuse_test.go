package rdmacm

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"softrdma/verbs"
)

func TestIDCallsOutOfOrderRefused(t *testing.T) {
	p := newPair(t, PortSpaceTCP)
	id := p.dialer
	for name, err := range map[string]error{
		"ResolveRoute": id.ResolveRoute(), "Connect": id.Connect(nil), "Accept": id.Accept(nil), "Reject": id.Reject(nil),
		"Disconnect": id.Disconnect(), "Establish": id.Establish(), "Notify": id.Notify(verbs.EventCommEst),
	} {
		if err == nil {
			t.Errorf("%s on a new id was taken", name)
		}
		wants(t, err, "expected")
	}
	if _, err := id.CreateQP(nil, verbs.QPConfig{}); err == nil {
		t.Error("a queue pair was made without a device")
	}
	if err := p.listener.Listen(-1); err == nil {
		t.Error("a negative backlog was taken")
	}
	p.ok(id.Destroy())
	p.ok(id.Destroy())
	if err := id.Bind(addr(clientIP, 0)); !errors.Is(err, ErrClosed) {
		t.Errorf("on a destroyed id: expected %v, found %v", ErrClosed, err)
	}
	if _, err := id.PD(); !errors.Is(err, ErrClosed) {
		t.Errorf("on a destroyed id: expected %v, found %v", ErrClosed, err)
	}
}

func TestIDResolveUnspecifiedRefused(t *testing.T) {
	p := newPair(t, PortSpaceTCP)
	var r *ResolveError
	if err := p.dialer.ResolveAddr(netip.AddrPort{}, netip.AddrPort{}); !errors.As(err, &r) {
		t.Errorf("expected a *ResolveError, found %v", err)
	}
}

func TestIDQPOfOtherDeviceRefused(t *testing.T) {
	p := newPair(t, PortSpaceTCP)
	toRoute(t, p.client, p.dialer, at(p.listener.LocalAddr()))
	pd, err := p.listener.PD()
	p.ok(err)
	_, err = p.dialer.CreateQP(pd, verbs.QPConfig{})
	wants(t, err, clientIP, serverIP)
	_, err = p.dialer.CreateQP(nil, verbs.QPConfig{Type: verbs.UD})
	wants(t, err, "expected RC, found UD")
	if c := p.dialer.Device().Counts(); c.QP != 0 || c.CQ != 0 {
		t.Errorf("refused queue pairs left %+v", c)
	}
}

func TestIDSRQServesConnection(t *testing.T) {
	p := newPair(t, PortSpaceTCP)
	id := p.request(nil, true)
	pd, err := id.PD()
	p.ok(err)
	srq, err := pd.CreateSRQ(verbs.SRQConfig{})
	p.ok(err)
	_, err = id.CreateQP(nil, verbs.QPConfig{SRQ: srq})
	p.ok(err)
	p.ok(id.Accept(nil))
	if e := expect(t, p.client, EventEstablished); !e.Conn.SRQ {
		t.Errorf("the reply does not report the SRQ: %+v", e.Conn)
	}
	p.ok(id.DestroyQP())
	p.ok(srq.Destroy())
}

func TestChannelCloseDestroysUntakenRequests(t *testing.T) {
	leavesNothing(t)
	p := newPair(t, PortSpaceTCP)
	toRoute(t, p.client, p.dialer, at(p.listener.LocalAddr()))
	p.ok(p.dialer.Connect(&ConnParam{QPN: 5}))
	p.ok(p.listener.Destroy())
	p.ok(p.server.Close())
	isReject(t, expect(t, p.client, EventRejected).Err)
	if _, err := p.server.Next(within(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("expected %v, found %v", ErrClosed, err)
	}
	if _, err := p.server.NewID(PortSpaceTCP); !errors.Is(err, ErrClosed) {
		t.Errorf("expected %v, found %v", ErrClosed, err)
	}
}

func TestChannelDestroyedIDsEventsDropped(t *testing.T) {
	p := newPair(t, PortSpaceTCP)
	second := newID(t, p.client, PortSpaceTCP)
	p.ok(p.dialer.ResolveAddr(addr(clientIP, 0), p.listener.LocalAddr()))
	p.ok(second.ResolveAddr(addr(clientIP, 0), p.listener.LocalAddr()))
	p.ok(p.dialer.Destroy())
	if e := expect(t, p.client, EventAddrResolved); e.ID != second {
		t.Errorf("found an event of a destroyed id")
	}
	p.ok(second.Destroy())
}

// The listener is destroyed while a request is on its way to the call that waits for it.
func TestChannelDestroyedListenersRequestRejected(t *testing.T) {
	p := newPair(t, PortSpaceTCP)
	toRoute(t, p.client, p.dialer, at(p.listener.LocalAddr()))
	p.ok(p.dialer.Connect(&ConnParam{QPN: 5}))
	s, c, err := p.server.take(within(t))
	p.ok(err)
	p.ok(p.listener.Destroy())
	if e, ok := p.server.event(s, &c); ok {
		t.Errorf("found %v", e)
	}
	isReject(t, expect(t, p.client, EventRejected).Err)
}

func TestIDUnconnectedServiceOfIB(t *testing.T) {
	leavesNothing(t)
	ch := NewEventChannel()
	defer ch.Close()
	id, err := ch.NewIDForType(PortSpaceIB, verbs.UC)
	if err != nil {
		t.Fatal(err)
	}
	defer id.Destroy()
	if err := id.Bind(addr(clientIP, 0)); err != nil {
		t.Fatal(err)
	}
	q, err := id.CreateQP(nil, verbs.QPConfig{})
	if err != nil || q.Type() != verbs.UC {
		t.Errorf("found %v, %v", q, err)
	}
	if _, err := ch.NewIDForType(PortSpaceTCP, verbs.UD); err == nil {
		t.Error("PortSpaceTCP took UD")
	}
}

func TestIDDeviceClosedEvent(t *testing.T) {
	leavesNothing(t)
	dev, err := verbs.Open(deviceNamed(ip(12)), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ch := NewEventChannel()
	id := newID(t, ch, PortSpaceTCP)
	if err := id.UseDevice(dev); err != nil {
		t.Error(err)
	}
	if err := id.Bind(netip.AddrPortFrom(netip.IPv4Unspecified(), 0)); err != nil {
		t.Error(err)
	}
	if id.Device() != dev {
		t.Errorf("found device %v", id.Device())
	}
	dev.Close()
	expect(t, ch, EventDeviceRemoval)
	if id.Device() != nil {
		t.Errorf("found device %v of an id without", id.Device())
	}
	if err := errors.Join(id.Destroy(), ch.Close()); err != nil {
		t.Error(err)
	}
}

func TestEventTypesNamedAsLibrdmacm(t *testing.T) {
	names := []string{
		"ADDR_RESOLVED", "ADDR_ERROR", "ROUTE_RESOLVED", "ROUTE_ERROR", "CONNECT_REQUEST", "CONNECT_RESPONSE",
		"CONNECT_ERROR", "UNREACHABLE", "REJECTED", "ESTABLISHED", "DISCONNECTED", "DEVICE_REMOVAL", "MULTICAST_JOIN",
		"MULTICAST_ERROR", "ADDR_CHANGE", "TIMEWAIT_EXIT",
	}
	for i, n := range names {
		if s := EventType(i).String(); s != "RDMA_CM_EVENT_"+n {
			t.Errorf("%d: expected RDMA_CM_EVENT_%s, found %s", i, n, s)
		}
	}
	if EventTimewaitExit != 15 || EventEstablished != 9 {
		t.Error("the numbers are not rdma_cm_event_type's")
	}
	if s := (Event{Type: EventConnectError, Err: errors.New("because")}).String(); !strings.HasSuffix(s, "CONNECT_ERROR: because") {
		t.Errorf("found %q", s)
	}
}
