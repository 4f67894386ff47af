package rc

import (
	"math/rand/v2"
	"testing"
	"time"
)

// boardModel is a board as a plain set of what is missing.
type boardModel struct {
	una, high uint32
	state     map[uint32]holeState // of what is missing
}

func (m *boardModel) check(t *testing.T, b *board, seed uint64) {
	t.Helper()
	missing, gone := uint32(0), uint32(0)
	at := m.una
	for i, h := range b.list {
		if !before(h.first, h.end) || before(h.first, at) || before(b.high, h.end) {
			t.Fatalf("seed %d: hole %d of %+v is out of order", seed, i, b.list)
		}
		for ; at != h.end; at++ {
			s, ok := m.state[at]
			if ok != !before(at, h.first) || ok && s != h.state {
				t.Fatalf("seed %d: %d is missing: %v (%d), board %+v", seed, at, ok, s, b.list)
			}
			if ok {
				missing++
			}
			if ok && s == lost {
				gone++
			}
		}
	}
	for ; at != m.high; at++ {
		if _, ok := m.state[at]; ok {
			t.Fatalf("seed %d: %d is missing, board %+v", seed, at, b.list)
		}
	}
	if b.missing != missing || b.lost != gone || b.high != m.high {
		t.Fatalf("seed %d: missing %d, lost %d, up to %d; expected %d, %d, %d", seed, b.missing, b.lost, b.high, missing, gone, m.high)
	}
}

// TestBoardAgainstASet plays random arrivals, losses and repetitions, around
// the wrap of sequence numbers.
func TestBoardAgainstASet(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		start := uint32(0xffffff80)
		b := &board{high: start, done: start}
		m := &boardModel{una: start, high: start, state: map[uint32]holeState{}}
		for step := range 200 {
			now := time.Duration(step / 3)
			first := start + uint32(r.IntN(400))
			end := first + 1 + uint32(r.IntN(12))
			switch r.IntN(4) {
			case 0: // something behind has arrived
				end = m.high + 1 + uint32(r.IntN(10))
				s := []holeState{due, late}[r.IntN(2)]
				b.open(now, end, s)
				for ; m.high != end; m.high++ {
					m.state[m.high] = s
				}
			case 1: // a part has arrived
				i, k := b.within(first, end)
				b.remove(i, k)
				for e := first; e != end; e++ {
					delete(m.state, e)
				}
			case 2: // a part is lost
				i, k := b.within(first, end)
				for ; i < k; i++ {
					b.move(&b.list[i], lost)
				}
				for e := first; e != end; e++ {
					if _, ok := m.state[e]; ok {
						m.state[e] = lost
					}
				}
			case 3: // the first lost ones leave again
				i := b.toRepeat()
				if (i < 0) != (b.lost == 0) {
					t.Fatalf("seed %d: %d lost, the first in hole %d", seed, b.lost, i)
				}
				if i < 0 {
					continue
				}
				h := b.list[i]
				n := 1 + uint32(r.IntN(int(h.end-h.first)))
				b.sentAgain(now, h.first, h.first+n, m.high)
				for e := h.first; e != h.first+n; e++ {
					m.state[e] = resent
				}
			}
			m.check(t, b, seed)
		}
	}
}

func TestBoardKeepsABurstOfRepetitionsTogether(t *testing.T) {
	b := &board{high: 10}
	b.open(0, 30, late)
	b.move(&b.list[0], lost)
	for e := uint32(10); e < 30; e++ {
		b.sentAgain(5, e, e+1, 40)
	}
	if len(b.list) != 1 || b.list[0].state != resent || b.list[0].tries != 1 || b.lost != 0 || b.missing != 20 {
		t.Fatalf("%+v", b)
	}
}
