package slots

import (
	"math/rand/v2"
	"slices"
	"testing"

	"softrdma/verbs"
)

// Slots come back in the order in which they were used, each once, and there is always a completion
// that frees one.
func TestSentSlotsComeBackInOrder(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var s Ring
		var vacant, sent []int // the model's order
		for i := range RingLen {
			vacant = append(vacant, i)
		}
		var signaled []int
		var total uint64
		for range 1000 {
			switch {
			case len(vacant) > 0 && rng.IntN(3) > 0:
				k := rng.IntN(len(vacant))
				i := vacant[k]
				vacant = slices.Delete(vacant, k, k+1)
				sent = append(sent, i)
				total++
				if s.Add(i, rng.IntN(50) == 0)&verbs.Signaled != 0 {
					signaled = append(signaled, i)
				}
			case rng.IntN(20) == 0: // a flush behind all but some
				behind := rng.IntN(len(sent) + 1)
				n := len(sent) - behind
				vacant = takeBack(t, s.Before(total-uint64(behind), nil), &sent, &signaled, n, vacant)
			case len(signaled) > 0:
				n := slices.Index(sent, signaled[0]) + 1
				vacant = takeBack(t, s.UpTo(signaled[0], nil), &sent, &signaled, n, vacant)
			}
			if len(vacant) == 0 && len(signaled) == 0 {
				t.Fatalf("seed %d: no completion will free a slot", seed)
			}
		}
	}
}

// takeBack checks that the n oldest slots came back.
func takeBack(t *testing.T, got []int, sent, signaled *[]int, n int, vacant []int) []int {
	t.Helper()
	if !slices.Equal(got, (*sent)[:n]) {
		t.Fatalf("slots %v came back, expected %v", got, (*sent)[:n])
	}
	*sent = slices.Delete(*sent, 0, n)
	*signaled = slices.DeleteFunc(*signaled, func(i int) bool { return slices.Contains(got, i) })
	return append(vacant, got...)
}
