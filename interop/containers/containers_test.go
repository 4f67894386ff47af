//go:build interop && linux

package containers

import (
	"strings"
	"testing"
)

// auto and shared are the flags of the two devices.
var (
	auto   = []string{"--device", "softrdma/rdma=auto"}
	shared = []string{"--device", "softrdma/rdma=shared"}
)

// A client may come before its server listens.
const (
	writeServer = "ib_write_bw -n 1000"
	writeClient = "for i in 1 2 3 4 5 6 7 8 9; do ib_write_bw -n 1000 $SERVER && exit; sleep .3; done; exit 1"
	written     = "\n 65536      1000 "
)

func TestContainersReachEachOther(t *testing.T) {
	if !inside(t) {
		return
	}
	e := newEngine(t)
	hardened := []string{"--read-only", "--read-only-tmpfs=false", "--cap-drop", "all", "--user", "65534:65534", "--security-opt", "no-new-privileges"}
	memoryOnly := []string{"--env", "SOFTRDMA_SAME_HOST=require"}
	for _, c := range []struct {
		name  string
		flags []string
	}{
		{"network", auto},
		{"memory", concat(shared, memoryOnly)},
		{"network, without rights", concat(auto, hardened)},
		{"memory, without rights", concat(shared, memoryOnly, hardened)},
	} {
		if out, err := e.pair(hostImage, c.flags, writeServer, writeClient); err != nil || !strings.Contains(out, written) {
			t.Errorf("%s: %v, expected %q in its output, found:\n%s", c.name, err, written, out)
		}
	}
	if out, err := e.pair(hostImage, concat(auto, memoryOnly), writeServer, "ib_write_bw -n 1000 $SERVER"); err == nil {
		t.Errorf("containers with the device auto found memory that they share:\n%s", out)
	}
}

func concat(parts ...[]string) (all []string) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
