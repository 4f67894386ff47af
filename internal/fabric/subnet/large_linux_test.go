package subnet

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

// processorTime is what the process has used of the processors.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // what finalizers held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestLargeFabricIsSmall sets up a fat tree of more than 2,048 nodes. The bounds are several
// times what it takes: they catch what grows with the square of the nodes.
func TestLargeFabricIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short leaves out the fabric of 2,500 nodes, which the race detector makes slow")
	}
	const perNode, limit = 100 << 10, 10 * time.Second
	memory, start := heapInUse(), processorTime(t)
	r := newManaged(t, "fat-tree:k=20")
	took := processorTime(t) - start
	nodes := len(r.config.Fabric.Nodes)
	used := (heapInUse() - memory) / uint64(nodes)
	if status := r.manager.Status(); nodes < 2048 || status.Sweeps == 0 || status.Failures != 0 {
		t.Fatalf("%d nodes, %+v", nodes, status)
	}
	t.Logf("%d nodes: %v of processor time, %d bytes a node", nodes, took, used)
	if took > limit {
		t.Errorf("the manager needed %v of processor time for %d nodes, expected at most %v", took, nodes, limit)
	}
	if used > perNode {
		t.Errorf("%d bytes a node, expected at most %d", used, perNode)
	}
	runtime.KeepAlive(r)
}
