package exec

import (
	"os"
	"path/filepath"
	"testing"

	"softrdma/cmd/softrdma/internal/cli"
)

func TestProgramOutsideThePathIsFound(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a-program-of-administrators")
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	if err := os.WriteFile(data, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		path string
		code int
	}{
		filepath.Base(path):             {path, 0},
		"no-such-program":               {"", 127},
		"data":                          {"", 127}, // as in a shell
		"./" + filepath.Base(path):      {"", 127},
		"sub/../" + filepath.Base(path): {"", 127},
		data:                            {"", 126},
		dir:                             {"", 126},
	} {
		found, err := lookPath(name, "/nowhere", dir)
		if err == nil && found != want.path || cli.ExitCode(err) != want.code {
			t.Errorf("%s: expected %+v, found %s, %v with code %d", name, want, found, err, cli.ExitCode(err))
		}
	}
}
