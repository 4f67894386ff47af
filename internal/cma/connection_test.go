package cma_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/cma"
	"softrdma/internal/cmid"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/wire/mad"
)

// A socket is a queue pair with its completion queue.
type socket struct {
	h  *rig.Host
	cq *adapter.CQ
	qp *adapter.QP
}

func (c *computer) socket(id *cma.ID) *socket {
	c.Helper()
	for _, h := range c.devs {
		if h.Dev != id.Device() {
			continue
		}
		cq, err := h.Dev.CreateCQ(16, nil)
		must(c, err)
		q, err := h.PD.CreateQP(&adapter.QPConfig{
			Type: id.Type(), SendCQ: cq, RecvCQ: cq, SendDepth: 4, SendSGE: 1, RecvDepth: 4, RecvSGE: 1, Inline: 64,
		})
		must(c, err)
		return &socket{h, cq, q}
	}
	c.Fatal("the id has no device")
	return nil
}

// to makes the transitions to the given states with the id's attributes.
func (s *socket) to(t testing.TB, id *cma.ID, states ...qp.State) {
	t.Helper()
	for _, x := range states {
		mask, attr, err := id.InitQPAttr(x)
		must(t, err)
		must(t, s.qp.Modify(mask, &attr))
	}
}

func (s *socket) destroy(t testing.TB) {
	t.Helper()
	must(t, s.qp.Destroy())
	must(t, s.cq.Destroy())
}

// exchange sends a message from one queue pair to the other.
func exchange(t testing.TB, from, to *socket, ud queue.UD) {
	t.Helper()
	mem := make([]byte, 256)
	mr, err := to.h.PD.Register(mem, 0x1000, qp.LocalWrite)
	must(t, err)
	must(t, rig.PostRecv(to.qp.Recv, 7, memory.SGE{Addr: 0x1000, Length: 256, LKey: mr.Key}))
	must(t, rig.PostSend(from.qp, rig.Send{ID: 8, Op: queue.Send, Flags: queue.Signaled, Inline: []byte("hello"), UD: ud}))
	got, err := to.h.Wait(to.cq, 1)
	must(t, err)
	sent, err := from.h.Wait(from.cq, 1)
	must(t, err)
	if got[0].Status != queue.Success || sent[0].Status != queue.Success || !bytes.Contains(mem, []byte("hello")) {
		t.Errorf("received %+v, sent %+v", got[0], sent[0])
	}
	must(t, to.h.PD.Deregister(mr))
}

