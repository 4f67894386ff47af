package daemon_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A program that only uses a daemon's devices must not link the adapter and the
// protocol machines.
func TestClientDoesNotLinkTheEngine(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "softrdma/internal/provider/daemon").Output()
	if err != nil {
		t.Skipf("go list: %v", err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "softrdma/internal/provider") {
		t.Fatalf("go list -deps does not name the contract: %v", deps)
	}
	for _, engine := range []string{"adapter", "cma", "cm", "machine", "rc", "uc", "ud", "iwarp", "link", "trace", "host"} {
		if slices.Contains(deps, "softrdma/internal/"+engine) {
			t.Errorf("the client of a daemon links internal/%s", engine)
		}
	}
}
