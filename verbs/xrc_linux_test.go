package verbs_test

import "testing"

func TestXRCOperationsOnEveryPath(t *testing.T) {
	onEveryPath(t, func(t *testing.T, a, b *side) {
		x := newXRCPair(t, a.dev, b.dev)
		x.exercise(t)
		if found, want := x.qp.Path(), a.qp.Path(); found != want {
			t.Errorf("path %q, expected %q as RC has", found, want)
		}
	})
}