func TestConnectionFromResolutionToTimewait(t *testing.T) {
	for _, c := range []struct {
		name, listen, connect string
		space                 cmid.PortSpace
		kind                  qp.Type
	}{
		{"IPv4", server4, server4, cmid.PortSpaceTCP, qp.RC},
		{"IPv6", server6, server6, cmid.PortSpaceTCP, qp.RC},
		{"wildcard", "0.0.0.0", second4, cmid.PortSpaceTCP, qp.RC},
		{"IPv6 wildcard", "::", server6, cmid.PortSpaceTCP, qp.RC},
		{"IPv4 to an IPv6 wildcard", "::", server4, cmid.PortSpaceTCP, qp.RC},
		{"port space IB", server4, server4, cmid.PortSpaceIB, qp.RC},
		{"UC", server4, server4, cmid.PortSpaceIB, qp.UC},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			l, err := w.server.ch.NewID(c.space, c.kind)
			must(t, err)
			l.Context = "the listener's"
			must(t, l.Bind(at(c.listen)))
			must(t, l.Listen(0))

			active, err := w.client.ch.NewID(c.space, c.kind)
			must(t, err)
			must(t, active.SetTOS(0x20))
			w.client.resolve(active, c.connect)
			a := w.client.socket(active)
			a.to(t, active, qp.Init)
			must(t, active.Connect(&cmid.ConnParam{
				PrivateData: []byte("ping"), ResponderResources: 3, InitiatorDepth: 5, RetryCount: 6, RNRRetryCount: 4, QPN: a.qp.QPN,
			}))

			e := w.server.next(cmid.EventConnectRequest)
			passive := e.ID
			if e.Listener != l || passive.Context != l.Context || passive.Remote() != active.Local() || passive.Local() != active.Remote() {
				t.Errorf("id %v to %v, peer's %v to %v", passive.Local(), passive.Remote(), active.Local(), active.Remote())
			}
			if p := e.Conn; len(p.PrivateData) != 56 || !bytes.HasPrefix(p.PrivateData, []byte("ping\x00")) || p.QPN != a.qp.QPN ||
				p.ResponderResources != 5 || p.InitiatorDepth != 3 || p.RetryCount != 6 || p.RNRRetryCount != 4 {
				t.Errorf("request %+v", p)
			}
			b := w.server.socket(passive)
			b.to(t, passive, qp.Init, qp.RTR, qp.RTS)
			if p := b.qp.Query().Path; p.TrafficClass != 0x20 || p.Dst != a.h.Dev.Local() || p.HopLimit != 0 && p.HopLimit != 64 {
				t.Errorf("path %+v", p)
			}
			must(t, passive.Accept(&cmid.ConnParam{
				PrivateData: []byte("pong"), ResponderResources: 2, InitiatorDepth: 1, RNRRetryCount: 3, QPN: b.qp.QPN,
			}))

			r := w.client.next(cmid.EventConnectResponse)
			if p := r.Conn; r.ID != active || len(p.PrivateData) != 196 || !bytes.HasPrefix(p.PrivateData, []byte("pong\x00")) ||
				p.QPN != b.qp.QPN || p.ResponderResources != 1 || p.InitiatorDepth != 2 || p.RNRRetryCount != 3 {
				t.Errorf("response %+v", p)
			}
			a.to(t, active, qp.Init, qp.RTR, qp.RTS)
			must(t, active.Accept(nil))
			w.server.next(cmid.EventEstablished)
			exchange(t, a, b, queue.UD{})
			exchange(t, b, a, queue.UD{})

			must(t, rig.ToErr(a.qp))
			must(t, active.Disconnect())
			w.server.next(cmid.EventDisconnected)
			must(t, passive.Disconnect())
			w.client.next(cmid.EventDisconnected)
			w.client.next(cmid.EventTimewaitExit)
			w.server.next(cmid.EventTimewaitExit)
			if active.State() != cmid.Disconnect || passive.State() != cmid.Disconnect {
				t.Errorf("states %v and %v", active.State(), passive.State())
			}
			a.destroy(t)
			b.destroy(t)
			active.Destroy()
			passive.Destroy()
			l.Destroy()
			w.end()
		})
	}
}

func TestRejectCarriesReasonAndPrivateData(t *testing.T) {
	w := newWorld(t)
	w.server.listen(cmid.PortSpaceTCP, server4, 0)
	client, server := w.requested()
	must(t, server.Reject([]byte("no room")))
	e := w.client.next(cmid.EventRejected)
	var r *cmid.RejectedError
	if !errors.As(e.Err, &r) || r.Reason != mad.RejectConsumer || e.Status != 28 || r.Addr != at(server4) ||
		e.Detail.Reason != reason.CMRejected || !bytes.HasPrefix(e.Conn.PrivateData, []byte("no room\x00")) {
		t.Errorf("event %+v, %v", e, e.Err)
	}
	if client.State() != cmid.Connect {
		t.Errorf("state %v", client.State())
	}
	w.end()
}

