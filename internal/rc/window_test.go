package rc

import "testing"

func TestWindowGrowsToLimitAndHalvesOnLoss(t *testing.T) {
	const mtu, limit = 1024, 1 << 20
	var w window
	w.start(limit)
	acked := uint32(0xffff0000) // wraps
	w.counted = acked
	if w.size != initialWindow {
		t.Fatalf("starts with %d, expected %d", w.size, initialWindow)
	}
	for i := range 3 { // all of a window acknowledged doubles it
		acked += uint32(w.size)
		before := w.size
		w.grow(acked, mtu, limit)
		if w.size != min(2*before, limit) {
			t.Fatalf("round %d: %d after %d", i, w.size, before)
		}
	}
	w.shrink(mtu, limit)
	if w.size != limit/2 {
		t.Fatalf("after a loss %d, expected %d", w.size, limit/2)
	}
	for range w.size / mtu { // now it grows by one packet for each window
		acked += mtu
		w.grow(acked, mtu, limit)
	}
	if got := w.size - limit/2; got < mtu-mtu/8 || got > mtu {
		t.Fatalf("grew by %d in one window, expected about %d", got, mtu)
	}
	for range 40 {
		w.shrink(mtu, limit)
	}
	if w.size != 4*(mtu+overhead) {
		t.Fatalf("least window %d, expected four packets", w.size)
	}
}
