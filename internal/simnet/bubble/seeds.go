package bubble

import (
	"flag"
	"strings"
	"testing"
	"testing/synctest"
)

var (
	firstSeed = flag.Uint64("first", 0, "first seed of each test on the simulated network")
	seeds     = flag.Int("seeds", 1000, "seeds of each test on the simulated network")
)

// Seeds runs the seeds that the flags -first and -seeds select, at most short of them in
// -short runs, each in its own bubble, and returns their number. Play returns the error of a
// run.
func Seeds(t *testing.T, short int, play func(t *testing.T, seed uint64) (wrong []string)) (n int) {
	t.Helper()
	n = *seeds
	if testing.Short() {
		n = min(n, short)
	}
	for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
		var wrong []string
		synctest.Test(t, func(t *testing.T) { wrong = play(t, seed) })
		if len(wrong) > 0 {
			t.Errorf("%s\nagain, in the package's folder: go test -run '^%s$' -args -first %d -seeds 1", strings.Join(wrong, "\n"), t.Name(), seed)
		}
	}
	return n
}
