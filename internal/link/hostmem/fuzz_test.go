package hostmem

import (
	"testing"

	"softrdma/internal/reason"
)

// FuzzSlot reads a slot with arbitrary contents. The results must lie within the ring.
func FuzzSlot(f *testing.F) {
	for _, kind := range []form{inSlot, inArena, byRef, forms} {
		h := Head{Port: 1}
		f.Add(h.first(kind, 28)|1, h.second(8), uint64(0), uint64(0))
		f.Add(h.first(kind, MaxHeader)|1, h.second(48), uint64(arenaSize-48), uint64(1))
		f.Add(h.first(kind, MaxHeader+1)|1, h.second(InlineMax+1), uint64(arenaSize), uint64(1))
		f.Add(h.first(kind, 255)|1, h.second(-1), ^uint64(0), ^uint64(0))
	}
	f.Add(uint64(0), uint64(0), uint64(0), uint64(0))
	f.Add(uint64(2), uint64(0), uint64(0), uint64(0))
	mem := make([]byte, AreaSize(1, 1))
	a := NewArea(mem, 1, 1)
	f.Fuzz(func(t *testing.T, first, second, third, fourth uint64) {
		r := a.Receiver(0, 0)
		for i, v := range []uint64{first, second, third, fourth} {
			shared(r.slots, 8*i).Store(v)
		}
		var m Received
		ok, fault := r.Next(&m)
		switch {
		case ok && (fault.Reason != reason.None || uint32(first) != 1):
			t.Errorf("a message with stamp %d, fault %v", uint32(first), fault)
		case !ok && (fault.Reason == reason.None) != (uint32(first) == 0):
			t.Errorf("no message with stamp %d, fault %v", uint32(first), fault)
		case ok:
			check(t, &m)
		}
	})
}
