package relay

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"
)

// frame returns an Ethernet frame of n bytes with a number and an ECN field.
func frame(n int, number uint32, ecn byte) []byte {
	f := make([]byte, n)
	binary.BigEndian.PutUint16(f[12:], etherIPv4)
	f[14], f[15] = 0x45, ecn
	binary.BigEndian.PutUint32(f[40:], number)
	return f
}

func number(f []byte) uint32 { return binary.BigEndian.Uint32(f[40:]) }

// A crossing is the result of sending frames through a path at a fixed interval.
type crossing struct {
	numbers []uint32
	at      []time.Duration
	stats   Stats
}

func cross(c Config, count, size int, every time.Duration, ecn byte) (x crossing) {
	w := NewPath(c)
	leave := func(until time.Duration) {
		for at, ok := w.Next(); ok && at <= until; at, ok = w.Next() {
			f, due := w.Leave(at)
			if due != at || len(f) != size {
				panic("Leave and Next disagree")
			}
			x.numbers, x.at = append(x.numbers, number(f)), append(x.at, at)
		}
	}
	for i := range count {
		now := time.Duration(i) * every
		leave(now)
		w.Enter(now, frame(size, uint32(i), ecn))
	}
	leave(math.MaxInt64)
	x.stats = w.Stats()
	return x
}

func TestPathRateAndDelay(t *testing.T) {
	const size, delay = 1000, 500 * time.Microsecond
	wire := time.Duration((size + wireOverhead) * 8) // at 1 Gbit/s, in nanoseconds
	x := cross(Config{Rate: 1e9, Queue: 1 << 20, Delay: delay}, 100, size, 0, 0)
	for i, at := range x.at {
		if want := delay + time.Duration(i+1)*wire; at != want || x.numbers[i] != uint32(i) {
			t.Fatalf("frame %d left as number %d at %v, expected %v", i, x.numbers[i], at, want)
		}
	}
	if x.stats != (Stats{Entered: 100, Left: 100, Peak: 99*wireBytes(size) + size, Bytes: 100 * size}) {
		t.Errorf("%+v", x.stats)
	}
}

func wireBytes(size int) int { return size + wireOverhead }

func TestPathFullQueueDrops(t *testing.T) {
	const size = 1000
	x := cross(Config{Rate: 1e9, Queue: 10 * wireBytes(size)}, 100, size, 0, 0)
	if x.stats.Left != 10 || x.stats.Dropped != 90 || x.stats.Peak > 10*wireBytes(size) {
		t.Errorf("a queue of ten frames: %+v", x.stats)
	}
	// At half the rate of the link no frame waits.
	x = cross(Config{Rate: 1e9, Queue: 10 * wireBytes(size)}, 100, size, 16*time.Microsecond+400, 0)
	if x.stats.Left != 100 || x.stats.Peak != size {
		t.Errorf("without congestion: %+v", x.stats)
	}
}

func TestPathLaterPeakIgnoresTheStart(t *testing.T) {
	const size = 1000
	w := NewPath(Config{Rate: 1e9, Queue: 1 << 20})
	for range 500 {
		w.Enter(0, frame(size, 0, 0))
	}
	for now := time.Duration(0); now < time.Second; now += time.Millisecond {
		w.Enter(now, frame(size, 0, 0))
	}
	if s := w.Stats(); s.Peak < 500*size || w.LaterPeak() != size {
		t.Errorf("peak %d, later %d", s.Peak, w.LaterPeak())
	}
}

func TestPathLossAndReorderingMatchConfig(t *testing.T) {
	const count, loss, late, by = 100_000, 0.05, 0.01, 300 * time.Microsecond
	c := Config{Rate: 1e9, Queue: 1 << 20, Delay: time.Millisecond, Loss: loss, Reorder: late, ReorderBy: by, Seed: 3}
	x := cross(c, count, 100, 10*time.Microsecond, 0)
	s := x.stats
	if got := float64(s.Lost) / count; math.Abs(got-loss) > loss/10 {
		t.Errorf("%v lost, expected %v", got, loss)
	}
	if got := float64(s.Reordered) / count; math.Abs(got-late) > late/5 {
		t.Errorf("%v reordered, expected %v", got, late)
	}
	if s.Entered != s.Left+s.Lost+s.Dropped || s.Dropped != 0 || s.Waiting() != 0 || len(x.numbers) != s.Left {
		t.Errorf("frames are unaccounted for: %+v", s)
	}
	passed := 0
	for i, n := range x.numbers {
		if i > 0 && n < x.numbers[i-1] {
			passed++
			if behind := time.Duration(x.numbers[i-1]-n) * 10 * time.Microsecond; behind > by {
				t.Fatalf("frame %d came %v late, at most %v expected", n, behind, by)
			}
		}
	}
	if passed < s.Reordered/2 {
		t.Errorf("%d of %d late frames were passed by others", passed, s.Reordered)
	}
	if slices.Sort(x.numbers); len(slices.Compact(x.numbers)) != s.Left {
		t.Error("a frame left twice")
	}
}

