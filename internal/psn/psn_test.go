package psn

import (
	"math/rand/v2"
	"testing"
)

func TestNewReducesTo24Bits(t *testing.T) {
	for v, want := range map[uint32]PSN{0: 0, 0xffffff: 0xffffff, 0x1000000: 0, 0xffffffff: 0xffffff, 0x12345678: 0x345678} {
		if got := New(v); got != want {
			t.Errorf("New(%#x) is %v, want %v", v, got, want)
		}
	}
}

func TestAddWraps(t *testing.T) {
	for _, c := range []struct {
		p    PSN
		n    int
		want PSN
	}{
		{0, 1, 1}, {0xffffff, 1, 0}, {0, -1, 0xffffff}, {5, -6, 0xffffff}, {0xfffffe, 5, 3},
		{1, 1 << 24, 1}, {1, -1 << 24, 1}, {7, 1 << 23, 0x800007}, {0, -(1 << 23), 0x800000},
	} {
		if got := c.p.Add(c.n); got != c.want {
			t.Errorf("%v plus %d is %v, want %v", c.p, c.n, got, c.want)
		}
	}
	if PSN(0xffffff).Next() != 0 || PSN(41).Next() != 42 {
		t.Error("Next does not wrap")
	}
}

func TestSubIsSignedDistance(t *testing.T) {
	for _, c := range []struct {
		p, q PSN
		want int
	}{
		{0, 0, 0}, {1, 0, 1}, {0, 1, -1}, {0, 0xffffff, 1}, {0xffffff, 0, -1},
		{0x7fffff, 0, 1<<23 - 1}, {0x800000, 0, -(1 << 23)}, {0, 0x800000, -(1 << 23)}, {0x800001, 2, 1<<23 - 1},
	} {
		if got := c.p.Sub(c.q); got != c.want {
			t.Errorf("%v minus %v is %d, want %d", c.p, c.q, got, c.want)
		}
		if c.p.Before(c.q) != (c.want < 0) || c.p.After(c.q) != (c.want > 0) {
			t.Errorf("%v against %v: before %v, after %v", c.p, c.q, c.p.Before(c.q), c.p.After(c.q))
		}
	}
}

func TestSubInvertsAdd(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 100000 {
		p, n := New(r.Uint32()), r.IntN(1<<24)-1<<23
		q := p.Add(n)
		if q != New(uint32(q)) || q.Sub(p) != n || q.Add(-n) != p {
			t.Fatalf("%v plus %d is %v, back %v, distance %d", p, n, q, q.Add(-n), q.Sub(p))
		}
		if n != 0 && n != -(1<<23) && p.Before(q) == q.Before(p) {
			t.Fatalf("%v and %v are not ordered", p, q)
		}
	}
}

func TestStringHasSixDigits(t *testing.T) {
	if got := PSN(0xab).String(); got != "0x0000ab" {
		t.Errorf("found %s", got)
	}
}
