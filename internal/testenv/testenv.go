// Package testenv checks that the machine has what a test needs, and runs test programs again
// as peers of a test. If something is missing, the test is skipped and says what is missing.
// In CI, which installs everything, it fails.
package testenv

import (
	"os"
	"os/exec"
	"testing"
)

// Lacks skips a test because this machine lacks something. In CI it fails the test.
func Lacks(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("CI lacks ", what)
	}
	t.Skip("SKIPPED: this machine lacks ", what)
}

// Programs calls Lacks for the first of the programs that is not installed.
func Programs(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			Lacks(t, name)
		}
	}
}

// Root skips a test that needs root, unless it runs as root. In CI it skips as well.
func Root(t testing.TB, something string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skipf("SKIPPED: not root (%s)", something)
	}
}

// SocketDir returns a new folder for Unix sockets, which is removed when the test ends. Its path is short, unlike
// that of t.TempDir: the path of a socket has at most 108 bytes.
func SocketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
