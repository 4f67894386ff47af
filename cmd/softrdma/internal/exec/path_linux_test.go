package exec

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestProgramOutsideThePathIsNamed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a-program-of-administrators")
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, names := range map[string]bool{filepath.Base(path): true, "no-such-program": false, "./" + filepath.Base(path): false} {
		_, err := exec.LookPath(name)
		if got := notFound(err, name, "/nowhere", dir); got == nil || strings.Contains(got.Error(), path) != names {
			t.Errorf("%s: found %v", name, got)
		}
	}
}
