package scoreboard

import (
	"math/rand/v2"
	"testing"
	"time"

	"softrdma/internal/rc/seq"
)

// boardModel is a scoreboard as a plain set of what is missing.
type boardModel struct {
	una, high uint32
	state     map[uint32]State // of what is missing
}

func (m *boardModel) check(t *testing.T, b *Board, seed uint64) {
	t.Helper()
	missing, gone := uint32(0), uint32(0)
	at := m.una
	for i, h := range b.Holes {
		if !seq.Before(h.First, h.End) || seq.Before(h.First, at) || seq.Before(b.High, h.End) {
			t.Fatalf("seed %d: hole %d of %+v is out of order", seed, i, b.Holes)
		}
		for ; at != h.End; at++ {
			s, ok := m.state[at]
			if ok != !seq.Before(at, h.First) || ok && s != h.State {
				t.Fatalf("seed %d: %d is missing: %v (%d), board %+v", seed, at, ok, s, b.Holes)
			}
			if ok {
				missing++
			}
			if ok && s == Lost {
				gone++
			}
		}
	}
	for ; at != m.high; at++ {
		if _, ok := m.state[at]; ok {
			t.Fatalf("seed %d: %d is missing, board %+v", seed, at, b.Holes)
		}
	}
	if b.Missing != missing || b.Lost != gone || b.High != m.high {
		t.Fatalf("seed %d: missing %d, lost %d, up to %d; expected %d, %d, %d", seed, b.Missing, b.Lost, b.High, missing, gone, m.high)
	}
}

// TestBoardAgainstASet plays random arrivals, losses and repetitions, around
// the wrap of sequence numbers.
func TestBoardAgainstASet(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		start := uint32(0xffffff80)
		b := &Board{High: start, Executed: start}
		m := &boardModel{una: start, high: start, state: map[uint32]State{}}
		for step := range 200 {
			now := time.Duration(step / 3)
			first := start + uint32(r.IntN(400))
			end := first + 1 + uint32(r.IntN(12))
			switch r.IntN(4) {
			case 0: // something behind has arrived
				end = m.high + 1 + uint32(r.IntN(10))
				s := []State{Pending, Late}[r.IntN(2)]
				b.Open(now, end, s)
				for ; m.high != end; m.high++ {
					m.state[m.high] = s
				}
			case 1: // a part has arrived
				i, k := b.Within(first, end)
				b.Fill(i, k)
				for e := first; e != end; e++ {
					delete(m.state, e)
				}
			case 2: // a part is lost
				i, k := b.Within(first, end)
				for ; i < k; i++ {
					b.Move(&b.Holes[i], Lost)
				}
				for e := first; e != end; e++ {
					if _, ok := m.state[e]; ok {
						m.state[e] = Lost
					}
				}
			case 3: // the first lost ones leave again
				i := b.FirstLost()
				if (i < 0) != (b.Lost == 0) {
					t.Fatalf("seed %d: %d lost, the first in hole %d", seed, b.Lost, i)
				}
				if i < 0 {
					continue
				}
				h := b.Holes[i]
				n := 1 + uint32(r.IntN(int(h.End-h.First)))
				b.SentAgain(now, h.First, h.First+n, m.high)
				for e := h.First; e != h.First+n; e++ {
					m.state[e] = Resent
				}
			}
			m.check(t, b, seed)
		}
	}
}

func TestBoardKeepsABurstOfRepetitionsTogether(t *testing.T) {
	b := &Board{High: 10}
	b.Open(0, 30, Late)
	b.Move(&b.Holes[0], Lost)
	for e := uint32(10); e < 30; e++ {
		b.SentAgain(5, e, e+1, 40)
	}
	if len(b.Holes) != 1 || b.Holes[0].State != Resent || b.Holes[0].Tries != 1 || b.Lost != 0 || b.Missing != 20 {
		t.Fatalf("%+v", b)
	}
}
