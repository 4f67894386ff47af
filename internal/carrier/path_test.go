package carrier

import (
	"testing"
	"time"
)

// Where a WRITE completes before its bytes are at the peer, as over iWARP, it says nothing of the path: a long one
// would count as short for good.
func TestWritesOfStreamsAreNotTimed(t *testing.T) {
	const trip = 20 * time.Millisecond
	for _, local := range []bool{false, true} {
		m := moves{local: local}
		m.path.Path(trip)
		i := m.begin(&Move{Write: true, Data: make([]byte, 1000)})
		if m.path.Timing() == local {
			t.Errorf("completes at the peer: %v, is timed: %v", !local, m.path.Timing())
		}
		m.end(i, true)
		if local && m.path.Short() {
			t.Error("a WRITE that TCP has taken makes the path a short one")
		}
		if m.begin(&Move{Data: make([]byte, 1000)}); local && !m.path.Timing() {
			t.Error("a READ is not timed")
		}
	}
}
