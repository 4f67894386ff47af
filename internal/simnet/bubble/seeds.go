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

// Seeds plays the seeds that the flags -first and -seeds give, in -short runs short of them at most, each
// in a bubble of its own. It returns how many they were. Play returns what was wrong with a run.
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
