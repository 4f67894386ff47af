//go:build linux

package library

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

// contents returns a file and its SHA-256.
func contents(t *testing.T, text string) (fs.File, string) {
	t.Helper()
	f, err := fstest.MapFS{"f": &fstest.MapFile{Data: []byte(text)}}.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(text))
	return f, hex.EncodeToString(sum[:])
}

// open opens a cache in a directory that passes its checks, wherever TMPDIR is.
func open(t *testing.T) *Cache {
	t.Helper()
	c, err := OpenCache(filepath.Join(t.TempDir(), "cache", "softrdma"))
	if err != nil {
		t.Skipf("SKIPPED: no directory for a cache: %v", err)
	}
	return c
}

// take returns the cached copy of a library with a text, which must have that text.
func take(t *testing.T, c *Cache, text string) *File {
	t.Helper()
	from, sum := contents(t, text)
	f, err := c.Library("engine", sum, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if b, err := os.ReadFile(f.Path); string(b) != text {
		t.Fatalf("found contents %q, %v", b, err)
	}
	return f
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	s, err := stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return s.Ino
}

func TestCacheUsesTheCopyThatItHas(t *testing.T) {
	c := open(t)
	first := take(t, c, "library")
	was := inode(t, first.Path)
	if second := take(t, c, "library"); second.Path != first.Path || inode(t, second.Path) != was {
		t.Error("the library was written twice")
	}
	s, err := stat(first.Path)
	if err != nil || s.Mode&0o7777 != fileMode {
		t.Errorf("found mode %#o, %v", s.Mode, err)
	}
}

func TestCacheReplacesFilesThatAreNotAsWritten(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"writable by others": func(path string) error { return os.Chmod(path, 0o522) },
		"too short":          func(path string) error { return os.Truncate(path, 3) },
		"symbolic link": func(path string) error {
			other := filepath.Join(t.TempDir(), "other")
			if err := os.WriteFile(other, []byte("LIBRARY"), fileMode); err != nil {
				return err
			}
			return os.Rename(link(t, other), path)
		},
		"pipe": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return unix.Mkfifo(path, fileMode)
		},
		"another user's": func(path string) error {
			if os.Geteuid() != 0 {
				t.Log("SKIPPED another user's file: not root")
				return nil
			}
			return os.Chown(path, 1, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t)
			f := take(t, c, "library")
			if err := os.Chmod(f.Path, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := change(f.Path); err != nil {
				t.Fatal(err)
			}
			if again := take(t, c, "library"); again.Path != f.Path {
				t.Errorf("found %s", again.Path)
			}
			s, err := stat(f.Path)
			if err != nil || s.Mode != unix.S_IFREG|fileMode || int(s.Uid) != os.Geteuid() {
				t.Errorf("found mode %#o of user %d, %v", s.Mode, s.Uid, err)
			}
		})
	}
}

// link returns a symbolic link to a path.
func link(t *testing.T, path string) string {
	t.Helper()
	l := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, l); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCacheKeepsNoContentsWithAnotherSum(t *testing.T) {
	c := open(t)
	_, sum := contents(t, "library")
	other, _ := contents(t, "LIBRARY")
	if f, err := c.Library("engine", sum, other); err == nil {
		f.Close()
		t.Fatal("the contents were accepted")
	}
	if entries, err := os.ReadDir(c.dir); len(entries) != 0 || err != nil {
		t.Errorf("found %v, %v", entries, err)
	}
}

func TestCacheRemovesUnusedOldCopies(t *testing.T) {
	c := open(t)
	used, unused := take(t, c, "first"), take(t, c, "second")
	unused.Close()
	take(t, c, "third")
	if _, err := os.Stat(used.Path); err != nil {
		t.Errorf("a copy in use: %v", err)
	}
	if _, err := os.Stat(unused.Path); err == nil {
		t.Error("a copy that nobody uses is still there")
	}
}

func TestCacheRefusesPathsThatOthersCanChange(t *testing.T) {
	base := filepath.Dir(open(t).dir)
	for name, mode := range map[string]fs.FileMode{"group": 0o770, "others": 0o707} {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		below := filepath.Join(dir, "softrdma")
		for _, path := range []string{dir, below, filepath.Join(link(t, dir), "softrdma")} {
			if _, err := OpenCache(path); err == nil {
				t.Errorf("%s was accepted, writable by %s", path, name)
			}
		}
		if _, err := os.Stat(below); err == nil {
			t.Errorf("a directory was made below one that %s can write to", name)
		}
	}
	if _, err := OpenCache("relative"); err == nil {
		t.Error("a relative path was accepted")
	}
}

func TestCacheRefusesDirectoriesOfOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: not root")
	}
	dir := open(t).dir
	if err := os.Chown(dir, 1, 1); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "softrdma")} {
		if _, err := OpenCache(path); err == nil {
			t.Errorf("%s was accepted", path)
		}
	}
}

func TestExecutableRefusesNoexec(t *testing.T) {
	var s unix.Statfs_t
	if err := unix.Statfs("/proc", &s); err != nil || s.Flags&unix.ST_NOEXEC == 0 {
		t.Skip("SKIPPED: /proc is not mounted noexec")
	}
	if err := executable("/proc"); err == nil || !strings.Contains(err.Error(), "noexec") {
		t.Errorf("found %v", err)
	}
}

func TestCopiesCanBeExecuted(t *testing.T) {
	const program = "#!/bin/sh\necho executed\n"
	dir := t.TempDir()
	for name, c := range map[string]func() (*File, error){
		"in a directory": func() (*File, error) { return Copy(dir, "program", strings.NewReader(program)) },
		"in memory":      func() (*File, error) { return inMemory("program", strings.NewReader(program)) },
	} {
		t.Run(name, func(t *testing.T) {
			f, err := c()
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if out, err := exec.Command("/bin/sh", "-c", f.Path).CombinedOutput(); string(out) != "executed\n" || err != nil {
				t.Errorf("found %q, %v", out, err)
			}
		})
	}
}
