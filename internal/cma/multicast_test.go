package cma_test

import (
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/cma"
	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

func TestMulticastReachesMembers(t *testing.T) {
	for _, c := range []struct{ group, client, server string }{
		{"239.1.2.3", client4, server4},
		{"ff15::77", client6, server6},
	} {
		w := newWorld(t)
		group := netip.MustParseAddr(c.group)
		var sockets [2]*socket
		var joined [2]cma.Event
		for i, x := range []*computer{w.client, w.server} {
			id := x.id(cmid.PortSpaceUDP)
			if i == 0 { // like mckey: resolve the group, then join
				must(t, id.ResolveAddr(at(c.client), netip.AddrPortFrom(group, 0)))
				x.next(cmid.EventAddrResolved)
			} else {
				must(t, id.Bind(at(c.server)))
			}
			sockets[i] = x.socket(id)
			sockets[i].to(t, id, qp.Init, qp.RTR, qp.RTS)
			must(t, id.JoinMulticast(group, i))
			joined[i] = x.next(cmid.EventMulticastJoin)
			u := joined[i].UD
			if joined[i].Context != i || joined[i].Group != group || u.QPN != 0xffffff || u.QKey != 0x01234567 ||
				u.Path.Dst != netip.AddrPortFrom(group, 4791) {
				t.Errorf("joined %+v", joined[i])
			}
			must(t, sockets[i].qp.AttachMulticast(joined[i].Group))
		}
		ah, err := sockets[0].h.PD.CreateAH(joined[0].UD.Path)
		must(t, err)
		must(t, sockets[0].qp.DetachMulticast(group)) // this one only sends
		exchange(t, sockets[0], sockets[1], queue.UD{RemoteQPN: joined[0].UD.QPN, RemoteQKey: joined[0].UD.QKey, AHNum: ah})
		must(t, sockets[0].h.PD.DestroyAH(ah))
		must(t, joined[0].ID.LeaveMulticast(group))
		if joined[0].ID.LeaveMulticast(group) == nil {
			t.Error("left twice")
		}
		sockets[0].destroy(t)
		sockets[1].destroy(t)
		w.end()
	}
}

func TestMGIDIsTheAddressInIPv6(t *testing.T) {
	for group, want := range map[string][16]byte{
		"239.1.2.3": {10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3},
		"ff15::77":  {0: 0xff, 1: 0x15, 15: 0x77},
	} {
		if got := cma.MGID(netip.MustParseAddr(group)); got != want {
			t.Errorf("%s: %x", group, got)
		}
	}
}

func TestJoinMulticastRefusals(t *testing.T) {
	w := newWorld(t)
	group := netip.MustParseAddr("239.1.2.3")
	tcp, udp, wild := w.client.id(cmid.PortSpaceTCP), w.client.id(cmid.PortSpaceUDP), w.client.id(cmid.PortSpaceUDP)
	if udp.JoinMulticast(group, nil) == nil {
		t.Error("an id without address joined")
	}
	must(t, tcp.Bind(at(client4)))
	must(t, udp.Bind(at(client4)))
	must(t, wild.Bind(netip.MustParseAddrPort("0.0.0.0:99")))
	if tcp.JoinMulticast(group, nil) == nil {
		t.Error("a connection joined")
	}
	if wild.JoinMulticast(group, nil) == nil {
		t.Error("an id without device joined")
	}
	for _, a := range []string{"10.0.0.9", "0.0.0.0", "ff15::77"} {
		if udp.JoinMulticast(netip.MustParseAddr(a), nil) == nil {
			t.Errorf("joined %s", a)
		}
	}
	w.end()
}

func TestLeaveMulticastDropsItsEvent(t *testing.T) {
	w := newWorld(t)
	id := w.client.id(cmid.PortSpaceUDP)
	must(t, id.Bind(at(client4)))
	for _, a := range []string{"239.1.2.3", "239.1.2.4"} {
		must(t, id.JoinMulticast(netip.MustParseAddr(a), a))
	}
	must(t, id.LeaveMulticast(netip.MustParseAddr("239.1.2.3")))
	if e := w.client.next(cmid.EventMulticastJoin); e.Context != "239.1.2.4" {
		t.Errorf("event of %v", e.Context)
	}
	w.client.quiet(time.Second)
	w.end()
}
