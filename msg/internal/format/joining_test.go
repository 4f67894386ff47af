package format

import (
	"slices"
	"testing"

	"softrdma/verbs"
)

// Devices of one protocol are paired in order. Where one side has fewer, each of its devices has several
// partners.
func TestPairsAreOfOneProtocol(t *testing.T) {
	const r, i = verbs.RoCE, verbs.IWARP
	for _, c := range []struct {
		own, peers []verbs.Protocol
		want       []Pair
	}{
		{[]verbs.Protocol{r}, []verbs.Protocol{r}, []Pair{{0, 0}}},
		{[]verbs.Protocol{r}, []verbs.Protocol{i}, nil},
		{[]verbs.Protocol{r, i}, []verbs.Protocol{i, r}, []Pair{{0, 1}, {1, 0}}},
		{[]verbs.Protocol{r, r}, []verbs.Protocol{r}, []Pair{{0, 0}, {1, 0}}},
		{[]verbs.Protocol{i}, []verbs.Protocol{r, i, i}, []Pair{{0, 1}, {0, 2}}},
		{[]verbs.Protocol{r, r, r, i}, []verbs.Protocol{i, i, i, i}, []Pair{{3, 0}, {3, 1}, {3, 2}, {3, 3}}},
		{[]verbs.Protocol{r, i, i, i}, []verbs.Protocol{r, r, i, r}, []Pair{{0, 0}, {0, 1}, {0, 3}, {1, 2}}},
	} {
		var own, a Address
		for _, p := range c.own {
			own.Rails = append(own.Rails, RailAddress{Protocol: p})
		}
		for _, p := range c.peers {
			a.Rails = append(a.Rails, RailAddress{Protocol: p})
		}
		if got := Pairs(&own, &a); !slices.Equal(got, c.want) {
			t.Errorf("%v and %v: %v, expected %v", c.own, c.peers, got, c.want)
		}
	}
}
