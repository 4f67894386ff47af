package cma_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

func TestLookupFindsADatagramPeer(t *testing.T) {
	for _, addr := range []string{server4, server6} {
		w := newWorld(t)
		l := w.server.listen(cmid.PortSpaceUDP, addr, 0)
		active := w.client.resolved(cmid.PortSpaceUDP, addr)
		a := w.client.socket(active)
		a.to(t, active, qp.Init, qp.RTR, qp.RTS)
		must(t, active.Connect(&cmid.ConnParam{PrivateData: []byte("who?")}))

		e := w.server.next(cmid.EventConnectRequest)
		if e.Listener != l || len(e.UD.PrivateData) != 180 || !bytes.HasPrefix(e.UD.PrivateData, []byte("who?\x00")) {
			t.Errorf("request %+v", e)
		}
		if e.ID.Type() != qp.UD || e.ID.Remote() != active.Local() || e.ID.Local() != at(addr) {
			t.Errorf("id of type %v, %v to %v", e.ID.Type(), e.ID.Local(), e.ID.Remote())
		}
		b := w.server.socket(e.ID)
		b.to(t, e.ID, qp.Init, qp.RTR, qp.RTS)
		must(t, e.ID.Accept(&cmid.ConnParam{PrivateData: []byte("me"), QPN: b.qp.QPN}))

		r := w.client.next(cmid.EventEstablished)
		if u := r.UD; r.ID != active || len(u.PrivateData) != 136 || !bytes.HasPrefix(u.PrivateData, []byte("me\x00")) ||
			u.QPN != b.qp.QPN || u.QKey != cmid.DefaultQKey || u.Path.Dst.Addr() != netip.MustParseAddr(addr) {
			t.Errorf("answer %+v", u)
		}
		ah, err := a.h.PD.CreateAH(r.UD.Path)
		must(t, err)
		exchange(t, a, b, queue.UD{RemoteQPN: r.UD.QPN, RemoteQKey: r.UD.QKey, AHNum: ah})
		must(t, a.h.PD.DestroyAH(ah))
		a.destroy(t)
		b.destroy(t)
		w.end()
	}
}

func TestLookupRefusals(t *testing.T) {
	w := newWorld(t)
	w.server.listen(cmid.PortSpaceUDP, server4, 0)

	w.client.connecting(cmid.PortSpaceUDP, server4)
	must(t, w.server.next(cmid.EventConnectRequest).ID.Reject([]byte("not me")))
	e := w.client.next(cmid.EventUnreachable)
	var l *cmid.LookupError
	if e.Status != int(mad.SIDRRejected) || !errors.As(e.Err, &l) || !bytes.HasPrefix(e.UD.PrivateData, []byte("not me\x00")) ||
		e.Detail.Reason != reason.CMSIDRRefused {
		t.Errorf("rejected: %+v, %v", e, e.Err)
	}

	w.client.connecting(cmid.PortSpaceUDP, second4)
	if e = w.client.next(cmid.EventUnreachable); e.Status != int(mad.SIDRUnsupported) {
		t.Errorf("no listener: status %d, %v", e.Status, e.Err)
	}

	id := w.client.resolved(cmid.PortSpaceUDP, server4)
	_, attr, err := id.InitQPAttr(qp.Init) // as a program does for its queue pair
	must(t, err)
	if attr.QKey != cmid.DefaultQKey {
		t.Errorf("Q_Key %#x", attr.QKey)
	}
	must(t, id.Connect(&cmid.ConnParam{}))
	server := w.server.next(cmid.EventConnectRequest).ID
	must(t, server.Accept(&cmid.ConnParam{QPN: 9, QKey: 0x22}))
	e = w.client.next(cmid.EventAddrError)
	var q *cmid.QKeyError
	if e.Status != cmid.StatusInvalid || !errors.As(e.Err, &q) || q.Found != 0x22 || e.Detail.Reason != reason.CMQKey {
		t.Errorf("other Q_Key: %+v, %v", e, e.Err)
	}
	w.end()
}

func TestAcceptOfLookupKeepsTheQKeyOfTheQueuePair(t *testing.T) {
	w := newWorld(t)
	w.server.listen(cmid.PortSpaceUDP, server4, 0)
	w.client.connecting(cmid.PortSpaceUDP, server4)
	id := w.server.next(cmid.EventConnectRequest).ID
	_, _, err := id.InitQPAttr(qp.Init)
	must(t, err)
	var q *cmid.QKeyError
	if err := id.Accept(&cmid.ConnParam{QPN: 9, QKey: 0x22}); !errors.As(err, &q) || q.Expected != cmid.DefaultQKey {
		t.Errorf("other Q_Key: %v", err)
	}
	if id.Accept(nil) == nil {
		t.Error("accepted without a queue pair")
	}
	must(t, id.Accept(&cmid.ConnParam{QPN: 9}))
	w.client.next(cmid.EventEstablished)
	w.end()
}

func TestLookupOverLossFindsItsPeer(t *testing.T) {
	w := newWorld(t)
	w.server.listen(cmid.PortSpaceUDP, server4, 0)
	w.client.loss(0.3)
	w.server.loss(0.3)
	for range 10 {
		id := w.client.connecting(cmid.PortSpaceUDP, server4)
		// If the answer of a look-up is lost, the server's program gets a new
		// inquiry, as with Linux.
		err := w.net.Run(func() bool {
			for e, ok := w.server.ch.Poll(); ok; e, ok = w.server.ch.Poll() {
				must(t, e.ID.Accept(&cmid.ConnParam{QPN: 9}))
				e.ID.Destroy()
			}
			e, ok := w.client.ch.Poll()
			if ok && e.Type != cmid.EventEstablished {
				t.Errorf("event %v (%v)", e.Type, e.Err)
			}
			return ok
		}, 10*time.Minute)
		must(t, err)
		id.Destroy()
	}
	w.client.heal()
	w.server.heal()
	w.server.quiet(time.Second)
	w.end()
}
