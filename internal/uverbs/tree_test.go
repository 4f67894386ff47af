//go:build linux

package uverbs

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// readTree returns the contents of all files.
func readTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir+"/")] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestTreeFollowsItsContents(t *testing.T) {
	x := tree{dir: t.TempDir(), written: make(map[string]string)}
	for _, files := range []map[string]string{
		{"ports/1/lid": "0x0", "ports/1/gids/0": "a", "ports/1/gids/1": "b"},
		{"ports/1/lid": "0x1", "ports/1/gids/0": "a"},
		{"ports/1/lid": "0x1", "ports/1/gids/0": "a", "ports/1/gids/1": "c"},
	} {
		if err := x.update(files); err != nil {
			t.Fatal(err)
		}
		want := make(map[string]string)
		for name, text := range files {
			want[name] = text + "\n"
		}
		if got := readTree(t, x.dir); !maps.Equal(got, want) {
			t.Errorf("found %v, expected %v", got, want)
		}
	}
}

// A program that has a file open, or opens it while it is replaced, never reads half of it.
func TestTreeReplacesFilesAsAWhole(t *testing.T) {
	x := tree{dir: t.TempDir(), written: make(map[string]string)}
	if err := x.update(map[string]string{"lid": "0x1"}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(x.dir, "lid"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := x.update(map[string]string{"lid": "0x2"}); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 8)
	if n, err := f.Read(b); string(b[:n]) != "0x1\n" {
		t.Errorf("an open file changed to %q, %v", b[:n], err)
	}
}

// As in Linux a class has links to its devices' directories.
func TestTreeLinksClassesToDevices(t *testing.T) {
	x := tree{dir: t.TempDir(), written: make(map[string]string)}
	const name = "sys/class/infiniband/rxe0/ports/1/lid"
	for _, lid := range []string{"0x1", "0x2"} {
		if err := x.update(map[string]string{name: lid, "sys/class/infiniband_mad/abi_version": "5"}); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(x.dir, name)); string(b) != lid+"\n" {
			t.Errorf("found %q, %v", b, err)
		}
	}
	if to, err := os.Readlink(filepath.Join(x.dir, "sys/class/infiniband/rxe0")); to != "../../devices/virtual/infiniband/rxe0" {
		t.Errorf("link to %q, %v", to, err)
	}
	if err := x.update(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(x.dir, name)); err == nil {
		t.Error("the file was not removed")
	}
}
