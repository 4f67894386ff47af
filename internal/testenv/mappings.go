package testenv

import (
	"os"
	"strings"
	"testing"
)

// Mappings returns how many mappings this Linux process has of memory that peers on the same host share
// (verbs.AllocMemory).
func Mappings(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(b), "/memfd:softrdma-memory (deleted)")
}
