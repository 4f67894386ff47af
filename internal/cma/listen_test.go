package cma_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"softrdma/faults"
	"softrdma/internal/cm"
	"softrdma/internal/cma"
	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/wire/mad"

	"softrdma/internal/adapter"
)

func TestWildcardOfOneFamilyAllowsTheOther(t *testing.T) {
	w := newWorld(t)
	id := w.server.id(cmid.PortSpaceTCP)
	must(t, id.SetAFOnly(true))
	must(t, id.Bind(at("::")))
	must(t, id.Listen(0))
	w.client.connecting(cmid.PortSpaceTCP, server4)
	if e := w.client.next(cmid.EventRejected); e.Status != int(mad.RejectInvalidServiceID) {
		t.Errorf("status %d, %v", e.Status, e.Err)
	}
	w.client.connecting(cmid.PortSpaceTCP, server6)
	w.server.next(cmid.EventConnectRequest)
	w.end()
}

func TestListenWithoutBindChoosesAPort(t *testing.T) {
	w := newWorld(t)
	id := w.server.id(cmid.PortSpaceTCP)
	must(t, id.Listen(0))
	if a := id.Local(); !a.Addr().IsUnspecified() || !a.Addr().Is4() || a.Port() < 32768 {
		t.Errorf("bound to %v", a)
	}
	w.end()
}

// Requests beyond the backlog are not rejected. Their peers send them again until
// there is room.
func TestRequestsBeyondBacklogWaitForRoom(t *testing.T) {
	for _, space := range []cmid.PortSpace{cmid.PortSpaceTCP, cmid.PortSpaceUDP} {
		w := newWorld(t)
		w.server.listen(space, server4, 2)
		for range 3 {
			w.client.connecting(space, server4)
		}
		var taken []*cma.ID
		for range 2 {
			taken = append(taken, w.server.next(cmid.EventConnectRequest).ID)
		}
		w.server.quiet(3 * time.Second)
		w.client.quiet(0)
		if n := w.server.devs[0].Dev.Trace.Counter(reason.CMBacklog); n == 0 {
			t.Errorf("%v: no request was refused for the backlog", space)
		}
		must(t, taken[0].Accept(&cmid.ConnParam{QPN: 2}))
		w.server.next(cmid.EventConnectRequest)
		w.end()
	}
}

func TestListenSkipsUnavailableDevices(t *testing.T) {
	w := newWorld(t)
	must(t, w.server.devs[1].Close())
	id := w.server.id(cmid.PortSpaceTCP)
	must(t, id.Listen(0))
	left := id.LeftOut()
	if len(left) != 1 || !errors.Is(left[0], errNoSuchDevice) {
		t.Errorf("left out: %v", left)
	}
	for _, i := range []int{0, 2} {
		must(t, w.server.devs[i].Close())
		w.server.m.RemoveDevice(w.server.devs[i].Dev)
	}
	none := w.server.id(cmid.PortSpaceTCP)
	if err := none.Listen(0); !errors.Is(err, errNoSuchDevice) || none.State() != cmid.AddrBound {
		t.Errorf("listen without a device: %v", err)
	}
	w.end()
}

func TestRefreshListensOnNewAddresses(t *testing.T) {
	w := newWorld(t)
	w.server.listen(cmid.PortSpaceTCP, "0.0.0.0", 0)
	const third = "10.0.2.2"
	h, err := rig.Open(w.net, netip.MustParseAddrPort(third+":4791"), simnet.LinkConfig{}, adapter.Config{})
	must(t, err)
	w.server.devs = append(w.server.devs, h)
	w.net.Release(w.server.m)
	w.net.Drive(w.server.m) // drive the Manager after the new device
	must(t, w.server.m.Refresh())
	must(t, w.server.m.Refresh()) // has nothing to do
	w.client.connecting(cmid.PortSpaceTCP, third)
	w.server.next(cmid.EventConnectRequest)
	w.end()
}

