package testenv_test

import (
	"runtime"
	"sync"
	"testing"

	"softrdma/internal/testenv"
)

// A recorder is a testing.TB that records how it ends.
type recorder struct {
	testing.TB
	skipped, failed int
}

func (r *recorder) Helper() {}

func (r *recorder) Skip(...any) {
	r.skipped++
	runtime.Goexit()
}

func (r *recorder) Fatal(...any) {
	r.failed++
	runtime.Goexit()
}

func TestMissingProgramSkipsAndFailsInCI(t *testing.T) {
	there := map[string]string{"windows": "cmd"}[runtime.GOOS]
	if there == "" {
		there = "sh"
	}
	for _, c := range []struct {
		ci, name        string
		skipped, failed int
	}{
		{"", there, 0, 0},
		{"true", there, 0, 0},
		{"", "softrdma-no-such-program", 1, 0},
		{"true", "softrdma-no-such-program", 0, 1},
	} {
		t.Setenv("CI", c.ci)
		r := recorder{TB: t}
		var wg sync.WaitGroup
		wg.Go(func() { testenv.Programs(&r, c.name) })
		wg.Wait()
		if r.skipped != c.skipped || r.failed != c.failed {
			t.Errorf("CI=%q, %s: expected %d skips and %d failures, found %d and %d", c.ci, c.name, c.skipped, c.failed, r.skipped, r.failed)
		}
	}
}

func TestFreePortsAreNoPortsOfTheSystem(t *testing.T) {
	for _, network := range []string{"tcp", "udp"} {
		seen := map[int]bool{}
		for range 100 {
			port := testenv.FreePort(t, network)
			if port < 1024 || port >= 32768 || seen[port] {
				t.Errorf("%s: port %d, expected another one below those that Linux chooses from", network, port)
			}
			seen[port] = true
		}
	}
}
