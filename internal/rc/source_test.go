package rc

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/wire/ib"
)

// A source has the payload of a packet. It fails as if the payload could not be read, perhaps after
// it has written other bytes.
type source struct {
	payload []byte
	fails   bool
	mem     []byte // of the node that reads
	direct  *int   // loads to that memory
}

func (s *source) Load(dst []byte, off int) bool {
	if at := memory.Addr(dst) - memory.Addr(s.mem); at < uint64(len(s.mem)) {
		*s.direct++
	}
	copy(dst, s.payload[off:])
	if s.fails {
		clear(dst)
	}
	return !s.fails
}

// Payloads are copied from their sources to the memory of the request, in order or not, and those that
// cannot be read are sent again.
func TestPayloadsAreCopiedFromTheirSources(t *testing.T) {
	for _, selective := range []bool{false, true} {
		for _, longest := range []int{1, 4, 64} {
			for _, lossy := range []bool{false, true} {
				t.Run(fmt.Sprintf("selective %v longest %d lossy %v", selective, longest, lossy), func(t *testing.T) {
					direct := 0
					for seed := range uint64(20) {
						direct += copyFromSources(t, selective, longest, lossy, seed)
					}
					if direct == 0 {
						t.Error("all payloads were copied twice")
					}
				})
			}
		}
	}
}

func copyFromSources(t *testing.T, selective bool, longest int, lossy bool, seed uint64) (direct int) {
	rng := rand.New(rand.NewPCG(seed, 2))
	w := newPair(t, nil)
	if selective {
		w = newSelective(t, nil)
	}
	w.fastPath = seed%2 == 1
	w.longest = func() int { return longest }
	a, b := w.n[0], w.n[1]
	if lossy {
		w.fate = func(int, int, *ib.Packet) (copies, late int) {
			switch rng.IntN(12) {
			case 0:
				return 0, 0
			case 1:
				return 2, rng.IntN(3)
			}
			return 1, 0
		}
	}
	w.source = func(i int, payload []byte) machine.Source {
		return &source{payload, lossy && rng.IntN(8) == 0, w.n[i].mem, &direct}
	}
	const n, rounds = 9*testMTU + 5, 4
	fill(a.mem, 3)
	fill(b.mem[:rounds*n], 7)
	want, answers := bytes.Clone(a.mem), bytes.Clone(b.mem[:rounds*n])
	halves := func(x *node, at int) []memory.SGE {
		first := rng.IntN(n)
		return []memory.SGE{x.sge(at, first), x.sge(at+first, n-first)}
	}
	for i := range rounds {
		b.postRecv(uint64(i), halves(b, (rounds+i)*n)...)
		a.post(wqe{op: queue.Read, list: halves(a, i*n), remote: b.target(i * n)})
		a.post(wqe{op: queue.Send, list: halves(a, (rounds+i)*n)})
		a.post(wqe{op: queue.Write, list: halves(a, (2*rounds+i)*n), remote: b.target((2*rounds + i) * n)})
	}
	w.settle()
	w.wantStatuses(&a.send, make([]queue.Status, 3*rounds)...)
	w.wantStatuses(&b.recv, make([]queue.Status, rounds)...)
	if !bytes.Equal(a.mem[:rounds*n], answers) || !bytes.Equal(b.mem[rounds*n:3*rounds*n], want[rounds*n:3*rounds*n]) {
		t.Errorf("seed %d: other bytes arrived", seed)
	}
	return direct
}
