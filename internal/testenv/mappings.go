package testenv

import (
	"os"
	"strings"
	"testing"
)

// Mappings returns how often this Linux process has mapped memory that is shared with peers on the same
// host (verbs.AllocMemory).
func Mappings(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "/memfd:softrdma-memory (deleted)")
}
