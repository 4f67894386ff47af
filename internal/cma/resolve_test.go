package cma_test

import (
	"errors"
	"net/netip"
	"testing"

	"softrdma/internal/cma"
	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

func TestResolveAddrFindsSourceAndDevice(t *testing.T) {
	w := newWorld(t)
	id := w.client.id(cmid.PortSpaceTCP)
	must(t, id.ResolveAddr(netip.AddrPort{}, at(server6)))
	w.client.next(cmid.EventAddrResolved)
	if id.Device() != w.client.devs[1].Dev || id.Local().Addr() != netip.MustParseAddr(client6) || id.Local().Port() < 32768 ||
		id.Remote() != at(server6) {
		t.Errorf("%v to %v", id.Local(), id.Remote())
	}
	bound := w.server.id(cmid.PortSpaceTCP)
	must(t, bound.ResolveAddr(at(second4), at(client4)))
	w.server.next(cmid.EventAddrResolved)
	if bound.Local() != at(second4) || bound.Device() != w.server.devs[1].Dev {
		t.Errorf("bound to %v", bound.Local())
	}
	wild := w.server.id(cmid.PortSpaceTCP)
	must(t, wild.Bind(netip.MustParseAddrPort("0.0.0.0:77")))
	must(t, wild.ResolveAddr(netip.AddrPort{}, at(client4)))
	w.server.next(cmid.EventAddrResolved)
	if wild.Local() != netip.MustParseAddrPort(server4+":77") {
		t.Errorf("wildcard resolved to %v", wild.Local())
	}
	w.end()
}

func TestResolveAddrFailures(t *testing.T) {
	w := newWorld(t)
	w.client.fail = errors.New("no network today")
	id := w.client.id(cmid.PortSpaceTCP)
	must(t, id.ResolveAddr(netip.AddrPort{}, at(server4)))
	e := w.client.next(cmid.EventAddrError)
	if e.Status != cmid.StatusNoDevice || !errors.Is(e.Err, w.client.fail) || e.Detail.Reason != reason.AddressUnreachable {
		t.Errorf("event %+v, %v", e, e.Err)
	}
	if id.State() != cmid.AddrBound || id.Device() != nil {
		t.Errorf("state %v", id.State())
	}
	w.client.fail = nil
	must(t, id.ResolveAddr(netip.AddrPort{}, at(server4))) // a second try succeeds
	w.client.next(cmid.EventAddrResolved)

	w.client.fail = errors.New("no route from a device that the program chose")
	bound := w.client.id(cmid.PortSpaceTCP)
	must(t, bound.Bind(at(client4)))
	must(t, bound.ResolveAddr(netip.AddrPort{}, at(server4)))
	if e := w.client.next(cmid.EventAddrError); e.Status != cmid.StatusNoDevice || !errors.Is(e.Err, w.client.fail) {
		t.Errorf("bound: event %+v, %v", e, e.Err)
	}
	w.client.fail = nil

	if w.client.id(cmid.PortSpaceTCP).ResolveAddr(netip.AddrPort{}, netip.AddrPort{}) == nil {
		t.Error("resolved nothing")
	}
	six := w.client.id(cmid.PortSpaceTCP)
	if six.ResolveAddr(at(client6), at(server4)) == nil {
		t.Error("resolved across families")
	}
	if err := w.client.id(cmid.PortSpaceTCP).ResolveAddr(at("10.9.9.9"), at(server4)); !errors.Is(err, errNoSuchDevice) {
		t.Errorf("source without device: %v", err)
	}
	w.end()
}

func TestResolveRouteTakesOptions(t *testing.T) {
	w := newWorld(t)
	id := w.client.id(cmid.PortSpaceTCP)
	must(t, id.SetTOS(0x48))
	must(t, id.SetUDPPorts(0, 4999))
	must(t, id.SetAckTimeout(10))
	must(t, id.SetMinRNRTimer(9))
	w.client.resolve(id, server4)
	r := id.Route()
	label := (uint32(id.Local().Port())*31 + 7471) & 0xfffff
	want := qp.Path{Dst: netip.MustParseAddrPort(server4 + ":4999"), TrafficClass: 0x48, HopLimit: 64, FlowLabel: label}
	if r.Path != want || r.MTU != 4096 || r.PacketLifeTime != 9 {
		t.Errorf("route %+v", r)
	}
	for _, f := range []func(uint8) error{id.SetAckTimeout, id.SetMinRNRTimer} {
		if f(32) == nil {
			t.Error("32 was taken")
		}
		if u := w.client.id(cmid.PortSpaceUDP); u.SetAckTimeout(1) == nil || u.SetMinRNRTimer(1) == nil {
			t.Error("a UD id took it")
		}
	}
	if id.SetAFOnly(true) == nil {
		t.Error("family restricted after resolution")
	}
	w.end()
}

func TestOptionsReachTheQueuePair(t *testing.T) {
	w := newWorld(t)
	w.server.listen(cmid.PortSpaceTCP, server4, 0)
	client, server := w.established()
	for _, id := range []*cma.ID{client, server} {
		must(t, id.SetAckTimeout(11))
		must(t, id.SetMinRNRTimer(7))
		_, rtr, err := id.InitQPAttr(qp.RTR)
		must(t, err)
		_, rts, err := id.InitQPAttr(qp.RTS)
		must(t, err)
		if rtr.MinRNRTimer != 7 || rts.Timeout != 11 {
			t.Errorf("RNR timer %d, timeout %d", rtr.MinRNRTimer, rts.Timeout)
		}
	}
	w.end()
}

func TestCallsInTheWrongStateNameBothStates(t *testing.T) {
	w := newWorld(t)
	idle, resolved := w.client.id(cmid.PortSpaceTCP), w.client.resolved(cmid.PortSpaceTCP, server4)
	for _, c := range []struct {
		name  string
		err   error
		found cmid.State
	}{
		{"route of an idle id", idle.ResolveRoute(), cmid.Idle},
		{"connect of an idle id", idle.Connect(&cmid.ConnParam{}), cmid.Idle},
		{"accept of an idle id", idle.Accept(nil), cmid.Idle},
		{"reject of an idle id", idle.Reject(nil), cmid.Idle},
		{"disconnect of an idle id", idle.Disconnect(), cmid.Idle},
		{"establish of an idle id", idle.Establish(), cmid.Idle},
		{"second resolution", resolved.ResolveAddr(netip.AddrPort{}, at(server4)), cmid.RouteResolved},
		{"listen of a resolved id", resolved.Listen(0), cmid.RouteResolved},
	} {
		var s *cmid.StateError
		if !errors.As(c.err, &s) || s.Found != c.found || len(s.Expected) == 0 {
			t.Errorf("%s: %v", c.name, c.err)
		}
	}
	if _, _, err := idle.InitQPAttr(qp.Init); err == nil {
		t.Error("an id without device has attributes")
	}
	if _, _, err := resolved.InitQPAttr(qp.RTR); err == nil {
		t.Error("an id without connection has attributes for RTR")
	}
	w.end()
}
