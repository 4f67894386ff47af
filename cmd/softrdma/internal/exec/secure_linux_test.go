package exec

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSetUserIDProgramsIgnorePreloadedLibraries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		what     string
		mode     os.FileMode
		uid, gid int
		why      string
	}{
		{"plain program", 0o755, os.Getuid(), os.Getgid(), ""},
		{"set-user-ID program of the user", os.ModeSetuid | 0o755, os.Getuid(), os.Getgid(), ""},
		{"set-group-ID program of the group", os.ModeSetgid | 0o755, os.Getuid(), os.Getgid(), ""},
		{"program of another user", 0o755, 65534, 65534, ""},
		{"set-user-ID program of another user", os.ModeSetuid | 0o755, 65534, os.Getgid(), "set-user-ID"},
		{"set-group-ID program of another group", os.ModeSetgid | 0o755, os.Getuid(), 65534, "set-group-ID"},
		{"file of mandatory locking", os.ModeSetgid | 0o745, os.Getuid(), 65534, ""},
	} {
		t.Run(x.what, func(t *testing.T) {
			if x.uid != os.Getuid() || x.gid != os.Getgid() {
				if os.Getuid() != 0 {
					t.Skip("SKIPPED: only root makes programs of other users")
				}
			}
			if err := os.Chown(path, x.uid, x.gid); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, x.mode); err != nil {
				t.Fatal(err)
			}
			if why := ignoresPreload(path); (why == "") != (x.why == "") || !strings.Contains(why, x.why) {
				t.Errorf("expected %q, found %q", x.why, why)
			}
		})
	}
}
