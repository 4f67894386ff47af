package simnet_test

import (
	"time"

	"softrdma/internal/simnet"
)

// A profile holds the network faults of a world. Every link has the same faults in both
// directions, so a packet meets them twice and a round trip four times.
type profile struct {
	name   string
	faults simnet.Faults
	buffer int // receive buffer, 0 for the default

	lossy    bool // packets may be lost, also by full queues
	harsh    bool // so lossy that retries may be exhausted
	disorder bool // packets may be reordered or duplicated

	lanes int                   // of every device
	steer func([]byte, int) int // instead of the system's; nil for the system's
}

// addLanes gives the devices of every fourth seed several lanes. On half of those, packets
// arrive at any lane, as those of batches do that were joined on their way, so they may
// overtake each other.
func (w *world) addLanes(seed uint64) {
	p := &w.profile
	switch p.lanes = 1; seed % 8 {
	case 3:
		p.lanes = 2
	case 5:
		p.lanes = 2 + int(seed>>3%2)
		astray := w.net.Random(3 << 32)
		p.steer, p.disorder = func(_ []byte, lanes int) int { return astray.IntN(lanes) }, true
	}
}

// newProfile draws a profile and the time limits that fit it.
func newProfile(w *world) (p profile) {
	r := w.rng
	f := &p.faults
	f.Delay = []time.Duration{time.Microsecond, 5 * time.Microsecond, 50 * time.Microsecond, time.Millisecond}[r.IntN(4)]
	if w.chance(30) {
		f.Jitter = time.Duration(r.Int64N(int64(f.Delay) + 1))
	}
	lose := func(limit float64) { f.Loss, p.lossy = limit*r.Float64(), true }
	shuffle := func(limit float64) {
		f.Reorder, f.ReorderBy, p.disorder = limit*r.Float64(), 1+time.Duration(r.Int64N(4*int64(f.Delay))), true
	}
	double := func(limit float64) { f.Duplicate, p.disorder = limit*r.Float64(), true }
	spoil := func(limit float64) { f.Corrupt, p.lossy = limit*r.Float64(), true }
	switch r.IntN(10) {
	case 0, 1:
		p.name = "clean"
	case 2:
		p.name = "loss"
		lose(0.01)
	case 3:
		p.name = "heavy loss"
		p.harsh = true
		lose(0.08)
	case 4:
		p.name = "reordering"
		shuffle(0.1)
	case 5:
		p.name = "duplication"
		double(0.2)
	case 6:
		p.name = "corruption"
		spoil(0.02)
	case 7:
		p.name = "narrow"
		f.Bandwidth = 1e8 << r.IntN(7)
		f.Queue = 32<<10 + r.IntN(256<<10)
		f.MarkAbove = f.Queue / 4
		p.lossy, p.harsh = true, true
	case 8:
		p.name = "small buffer"
		p.buffer = 16<<10 + r.IntN(64<<10)
		p.lossy, p.harsh = true, true
	case 9:
		p.name = "everything"
		lose(0.01)
		shuffle(0.03)
		double(0.03)
		spoil(0.01)
	}
	w.timeout = 1
	for 4096*time.Nanosecond<<w.timeout < 4*p.trip() {
		w.timeout++
	}
	w.timeout += uint8(r.IntN(3))
	w.pace = max(time.Microsecond, time.Duration(r.Int64N(int64(8*f.Delay))))
	return p
}

// trip returns an upper bound of a packet's delay in one direction.
func (p *profile) trip() time.Duration {
	f := &p.faults
	t := 2 * (f.Delay + f.Jitter + f.ReorderBy)
	if f.Bandwidth > 0 {
		t += 2 * time.Duration(float64(f.Queue+4096)*8/float64(f.Bandwidth)*float64(time.Second))
	}
	return t
}
