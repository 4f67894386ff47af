// Package testenv tells tests what the machine has, and starts test programs again as peers of a test. A
// test that lacks something is skipped and says so. In CI, which installs everything, it fails.
package testenv

import (
	"os"
	"os/exec"
	"testing"
)

// Lacks ends a test for which this machine lacks something.
func Lacks(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("CI lacks ", what)
	}
	t.Skip("SKIPPED: this machine lacks ", what)
}

// Programs ends a test unless programs are installed.
func Programs(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			Lacks(t, name)
		}
	}
}

// Root skips a test unless it runs as root, which it needs for something. That holds in CI, too.
func Root(t testing.TB, something string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skipf("SKIPPED: not root (%s)", something)
	}
}