// Programs listen on the wildcards of both families, whatever devices there are (tgtd).
func TestListenOnFamilyWithoutDeviceWaitsForOne(t *testing.T) {
	w := newWorld(t)
	c := w.computer("10.0.3.1")
	id := c.id(cmid.PortSpaceTCP)
	must(t, id.SetAFOnly(true))
	must(t, id.Bind(at("::")))
	must(t, id.Listen(0))
	if id.State() != cmid.Listen || len(id.LeftOut()) != 0 {
		t.Errorf("state %v, left out %v", id.State(), id.LeftOut())
	}
	const later = "fd00:3::1"
	h, err := rig.Open(w.net, netip.AddrPortFrom(netip.MustParseAddr(later), 4791), simnet.LinkConfig{}, adapter.Config{})
	must(t, err)
	c.devs = append(c.devs, h)
	w.net.Release(c.m)
	w.net.Drive(c.m) // drive the Manager after the new device
	must(t, c.m.Refresh())
	w.client.connecting(cmid.PortSpaceTCP, later)
	if e := c.next(cmid.EventConnectRequest); e.Listener != id {
		t.Error("a request of another listener")
	}
	must(t, c.ch.Close())
	w.end()
}

func TestRemoveDeviceEndsItsIDs(t *testing.T) {
	w := newWorld(t)
	wild := w.server.listen(cmid.PortSpaceTCP, "0.0.0.0", 0)
	bound := w.server.id(cmid.PortSpaceUDP)
	must(t, bound.Bind(at(server4)))
	other := w.server.id(cmid.PortSpaceUDP)
	must(t, other.Bind(at(second4)))
	_, conn := w.established()
	_, waiting := w.requested()
	dead := w.server.devs[0]

	w.server.m.RemoveDevice(dead.Dev)
	w.server.m.RemoveDevice(dead.Dev) // the second call does nothing
	for _, want := range []*cma.ID{bound, conn} {
		if e := w.server.next(cmid.EventDeviceRemoval); e.ID != want {
			t.Errorf("event of another id")
		}
	}
	w.server.quiet(0)
	if n := w.server.uses[dead.Dev]; n != 0 {
		t.Errorf("device used %d times", n)
	}
	var s *cmid.StateError
	if err := waiting.Accept(&cmid.ConnParam{QPN: 2}); !errors.As(err, &s) || s.Found != cmid.DeviceRemoval {
		t.Errorf("accept: %v", err)
	}
	if _, _, err := conn.InitQPAttr(qp.Init); !errors.As(err, &s) || !errors.Is(err, adapter.ErrClosed) {
		t.Errorf("attributes: %v", err)
	}
	if conn.Device() != nil || conn.Disconnect() == nil {
		t.Error("the connection goes on")
	}
	w.client.next(cmid.EventDisconnected)
	w.client.next(cmid.EventRejected)
	must(t, dead.Close())
	// The wildcard still listens on the other device.
	w.client.connecting(cmid.PortSpaceTCP, second4)
	if e := w.server.next(cmid.EventConnectRequest); e.Listener != wild {
		t.Error("another listener")
	}
	w.end()
}