func TestConnectWithoutListenerIsRejected(t *testing.T) {
	w := newWorld(t)
	w.server.listen(cmid.PortSpaceTCP, second4, 0)
	w.client.connecting(cmid.PortSpaceTCP, server4) // the server listens on the port of its other address only
	if e := w.client.next(cmid.EventRejected); e.Status != int(mad.RejectInvalidServiceID) {
		t.Errorf("status %d, %v", e.Status, e.Err)
	}
	w.client.connecting(cmid.PortSpaceIB, second4) // wrong port space
	if e := w.client.next(cmid.EventRejected); e.Status != int(mad.RejectInvalidServiceID) {
		t.Errorf("status %d, %v", e.Status, e.Err)
	}
	w.end()
}

func TestRequestOfAnotherServiceTypeIsRejected(t *testing.T) {
	w := newWorld(t)
	w.server.listen(cmid.PortSpaceIB, server4, 0)
	id, err := w.client.ch.NewID(cmid.PortSpaceIB, qp.UC)
	must(t, err)
	w.client.resolve(id, server4)
	must(t, id.Connect(&cmid.ConnParam{QPN: 1}))
	if e := w.client.next(cmid.EventRejected); e.Status != int(mad.RejectConsumer) {
		t.Errorf("status %d, %v", e.Status, e.Err)
	}
	if n := w.server.devs[0].Dev.Trace.Counter(reason.CMServiceType); n != 1 {
		t.Errorf("counted %d times", n)
	}
	w.server.quiet(time.Second)
	w.end()
}

// The RTU is always lost, but the queue pair has received a packet.
func TestEstablishReplacesALostRTU(t *testing.T) {
	w := newWorld(t)
	w.server.listen(cmid.PortSpaceTCP, server4, 0)
	client, server := w.requested()
	must(t, server.Accept(&cmid.ConnParam{QPN: 0x202}))
	w.client.next(cmid.EventConnectResponse)
	w.client.cut()
	must(t, client.Accept(nil))
	w.server.quiet(time.Second)
	must(t, server.Establish())
	w.server.next(cmid.EventEstablished)
	w.client.heal()
	w.server.quiet(time.Second)
	w.end()
}

func TestBothEndsDisconnectAtOnce(t *testing.T) {
	w := newWorld(t)
	w.server.listen(cmid.PortSpaceTCP, server4, 0)
	client, server := w.established()
	must(t, client.Disconnect())
	must(t, server.Disconnect())
	w.client.next(cmid.EventDisconnected)
	w.server.next(cmid.EventDisconnected)
	must(t, client.Disconnect()) // like a program that answers the event
	w.client.next(cmid.EventTimewaitExit)
	w.server.next(cmid.EventTimewaitExit)
	w.end()
}

func TestPrivateDataTooLongIsRefused(t *testing.T) {
	w := newWorld(t)
	w.server.listen(cmid.PortSpaceTCP, server4, 0)
	w.server.listen(cmid.PortSpaceUDP, server4, 0)
	long := func(n int) *cmid.ConnParam { return &cmid.ConnParam{PrivateData: make([]byte, n), QPN: 5} }
	refused := func(err error, limit int) {
		t.Helper()
		var p *cmid.PrivateDataError
		if !errors.As(err, &p) || p.Limit != limit || p.Found != limit+1 {
			t.Errorf("error %v, expected limit %d", err, limit)
		}
	}
	id := w.client.resolved(cmid.PortSpaceTCP, server4)
	refused(id.Connect(long(57)), 56)
	must(t, id.Connect(long(56)))
	server := w.server.next(cmid.EventConnectRequest).ID
	refused(server.Accept(long(197)), 196)
	refused(server.Reject(make([]byte, 149)), 148)
	must(t, server.Accept(long(196)))
	w.client.next(cmid.EventConnectResponse)

	u := w.client.resolved(cmid.PortSpaceUDP, server4)
	refused(u.Connect(long(181)), 180)
	must(t, u.Connect(long(180)))
	server = w.server.next(cmid.EventConnectRequest).ID
	refused(server.Accept(long(137)), 136)
	refused(server.Reject(make([]byte, 137)), 136)
	must(t, server.Reject(make([]byte, 136)))
	w.client.next(cmid.EventUnreachable)
	w.end()
}
