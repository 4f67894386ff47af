package cma_test

import (
	"net/netip"
	"testing"

	"softrdma/internal/adapter"
	"softrdma/internal/cma"
	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/wire/mad"
)

// narrow4 is an address of the server on an interface that carries a path MTU of 1024.
const narrow4 = "10.0.3.2"

func newNarrowWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	h, err := rig.Open(w.net, netip.AddrPortFrom(netip.MustParseAddr(narrow4), 4791), simnet.LinkConfig{}, adapter.Config{MTU: 1024})
	must(t, err)
	w.server.devs = append(w.server.devs, h)
	w.server.listen(cmid.PortSpaceTCP, narrow4, 0)
	return w
}

func TestResolveRouteIsBoundedByWhatTheHostKnows(t *testing.T) {
	w := newWorld(t)
	w.client.pathMTU = 2048
	if r := w.client.resolved(cmid.PortSpaceTCP, server4).Route(); r.MTU != 2048 {
		t.Errorf("route over a path of 2048: MTU %d", r.MTU)
	}
	w.client.pathMTU = 0
	if r := w.client.resolved(cmid.PortSpaceTCP, server4).Route(); r.MTU != 4096 {
		t.Errorf("route over an unknown path: MTU %d, expected the device's 4096", r.MTU)
	}
	w.end()
}

// The interface of the peer has a smaller MTU than this end's. This end learns it
// only from the rejection (IBTA 12.6.7.2, reason 26).
func TestConnectRetriesWithThePathMTUOfTheRejection(t *testing.T) {
	w := newNarrowWorld(t)
	client := w.client.resolved(cmid.PortSpaceTCP, narrow4)
	must(t, client.Connect(&cmid.ConnParam{QPN: 0x101, RetryCount: 7, PrivateData: []byte("hello")}))
	e := w.server.next(cmid.EventConnectRequest)
	if got := string(e.Conn.PrivateData[:5]); got != "hello" || e.Conn.QPN != 0x101 || e.Conn.RetryCount != 7 {
		t.Errorf("request with %q of QPN %#x, %d retries", got, e.Conn.QPN, e.Conn.RetryCount)
	}
	must(t, e.ID.Accept(&cmid.ConnParam{QPN: 0x202}))
	w.client.next(cmid.EventConnectResponse)
	for _, id := range []*cma.ID{client, e.ID} {
		_, rtr, err := id.InitQPAttr(qp.RTR)
		must(t, err)
		if rtr.PathMTU != 1024 || id.Route().MTU != 1024 {
			t.Errorf("path MTU %d, of the route %d, expected 1024", rtr.PathMTU, id.Route().MTU)
		}
	}
	must(t, client.Accept(nil))
	w.server.next(cmid.EventEstablished)
	w.end()
}

// A peer that rejects every path MTU, or names none, must not cause endless
// requests.
func TestRejectionWithoutSmallerPathMTUIsReported(t *testing.T) {
	w := newWorld(t)
	w.server.listen(cmid.PortSpaceTCP, server4, 0)
	client, server := w.requested()
	must(t, server.RejectFor(mad.RejectInvalidMTU, nil))
	if e := w.client.next(cmid.EventRejected); e.Status != int(mad.RejectInvalidMTU) {
		t.Errorf("rejected with %d", e.Status)
	}
	client.Destroy()
	server.Destroy()
	w.end()
}

func TestDestroyDuringPathMTURetryLeavesNothing(t *testing.T) {
	w := newNarrowWorld(t)
	client := w.client.connecting(cmid.PortSpaceTCP, narrow4)
	server := w.server.next(cmid.EventConnectRequest).ID
	client.Destroy()
	server.Destroy()
	w.end()
}
