package cm

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

func (h *host) lookup(to *host) *Lookup {
	h.w.t.Helper()
	l, err := h.m.Resolve(h.w.now, &SIDRParams{Service: service, Path: qp.Path{Dst: to.addr}, Timeout: 10 * time.Millisecond,
		Retries: 3, Private: []byte("who"), Context: "mine"})
	h.w.must(err)
	return l
}

func TestResolveFindsTheQueuePair(t *testing.T) {
	for lost := range 4 {
		for _, attr := range []mad.AttributeID{mad.AttrSIDRReq, mad.AttrSIDRRep} {
			w, a, b, _ := pair(t)
			w.loseFirst(attr, lost)
			b.user = func(e seen) {
				if e.Kind == EventSidrReqReceived {
					if string(e.Private[:4]) != "who\x00" || len(e.Private) != mad.SIDRReqPrivateLen || e.SIDRReq.Service != service || e.Inquiry.Service() != service {
						t.Errorf("asked %q for %v", e.Private, e.SIDRReq.Service)
					}
					w.must(e.Inquiry.Reply(w.now, &SIDRReply{QPN: 0x42, QKey: 0x01234567, Info: []byte("x"), Private: []byte("me")}))
				}
			}
			l := a.lookup(b)
			w.settle(time.Second)
			e := a.one(EventSidrRepReceived)
			if e.Lookup != l || l.Context != "mine" || e.SIDRRep.QPN != 0x42 || e.SIDRRep.QKey != 0x01234567 || e.SIDRRep.Service != service ||
				string(e.SIDRRep.Additional()) != "x" || string(e.Private[:3]) != "me\x00" || e.Detail.Reason != reason.None {
				t.Errorf("%v lost %d times: %+v, %v", attr, lost, e.SIDRRep, e.Detail)
			}
			if n := a.sent[mad.AttrSIDRReq]; n != lost+1 {
				t.Errorf("%v lost %d times: asked %d times", attr, lost, n)
			}
			l.Destroy(w.now)
			a.empty()
			b.empty()
		}
	}
}

func TestResolveRefusals(t *testing.T) {
	w, a, b, l := pair(t)
	l.Close()
	a.lookup(b)
	w.settle(time.Second)
	if e := a.one(EventSidrRepReceived); e.SIDRRep.Status != mad.SIDRUnsupported || e.Detail != (reason.Detail{Reason: reason.CMSIDRRefused, Expected: 0, Found: 1}) {
		t.Errorf("no listener: %v, %v", e.SIDRRep.Status, e.Detail)
	}
	if b.refusals(reason.CMService) != 1 {
		t.Errorf("refused %v", b.refused)
	}
	a.empty()
	b.empty()

	w, a, b, _ = pair(t)
	b.user = func(e seen) { e.Inquiry.Destroy(w.now) }
	a.lookup(b)
	w.settle(time.Second)
	if e := a.one(EventSidrRepReceived); e.SIDRRep.Status != mad.SIDRRejected {
		t.Errorf("destroyed inquiry: %v", e.SIDRRep.Status)
	}
	a.empty()
	b.empty()

	w, a, b, _ = pair(t)
	b.dead = true
	a.lookup(b)
	w.settle(time.Second)
	if e := a.one(EventSidrTimeout); e.at != 40*time.Millisecond || e.Detail != (reason.Detail{Reason: reason.CMSIDRTimeout, Expected: 3, Found: 10}) {
		t.Errorf("dead peer: %v after %v", e.Detail, e.at)
	}
	a.empty()

	// A destroyed lookup raises no events.
	w, a, b, _ = pair(t)
	b.user = func(e seen) { w.must(e.Inquiry.Reply(w.now, &SIDRReply{})) }
	q := a.lookup(b)
	w.pass(1500 * time.Microsecond)
	q.Destroy(w.now)
	w.settle(time.Second)
	if len(a.events) != 0 || a.refusals(reason.CMCommID) != 1 {
		t.Errorf("a heard %q, refused %v", a.kinds(), a.refused)
	}
	a.empty()
}

func TestResolveDuplicatesAndUnknownPeers(t *testing.T) {
	w, a, b, l := pair(t)
	l.Backlog = 1
	a.lookup(b)
	w.pass(25 * time.Millisecond) // repeats the request twice
	i := b.one(EventSidrReqReceived).Inquiry
	if b.refusals(reason.CMDuplicate) != 2 || l.Waiting() != 1 {
		t.Errorf("refused %v", b.refused)
	}
	a.lookup(b)
	w.pass(2 * time.Millisecond)
	if b.refusals(reason.CMBacklog) != 1 {
		t.Errorf("refused %v", b.refused)
	}
	// The answer must come from the address that was asked.
	d := a.last[mad.AttrSIDRReq]
	var q mad.SIDRReq
	q.Parse(&d)
	a.m.Receive(w.now, back(netip.MustParseAddrPort("203.0.113.9:4791"), 0), craft(mad.AttrSIDRRep, &mad.SIDRRep{RequestID: q.RequestID}))
	if a.refusals(reason.CMSource) != 1 || a.m.Count().Lookups != 2 {
		t.Errorf("refused %v", a.refused)
	}
	long := make([]byte, 300)
	for name, p := range map[string]SIDRReply{"Info": {Info: long[:73]}, "Private": {Private: long[:137]}, "QPN": {QPN: 1 << 24}} {
		var e *Error
		if err := i.Reply(w.now, &p); !errors.As(err, &e) || e.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.must(i.Reply(w.now, &SIDRReply{}))
	var wrong *StateError
	if err := i.Reply(w.now, &SIDRReply{}); !errors.As(err, &wrong) {
		t.Errorf("second reply: %v", err)
	}
	i.Destroy(w.now)
	for field, p := range map[string]SIDRParams{
		"Private": {Path: qp.Path{Dst: b.addr}, Private: long[:217]},
		"Retries": {Path: qp.Path{Dst: b.addr}, Retries: 16},
		"Path":    {},
	} {
		var e *Error
		if _, err := a.m.Resolve(w.now, &p); !errors.As(err, &e) || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
