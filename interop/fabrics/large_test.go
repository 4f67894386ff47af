//go:build interop && linux

package fabrics

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/interop/lab"
)

// TestOpenSMSetsUpALargeFabric lets opensm sweep 2,500 nodes. The bound is on what opensm and
// exec use of the processors, because other work on the machine makes the sweep take longer.
func TestOpenSMSetsUpALargeFabric(t *testing.T) {
	const processors, limit = time.Minute, 10 * time.Minute
	r := newRig(t, "--topology", "fat-tree:k=20", "--no-sm")
	start := time.Now()
	sm := r.at("node-0", "opensm", "-f", "stdout")
	for !strings.Contains(sm.said.String(), "SUBNET UP") {
		if ended(sm) || time.Since(start) > limit {
			t.Fatalf("no subnet after %v (%v):\n%s", time.Since(start), sm.err, lab.Tail(sm.said.String(), 3000))
		}
		time.Sleep(100 * time.Millisecond)
	}
	took := time.Since(start)
	if said := r.fabric("status"); !strings.Contains(said, "2500 assigned") {
		t.Errorf("%s", tail(said))
	}
	sm.signal(syscall.SIGTERM)
	<-sm.done
	state := sm.cmd.ProcessState
	used := state.UserTime() + state.SystemTime()
	t.Logf("%v, of which the processors worked %v", took, used)
	if used > processors {
		t.Errorf("opensm used %v of the processors, expected at most %v", used, processors)
	}
}
