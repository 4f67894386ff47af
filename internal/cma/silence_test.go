package cma_test

import (
	"errors"
	"testing"
	"time"

	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// If a peer dies, the other end gets a named event in bounded time, whatever its
// state was.
func TestDeadPeerIsReportedInEveryState(t *testing.T) {
	const bound = 10 * time.Minute
	for _, c := range []struct {
		name  string
		until func(w *world) (survivor *computer)
		event cmid.EventType
		why   reason.Reason
	}{
		{"before the request", func(w *world) *computer {
			w.server.cut()
			w.client.connecting(cmid.PortSpaceTCP, server4)
			return w.client
		}, cmid.EventUnreachable, reason.CMReqTimeout},
		{"with the request", func(w *world) *computer {
			w.requested()
			w.server.cut()
			return w.client
		}, cmid.EventUnreachable, reason.CMReqTimeout},
		{"with the reply", func(w *world) *computer {
			_, server := w.requested()
			w.client.cut()
			must(w, server.Accept(&cmid.ConnParam{QPN: 2}))
			return w.server
		}, cmid.EventUnreachable, reason.CMRepTimeout},
		{"before the disconnect", func(w *world) *computer {
			client, _ := w.established()
			w.server.cut()
			must(w, client.Disconnect())
			return w.client
		}, cmid.EventDisconnected, reason.CMDreqTimeout},
		{"with the disconnect", func(w *world) *computer {
			client, _ := w.established()
			must(w, client.Disconnect())
			w.server.next(cmid.EventDisconnected)
			w.server.cut()
			return w.client
		}, cmid.EventDisconnected, reason.CMDreqTimeout},
		{"before the look-up", func(w *world) *computer {
			w.server.cut()
			w.client.connecting(cmid.PortSpaceUDP, server4)
			return w.client
		}, cmid.EventUnreachable, reason.CMSIDRTimeout},
		{"with the look-up", func(w *world) *computer {
			w.client.connecting(cmid.PortSpaceUDP, server4)
			w.server.next(cmid.EventConnectRequest)
			w.server.cut()
			return w.client
		}, cmid.EventUnreachable, reason.CMSIDRTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.server.listen(cmid.PortSpaceTCP, server4, 0)
			w.server.listen(cmid.PortSpaceUDP, server4, 0)
			survivor := c.until(w)
			start := w.net.Clock()
			e := survivor.next(c.event)
			var timeout *cmid.TimeoutError
			if e.Status != cmid.StatusTimedOut || e.Detail.Reason != c.why || !errors.As(e.Err, &timeout) || !timeout.Timeout() {
				t.Errorf("status %d, %v, %v", e.Status, e.Detail.Reason, e.Err)
			}
			if d := w.net.Clock() - start; d > bound {
				t.Errorf("after %v, expected less than %v", d, bound)
			}
			w.end()
		})
	}
}

func TestResponseTimeoutShortensSilence(t *testing.T) {
	w := newWorld(t)
	w.server.cut()
	for _, space := range []cmid.PortSpace{cmid.PortSpaceTCP, cmid.PortSpaceUDP} {
		id := w.client.resolved(space, server4)
		must(t, id.SetResponseTimeout(14, 2)) // 67 ms
		start := w.net.Clock()
		must(t, id.Connect(&cmid.ConnParam{QPN: 1}))
		w.client.next(cmid.EventUnreachable)
		if d := w.net.Clock() - start; d < 100*time.Millisecond || d > 5*time.Second {
			t.Errorf("%v: given up after %v", space, d)
		}
	}
	w.end()
}

// A slow program does not lose a request: when the peer asks again, it is told to
// wait.
func TestSlowServerKeepsItsRequests(t *testing.T) {
	w := newWorld(t)
	w.server.listen(cmid.PortSpaceTCP, server4, 0)
	client, server := w.requested()
	w.client.quiet(65 * time.Second)
	must(t, server.Accept(&cmid.ConnParam{QPN: 2}))
	w.client.next(cmid.EventConnectResponse)
	w.server.quiet(65 * time.Second)
	must(t, client.Accept(nil))
	w.server.next(cmid.EventEstablished)
	w.end()
}

// The client gives up its request before the server accepts it.
func TestAcceptOfVoidRequestReturnsReason(t *testing.T) {
	w := newWorld(t)
	w.server.listen(cmid.PortSpaceTCP, server4, 0)
	client, server := w.requested()
	client.Destroy()
	w.server.quiet(time.Second) // the program does not know the id yet
	_, _, attrErr := server.InitQPAttr(qp.Init)
	for _, err := range []error{attrErr, server.Accept(&cmid.ConnParam{QPN: 2})} {
		var v *cmid.VoidError
		var r *cmid.RejectedError
		if !errors.As(err, &v) || v.Addr != server.Remote() || !errors.As(err, &r) {
			t.Errorf("error %v", err)
		}
	}
	w.end()
}

func TestSetUpSucceedsDespiteLoss(t *testing.T) {
	w := newWorld(t)
	w.server.listen(cmid.PortSpaceTCP, server4, 0)
	w.client.loss(0.4)
	w.server.loss(0.4)
	for range 20 {
		client, server := w.established()
		must(t, client.Disconnect())
		w.server.next(cmid.EventDisconnected)
		must(t, server.Disconnect())
		w.client.next(cmid.EventDisconnected)
		client.Destroy()
		server.Destroy()
	}
	w.client.heal()
	w.server.heal()
	w.end()
}
