//go:build linux

package folder

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"softrdma/internal/testenv"
	"testing"
)

// served makes a directory with a socket, whose server does not listen any more.
func served(t *testing.T, parent string) *Folder {
	t.Helper()
	f, err := New(parent)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.lock.Close() }) // which may be closed
	listen(t, f.Path)
	if err := os.WriteFile(filepath.Join(f.Path, "library"), []byte("text"), 0o500); err != nil {
		t.Fatal(err)
	}
	return f
}

func listen(t *testing.T, dir string) {
	t.Helper()
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(dir, Socket), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
}

// die ends the use of a directory as the kernel does when its process is killed.
func (f *Folder) die() { _ = f.lock.Close() }

func TestCleanRemovesWhatDeadProcessesHaveLeft(t *testing.T) {
	parent := testenv.SocketDir(t)
	dead, alive := served(t, parent), served(t, parent)
	dead.die()
	if got := Clean(parent); !slices.Equal(got, []string{dead.Path}) {
		t.Errorf("expected %s to be removed, found %v", dead.Path, got)
	}
	if _, err := os.Lstat(dead.Path); !os.IsNotExist(err) {
		t.Errorf("the directory of a dead process is there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(alive.Path, "library")); err != nil {
		t.Error(err)
	}
	if err := alive.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(parent); len(left) > 0 || err != nil {
		t.Errorf("found %v, %v after the end", left, err)
	}
}

func TestDirectoryThatAProgramHoldsOutlivesItsServer(t *testing.T) {
	parent := testenv.SocketDir(t)
	f := served(t, parent)
	held, err := Hold(filepath.Join(f.Path, Socket))
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	f.die()
	if got := Clean(parent); len(got) > 0 {
		t.Errorf("%v was removed under its program", got)
	}
	_ = held.Close()
	if got := Clean(parent); !slices.Equal(got, []string{f.Path}) {
		t.Errorf("expected %s to be removed, found %v", f.Path, got)
	}
}

// Directories of others stay, and what may be in use by processes that hold no lock.
func TestCleanLeavesTheRestAlone(t *testing.T) {
	for name, make := range map[string]func(t *testing.T, parent, path string){
		"no socket": func(t *testing.T, _, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"a file called socket": func(t *testing.T, _, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(path, Socket), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a link": func(t *testing.T, parent, path string) {
			to := filepath.Join(parent, "other")
			if err := os.Mkdir(to, 0o700); err != nil {
				t.Fatal(err)
			}
			listen(t, to)
			if err := os.Symlink(to, path); err != nil {
				t.Fatal(err)
			}
		},
		"a file": func(t *testing.T, _, path string) {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"another user's": func(t *testing.T, parent, path string) {
			if os.Getuid() != 0 {
				t.Skip("SKIPPED: not root (directories of other users)")
			}
			f := served(t, parent)
			f.die()
			if err := os.Rename(f.Path, path); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(path, 12345, 12345); err != nil {
				t.Fatal(err)
			}
		},
		"another boot's": func(t *testing.T, parent, _ string) {
			f := served(t, parent)
			f.die()
			if err := os.Rename(f.Path, filepath.Join(parent, "softrdma-00000000-1")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			parent := testenv.SocketDir(t)
			make(t, parent, filepath.Join(parent, prefix()+"1"))
			before, err := os.ReadDir(parent)
			if err != nil {
				t.Fatal(err)
			}
			if got := Clean(parent); len(got) > 0 {
				t.Errorf("%v was removed", got)
			}
			if after, err := os.ReadDir(parent); len(after) != len(before) || len(before) == 0 || err != nil {
				t.Errorf("expected %v, found %v, %v", before, after, err)
			}
		})
	}
}

func TestHoldLeavesDirectoriesOfDaemonsAlone(t *testing.T) {
	if f, err := Hold("/run/softrdma/socket"); f != nil || err != nil {
		t.Errorf("found %v, %v", f, err)
	}
}
