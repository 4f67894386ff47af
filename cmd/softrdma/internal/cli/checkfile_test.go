package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// CheckFile refuses what WriteFile could not write, and leaves nothing behind.
func TestCheckFileKnowsWhatCanBeWritten(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old")
	if err := os.WriteFile(old, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		old: true, filepath.Join(dir, "new"): true, dir: false, filepath.Join(dir, "none", "new"): false, filepath.Join(old, "new"): false,
	} {
		if err := CheckFile(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	list, err := os.ReadDir(dir)
	if text, _ := os.ReadFile(old); err != nil || len(list) != 1 || string(text) != "text" {
		t.Errorf("the directory has %v, the file %q", list, text)
	}
}