// A request with an IP header that is damaged or does not match is rejected with a
// named reason, and nothing of it remains.
func TestHostileRequestsAreRejected(t *testing.T) {
	header := func(change func(b []byte)) []byte {
		b := make([]byte, mad.IPHeaderLen)
		h := mad.NewIPHeader(at(client4), netip.MustParseAddr(server4))
		h.Put(b)
		change(b)
		return b
	}
	for _, c := range []struct {
		name    string
		private []byte
		why     reason.Reason
	}{
		{"no header", nil, reason.CMIPHeader},
		{"major version", header(func(b []byte) { b[0] = 0x10 }), reason.CMIPHeader},
		{"minor version", header(func(b []byte) { b[0] = 1 }), reason.CMIPHeader},
		{"IP version", header(func(b []byte) { b[1] = 0x50 }), reason.CMIPHeader},
		{"other destination", header(func(b []byte) { b[35]++ }), reason.CMIPAddress},
		{"family", header(func(b []byte) { b[1] = 0x60 }), reason.CMIPAddress},
		{"no source", header(func(b []byte) { clear(b[4:20]) }), reason.CMIPAddress},
		{"multicast source", header(func(b []byte) { b[16] = 224 }), reason.CMIPAddress},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			tcp := w.server.listen(cmid.PortSpaceTCP, server4, 1)
			w.server.listen(cmid.PortSpaceUDP, server4, 1)
			from, to := w.client.devs[0].Dev, qp.Path{Dst: w.server.devs[0].Dev.Local()}
			var conn *cm.Conn
			var lookup *cm.Lookup
			var told []cm.Kind
			must(t, from.CM(func(m *cm.Manager, now time.Duration) {
				m.SetHandler(func(e *cm.Event) { told = append(told, e.Kind) })
				var err error
				conn, err = m.Connect(now, &cm.ConnectParams{
					Service: mad.ServiceOf(cmid.PortSpaceTCP, 7471), Path: to, QPN: 5, Private: c.private,
				})
				must(t, err)
				lookup, err = m.Resolve(now, &cm.SIDRParams{
					Service: mad.ServiceOf(cmid.PortSpaceUDP, 7471), Path: to, Private: c.private,
				})
				must(t, err)
			}))
			w.server.quiet(time.Second)
			if len(told) != 2 || told[0] != cm.EventRejReceived || told[1] != cm.EventSidrRepReceived {
				t.Errorf("told %v", told)
			}
			if n := w.server.devs[0].Dev.Trace.Counter(c.why); n != 2 {
				t.Errorf("%v counted %d times", c.why, n)
			}
			if n := w.server.m.Count(); n.IDs != 2 {
				t.Errorf("%d ids", n.IDs)
			}
			must(t, from.CM(func(m *cm.Manager, now time.Duration) {
				conn.Destroy(now)
				lookup.Destroy(now)
				m.SetHandler(nil)
			}))
			// The backlog of one has room for the next request.
			w.client.connecting(cmid.PortSpaceTCP, server4)
			if e := w.server.next(cmid.EventConnectRequest); e.Listener != tcp {
				t.Error("another listener")
			}
			w.end()
		})
	}
}

// A rule rejects a connection request with its reason, which the listener does not see, and then lets one pass.
func TestRequestThatARuleRejects(t *testing.T) {
	for why := mad.RejectNoQP; why <= mad.RejectVendorOption; why++ {
		w := newWorld(t)
		x, err := faults.New(faults.Rules{Rules: []faults.Rule{{
			Action: faults.Reject, Reason: uint16(why), Select: faults.Selector{Peer: client4, Count: 1},
		}}}, "rdma0")
		must(t, err)
		h, err := rig.Open(w.net, netip.MustParseAddrPort("10.0.2.2:4791"), simnet.LinkConfig{}, adapter.Config{Faults: x})
		must(t, err)
		w.server.devs = append(w.server.devs, h)
		w.server.listen(cmid.PortSpaceTCP, "10.0.2.2", 0)
		w.client.connecting(cmid.PortSpaceTCP, "10.0.2.2")
		if e := w.client.next(cmid.EventRejected); e.Status != int(why) {
			t.Errorf("rejected with %d, expected %d", e.Status, why)
		}
		w.server.quiet(0)
		if n := h.Dev.Trace.Counter(reason.FaultInjected); n != 1 || x.Counts()[0] != 1 {
			t.Errorf("%d hits, %d counted, expected 1", x.Counts()[0], n)
		}
		w.client.connecting(cmid.PortSpaceTCP, "10.0.2.2")
		w.server.next(cmid.EventConnectRequest)
		w.end()
	}
}
