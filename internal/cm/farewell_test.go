package cm

import (
	"bytes"
	"testing"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// A softrdma peer is told why a connection ends, in private data that rdma_cm leaves empty. What a
// program gives as private data stays as it is.
func TestDisconnectTellsThePeerWhy(t *testing.T) {
	failed := reason.Detail{Reason: reason.RetryExceeded, Expected: 7, Found: 8}
	for name, c := range map[string]struct {
		kept    bool
		why     reason.Detail // of the queue pair
		private []byte
		destroy bool
		want    reason.Detail
	}{
		"by the program":   {want: reason.Detail{Reason: reason.CMEnded}},
		"destroyed":        {destroy: true, want: reason.Detail{Reason: reason.CMAbandoned}},
		"failed":           {why: failed, want: failed},
		"failed destroyed": {why: failed, destroy: true, want: failed},
		"kept":             {kept: true, why: failed},
		"kept destroyed":   {kept: true, destroy: true},
		"own private data": {why: failed, private: []byte("bye")},
		"local numbers":    {why: reason.Detail{Reason: reason.LocalKey, Expected: 3, Found: 4}, want: reason.Detail{Reason: reason.LocalKey}},
	} {
		w, a, b, ca, cb := established(t)
		b.m.config.KeepReasons = c.kept
		b.m.config.Why = func(qpn uint32) reason.Detail {
			if qpn != cb.LocalQPN() {
				t.Errorf("%s: asked for QP %#x, expected %#x", name, qpn, cb.LocalQPN())
			}
			return c.why
		}
		if c.destroy {
			cb.Destroy(w.now)
		} else {
			w.must(cb.Disconnect(w.now, c.private))
		}
		w.pass(2 * time.Millisecond)
		if c.want.Reason == reason.CMEnded || c.want.Reason == reason.CMAbandoned {
			c.want.Expected, c.want.Found = uint64(cb.LocalQPN()), uint64(ca.LocalQPN())
		}
		e := a.one(EventDreqReceived)
		if e.Said != c.want {
			t.Errorf("%s: heard %v, expected %v", name, e.Said, c.want)
		}
		if zero := bytes.Count(e.Private, []byte{0}) == mad.DREQPrivateLen; (c.kept && !zero) || !bytes.HasPrefix(e.Private, c.private) {
			t.Errorf("%s: private data %x", name, e.Private)
		}
		a.m.config.Why = func(uint32) reason.Detail { return failed }
		w.must(ca.DisconnectReply(w.now, nil))
		w.pass(2 * time.Millisecond)
		if !c.destroy {
			if e := b.one(EventDrepReceived); e.Said != failed {
				t.Errorf("%s: the answer says %v, expected %v", name, e.Said, failed)
			}
		}
	}
}

// Private data of others say nothing.
func TestOnlyAReasonInPrivateDataIsOne(t *testing.T) {
	b := make([]byte, mad.DREQPrivateLen)
	for i := range 2 {
		if d := heard(b); d != (reason.Detail{}) {
			t.Errorf("%d: heard %v", i, d)
		}
		copy(b, "another vendor's")
	}
}
