package testenv

import (
	"os"
	"strings"
	"testing"
)

// Mappings returns how many mappings of memory shared with peers on the same host
// (verbs.AllocMemory) this Linux process has.
func Mappings(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "/memfd:softrdma-memory (deleted)")
}
