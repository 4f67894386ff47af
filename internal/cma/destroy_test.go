package cma_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/cma"
	"softrdma/internal/cmid"
	"softrdma/internal/qp"
)

// Each row reaches one state, with listeners on the server, and destroys the id in
// that state. Afterwards nothing of the id is left, it has no more events, and the
// peer is notified in time.
func TestDestroyInEachState(t *testing.T) {
	addr := func(a string) netip.AddrPort { return at(a) }
	type ids = []*cma.ID
	for _, c := range []struct {
		name  string
		state cmid.State
		reach func(w *world) (destroyed, others ids)
		tells cmid.EventType // the event at the other end, if any
	}{
		{"idle", cmid.Idle, func(w *world) (ids, ids) { return ids{w.client.id(cmid.PortSpaceTCP)}, nil }, 0},
		{"bound", cmid.AddrBound, func(w *world) (ids, ids) {
			id := w.client.id(cmid.PortSpaceTCP)
			must(w, id.Bind(addr(client4)))
			return ids{id}, nil
		}, 0},
		{"address resolved, event not taken", cmid.AddrResolved, func(w *world) (ids, ids) {
			id := w.client.id(cmid.PortSpaceTCP)
			must(w, id.ResolveAddr(netip.AddrPort{}, addr(server4)))
			return ids{id}, nil
		}, 0},
		{"route resolved", cmid.RouteResolved, func(w *world) (ids, ids) {
			return ids{w.client.resolved(cmid.PortSpaceTCP, server4)}, nil
		}, 0},
		{"listening", cmid.Listen, func(w *world) (ids, ids) {
			id := w.client.id(cmid.PortSpaceTCP)
			must(w, id.Listen(0))
			return ids{id}, nil
		}, 0},
		{"request sent", cmid.Connect, func(w *world) (ids, ids) {
			return ids{w.client.connecting(cmid.PortSpaceTCP, server4)}, nil
		}, 0},
		{"request received", cmid.Connect, func(w *world) (ids, ids) {
			c, s := w.requested()
			return ids{s}, ids{c}
		}, cmid.EventRejected},
		{"reply sent", cmid.Connect, func(w *world) (ids, ids) {
			c, s := w.requested()
			must(w, s.Accept(&cmid.ConnParam{QPN: 2}))
			w.client.next(cmid.EventConnectResponse)
			return ids{s}, ids{c}
		}, cmid.EventRejected},
		{"reply received", cmid.Connect, func(w *world) (ids, ids) {
			c, s := w.requested()
			must(w, s.Accept(&cmid.ConnParam{QPN: 2}))
			w.client.next(cmid.EventConnectResponse)
			return ids{c}, ids{s}
		}, cmid.EventRejected},
		{"established", cmid.Connect, func(w *world) (ids, ids) {
			c, s := w.established()
			return ids{c}, ids{s}
		}, cmid.EventDisconnected},
		{"disconnecting", cmid.Connect, func(w *world) (ids, ids) {
			c, s := w.established()
			must(w, c.Disconnect())
			return ids{c}, ids{s}
		}, cmid.EventDisconnected},
		{"asked to disconnect", cmid.Disconnect, func(w *world) (ids, ids) {
			c, s := w.established()
			must(w, c.Disconnect())
			w.server.next(cmid.EventDisconnected)
			return ids{s}, ids{c}
		}, cmid.EventDisconnected},
		{"time wait", cmid.Disconnect, func(w *world) (ids, ids) {
			c, s := w.established()
			must(w, c.Disconnect())
			w.server.next(cmid.EventDisconnected)
			must(w, s.Disconnect())
			w.client.next(cmid.EventDisconnected)
			return ids{c, s}, nil
		}, 0},
		{"look-up sent", cmid.Connect, func(w *world) (ids, ids) {
			return ids{w.client.connecting(cmid.PortSpaceUDP, server4)}, nil
		}, 0},
		{"look-up received", cmid.Connect, func(w *world) (ids, ids) {
			c := w.client.connecting(cmid.PortSpaceUDP, server4)
			return ids{w.server.next(cmid.EventConnectRequest).ID}, ids{c}
		}, cmid.EventUnreachable},
		{"member of a group", cmid.AddrBound, func(w *world) (ids, ids) {
			id := w.client.id(cmid.PortSpaceUDP)
			must(w, id.Bind(addr(client4)))
			must(w, id.JoinMulticast(netip.MustParseAddr("239.1.2.3"), nil))
			return ids{id}, nil
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.server.listen(cmid.PortSpaceTCP, server4, 0)
			w.server.listen(cmid.PortSpaceUDP, server4, 0)
			destroyed, others := c.reach(w)
			for _, id := range destroyed {
				if s := id.State(); s != c.state {
					t.Errorf("state %v, expected %v", s, c.state)
				}
				id.Destroy()
				id.Destroy() // the second call does nothing
				if err := id.Bind(addr(client4)); !errors.Is(err, cmid.ErrDestroyed) {
					t.Errorf("bind after destroy: %v", err)
				}
				if _, _, err := id.InitQPAttr(qp.Init); err == nil {
					t.Error("a destroyed id has attributes")
				}
			}
			if c.tells != 0 {
				on := w.client
				if others[0].Channel() == w.server.ch {
					on = w.server
				}
				if e := on.next(c.tells); e.ID != others[0] {
					t.Errorf("event of %v", e.ID)
				}
			}
			for _, id := range others {
				id.Destroy()
			}
			// A packet that was in flight may still create a request.
			w.net.Sleep(time.Second)
			for _, x := range []*computer{w.client, w.server} {
				for e, ok := x.ch.Poll(); ok; e, ok = x.ch.Poll() {
					if e.Type != cmid.EventConnectRequest {
						t.Errorf("late event %v", e.Type)
						continue
					}
					e.ID.Destroy()
				}
			}
			if n := w.client.m.Count(); n.IDs+n.Ports+n.Devices != 0 {
				t.Errorf("client: %+v", n)
			}
			if n := w.server.m.Count(); n.IDs != 2 || n.Ports != 2 || n.Devices != 1 {
				t.Errorf("server: %+v", n)
			}
			w.end()
		})
	}
}

// Destroying a listener also ends the requests that were not taken.
func TestDestroyOfListenerRejectsItsRequests(t *testing.T) {
	w := newWorld(t)
	l := w.server.listen(cmid.PortSpaceTCP, "0.0.0.0", 0)
	w.client.connecting(cmid.PortSpaceTCP, server4)
	w.client.connecting(cmid.PortSpaceTCP, second4)
	taken := w.server.next(cmid.EventConnectRequest).ID
	w.net.Sleep(time.Second)
	l.Destroy()
	w.client.next(cmid.EventRejected)
	w.server.quiet(time.Second)
	must(t, taken.Accept(&cmid.ConnParam{QPN: 2})) // this request is not affected
	w.client.next(cmid.EventConnectResponse)
	w.end()
}
