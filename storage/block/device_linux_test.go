package block

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/internal/testenv"
)

// TestBlockDeviceStoresBytes uses a loop device, which needs root.
func TestBlockDeviceStoresBytes(t *testing.T) {
	for name, direct := range map[string]bool{"page cache": false, "direct": true} {
		t.Run(name, func(t *testing.T) {
			device := loop(t)
			f, err := OpenFile(device, FileConfig{Direct: direct})
			if err != nil {
				t.Fatal(err)
			}
			storesBytes(t, f)
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if _, err := OpenFile(device, FileConfig{Size: 2 * size}); err == nil || !strings.Contains(err.Error(), "expected at most 262144 bytes") {
				t.Errorf("a block device was enlarged: %v", err)
			}
		})
	}
}

// loop returns the path of a block device.
func loop(t *testing.T) string {
	t.Helper()
	testenv.Root(t, "loop devices")
	testenv.Programs(t, "losetup")
	path := filepath.Join(t.TempDir(), "disk")
	f, err := OpenFile(path, FileConfig{Size: size})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", path).CombinedOutput()
	if err != nil {
		t.Skipf("SKIPPED: no loop device: %v: %s", err, out) // as in containers, in CI, too
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("losetup: %v: %s", err, out)
		}
	})
	return device
}
