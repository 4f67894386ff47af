package congestion

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// A hostile reader gives a control what its bytes say: a peer that lies, a path that changes, a clock that stands.
type hostile struct {
	b      []byte
	now    time.Duration
	rtt    RTT
	flight int64 // no more arrives or is lost than was sent: the connection refuses such answers
}

func (h *hostile) next() byte {
	if len(h.b) == 0 {
		return 0
	}
	v := h.b[0]
	h.b = h.b[1:]
	return v
}

// number returns a number of any size, small ones as often as large ones.
func (h *hostile) number(bits byte) int64 {
	var v [8]byte
	h.b = h.b[copy(v[:], h.b):]
	return int64(binary.LittleEndian.Uint64(v[:])>>1) >> (63 - h.next()%bits)
}

// leaves returns a part of what is in flight, which is in flight no longer.
func (h *hostile) leaves() int {
	n := min(h.number(32), h.flight)
	h.flight -= n
	return int(n)
}

// step calls one method of the control.
func (h *hostile) step(c Control) {
	h.now += time.Duration(h.number(31))
	switch h.next() % 8 {
	case 0, 1, 2:
		took := time.Duration(h.number(42))
		if took > 0 {
			h.rtt.Sample(h.now, took)
		}
		c.Acked(h.now, h.leaves(), took, &h.rtt)
	case 3, 4:
		n := h.number(17)
		h.flight += n
		c.Sent(h.now, int(n), h.flight)
	case 5:
		c.Lost(h.now, h.leaves(), &h.rtt)
	case 6:
		c.Notified(h.now, &h.rtt)
	case 7:
		c.Timeout(h.now)
	}
}

// check fails the test if the control has left its bounds.
func (h *hostile) check(t *testing.T, k Kind, c Control, l Limits) {
	if w := c.Window(); w < min(l.Packet, l.Window) || w > max(l.Window, l.Long) {
		t.Fatalf("%v: a window of %d", k, w)
	}
	if r := c.Rate(); math.IsNaN(r) || math.IsInf(r, 0) || r < 0 {
		t.Fatalf("%v: a rate of %v", k, r)
	}
	if at := c.Ready(h.now); c.Rate() == 0 && at > h.now {
		t.Fatalf("%v: waits for %v without a rate", k, at-h.now)
	}
}

// FuzzControls gives all controls any sequence of calls: their windows and rates stay within bounds, and they do not panic.
func FuzzControls(f *testing.F) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 8 {
		b := make([]byte, 2000)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		limits := longLimits
		for k := range kinds {
			for _, c := range []Control{New(k, limits), NewFetch(k, limits)} {
				h := hostile{b: b}
				for len(h.b) > 0 {
					h.step(c)
					h.check(t, k, c, limits)
				}
			}
		}
	})
}

// TestPathRecoversFromOddAnswers checks that whatever a path's control was told, it fills an ordinary path soon afterwards.
func TestPathRecoversFromOddAnswers(t *testing.T) {
	const trip = 20 * time.Millisecond
	limits := Limits{Window: testLimit, Long: 4 << 20, Packet: testPacket}
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 7))
		b := make([]byte, 4000)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		for _, k := range []Kind{Default, Path} {
			line := newBottleneck(100*mbit, trip, 256<<10, 0)
			f := line.add(New(k, limits))
			h := hostile{b: b}
			for len(h.b) > 0 {
				h.step(f.ctl)
			}
			line.now, f.rtt = h.now, h.rtt
			used := line.between(line.now+5*time.Second, line.now+7*time.Second)[0] / line.rate
			if used < .8 {
				t.Errorf("%v, seed %d: %.2f of the line after odd answers", k, seed, used)
			}
		}
	}
}
