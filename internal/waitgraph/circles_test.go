package waitgraph

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCirclesAreThoseOfAPlainSearch compares the sets with the lanes that reach each other.
func TestCirclesAreThoseOfAPlainSearch(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := 1 + r.IntN(12)
		edges := make([][]int, n)
		reach := make([][]bool, n)
		for i := range n {
			reach[i] = make([]bool, n)
		}
		for range r.IntN(2 * n) {
			a, b := r.IntN(n), r.IntN(n)
			edges[a], reach[a][b] = append(edges[a], b), true
		}
		for k := range n { // Warshall, 1962
			for i := range n {
				for j := range n {
					reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
				}
			}
		}
		next := func(i int) []int { return edges[i] }
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		set := map[int][]int{}
		for _, s := range Circles(all, next) {
			for _, i := range s {
				set[i] = s
			}
			circle := Around(s, next)
			for i, at := range circle {
				if to := circle[(i+1)%len(circle)]; !slices.Contains(edges[at], to) {
					t.Errorf("seed %d: %d does not wait for %d in %v", seed, at, to, circle)
				}
			}
			if len(circle) == 0 {
				t.Errorf("seed %d: no circle in %v", seed, s)
			}
		}
		for i := range n {
			for j := range n {
				if want := reach[i][j] && reach[j][i]; want != slices.Contains(set[i], j) {
					t.Fatalf("seed %d: %d and %d in one set: %v, expected %v", seed, i, j, !want, want)
				}
			}
		}
	}
}