func TestPathIsDeterministic(t *testing.T) {
	c := Config{Rate: 1e9, Queue: 1 << 20, Loss: 0.1, Reorder: 0.1, ReorderBy: time.Millisecond, Seed: 7}
	a, b := cross(c, 1000, 100, time.Microsecond, 0), cross(c, 1000, 100, time.Microsecond, 0)
	c.Seed = 8
	other := cross(c, 1000, 100, time.Microsecond, 0)
	if !slices.Equal(a.numbers, b.numbers) || !slices.Equal(a.at, b.at) {
		t.Error("two runs with one seed differ")
	}
	if slices.Equal(a.numbers, other.numbers) {
		t.Error("runs with two seeds are equal")
	}
}

func TestPathMarksECNCapablePacketsInALongQueue(t *testing.T) {
	const size = 1000
	c := Config{Rate: 1e9, Queue: 1 << 20, MarkAbove: 10 * wireBytes(size)}
	for ecn, want := range map[byte]int{0: 0, 1: 89, 2: 89, 3: 89} {
		if x := cross(c, 100, size, 0, ecn); x.stats.Marked != want || x.stats.Left != 100 {
			t.Errorf("ECN field %02b: %d marked, expected %d", ecn, x.stats.Marked, want)
		}
	}
}

func TestMarkUpdatesTheHeaderChecksum(t *testing.T) {
	sum := func(h []byte) (s uint32) {
		for ; len(h) > 0; h = h[2:] {
			s += uint32(binary.BigEndian.Uint16(h))
		}
		for s > 0xffff {
			s = s&0xffff + s>>16
		}
		return s
	}
	for id := range uint32(1 << 16) {
		f := frame(60, 0, byte(id%4))
		binary.BigEndian.PutUint16(f[18:], uint16(id))
		binary.BigEndian.PutUint16(f[24:], ^uint16(sum(f[14:34])))
		if capable := id%4 != notCapable; mark(f) != capable || capable && f[15]&ecnMask != congested {
			t.Fatalf("ECN field %02b is %02b after the mark", id%4, f[15]&ecnMask)
		}
		if s := sum(f[14:34]); s != 0xffff {
			t.Fatalf("identification %#x: header sums up to %#x", id, s)
		}
	}
}

func TestMarkLeavesOtherFramesUnchanged(t *testing.T) {
	v6 := make([]byte, 60)
	binary.BigEndian.PutUint16(v6[12:], etherIPv6)
	v6[14], v6[15] = 0x60, 0x20 // ECN-capable
	if !mark(v6) || v6[14] != 0x60 || v6[15] != 0x30 {
		t.Errorf("IPv6: % x", v6[14:16])
	}
	arp := make([]byte, 60)
	binary.BigEndian.PutUint16(arp[12:], 0x0806)
	for name, f := range map[string][]byte{"ARP": arp, "short": v6[:20], "empty": nil, "short IPv4": frame(60, 0, 2)[:30]} {
		before := slices.Clone(f)
		if mark(f) || !bytes.Equal(f, before) {
			t.Errorf("%s was marked", name)
		}
	}
}

func TestPathDoesNotAllocate(t *testing.T) {
	w := NewPath(Config{Rate: 1e9, Queue: 1 << 20, Delay: time.Millisecond, Loss: 0.01, Reorder: 0.01, ReorderBy: time.Millisecond})
	f, now := frame(1000, 0, 0), time.Duration(0)
	step := func() {
		now += 10 * time.Microsecond
		w.Enter(now, f)
		for b, _ := w.Leave(now); b != nil; b, _ = w.Leave(now) {
		}
	}
	for range 10_000 {
		step()
	}
	w.peaks = append(w.peaks, make([]int, 100)...)[:len(w.peaks)] // one number each 10 ms
	if n := testing.AllocsPerRun(10_000, step); n != 0 {
		t.Errorf("%v allocations for a frame", n)
	}
}

func BenchmarkPath(b *testing.B) {
	w := NewPath(Config{Rate: 1e9, Queue: 1 << 20, Delay: 10 * time.Millisecond})
	f, now := frame(1100, 0, 0), time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		now += 10 * time.Microsecond
		w.Enter(now, f)
		for g, _ := w.Leave(now); g != nil; g, _ = w.Leave(now) {
		}
	}
}
