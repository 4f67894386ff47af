//go:build linux

package daemon

import (
	"net/netip"
	"softrdma/internal/cmid"
	"testing"
)

// An id that moves to another channel while the device ends gets one event, on its
// new channel, whichever channel noticed the end first.
func TestIDThatMovesGetsTheEndOnce(t *testing.T) {
	for name, c := range map[string]struct{ fromFirst, toFirst bool }{
		"nobody": {}, "the old channel": {fromFirst: true}, "the new channel": {toFirst: true}, "both": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &Device{owners: make(map[uint64]any)}
			woken := 0
			from := &events{d: d, wake: func() {}, ids: make(map[*id]struct{})}
			to := &events{d: d, wake: func() { woken++ }, ids: make(map[*id]struct{})}
			x := from.newID(&id{owner: "the id", local: netip.MustParseAddrPort("127.0.0.1:7")})
			if c.fromFirst {
				from.lose()
			}
			if c.toFirst {
				to.lose()
			}
			woken = 0
			x.move(from, to)
			if told := c.fromFirst || c.toFirst; (woken > 0) != told || x.Removed() != told {
				t.Errorf("woken %d times, removed %v", woken, x.Removed())
			}
			from.lose()
			to.lose()
			if e, ok := from.removed(); ok {
				t.Errorf("found %+v where it was", e)
			}
			if e, ok := to.removed(); !ok || e.Type != cmid.EventDeviceRemoval || e.Owner != "the id" {
				t.Errorf("found %+v, %v", e, ok)
			}
			if e, ok := to.removed(); ok {
				t.Errorf("found %+v once more", e)
			}
		})
	}
}

// The daemon answers where an id is and ends before this side has recorded it.
func TestIDThatIsLocatedAfterTheEndGetsIt(t *testing.T) {
	d := &Device{owners: make(map[uint64]any)}
	h := &events{d: d, wake: func() {}, ids: make(map[*id]struct{})}
	x := h.newID(&id{owner: "the id"})
	h.lose()
	if e, ok := h.removed(); ok {
		t.Errorf("found %+v of an id without a device", e)
	}
	x.local = netip.MustParseAddrPort("127.0.0.1:7")
	for range 2 {
		x.catchUp()
	}
	if e, ok := h.removed(); !ok || e.Type != cmid.EventDeviceRemoval || e.Owner != "the id" {
		t.Errorf("found %+v, %v", e, ok)
	}
	if e, ok := h.removed(); ok {
		t.Errorf("found %+v once more", e)
	}
}
