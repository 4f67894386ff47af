package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// wantFile checks the file that a name leads to.
func wantFile(t *testing.T, name string, kind fs.FileMode, content string) {
	t.Helper()
	info, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Type() != kind {
		t.Errorf("%s: expected %v, found %v", name, kind, info.Mode())
	}
	if kind != 0 && kind != fs.ModeSymlink {
		return
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != content {
		t.Errorf("%s: expected %q, found %q, %v", name, content, b, err)
	}
}

func TestWriteFileReplacesRegularFiles(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "new")
	if err := WriteFile(name, []byte("first")); err != nil {
		t.Fatal(err)
	}
	wantFile(t, name, 0, "first")
	if err := os.Chmod(name, 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	if err := WriteFile(name, []byte("and again")); err != nil {
		t.Fatal(err)
	}
	wantFile(t, name, 0, "and again")
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
		t.Errorf("expected the rights to stay, found %v, %v", info.Mode(), err)
	}
	// A program that has the file open continues to read the old contents.
	b := make([]byte, 100)
	if n, _ := before.Read(b); string(b[:n]) != "first" {
		t.Errorf("the file was overwritten in place: %q", b[:n])
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("expected one file, found %v, %v", list, err)
	}
}

func TestAttackOutputNamesThatAreNoRegularFilesStay(t *testing.T) {
	dir := t.TempDir()
	target, link, dangling, pipe := filepath.Join(dir, "target"), filepath.Join(dir, "link"), filepath.Join(dir, "dangling"), filepath.Join(dir, "pipe")
	for _, err := range []error{
		os.WriteFile(target, []byte("long before"), 0o644), os.Symlink("target", link), os.Symlink("created", dangling), syscall.Mkfifo(pipe, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{link, dangling} {
		if err := WriteFile(name, []byte("now")); err != nil {
			t.Fatal(err)
		}
		wantFile(t, name, fs.ModeSymlink, "now")
	}
	wantFile(t, target, 0, "now")
	wantFile(t, filepath.Join(dir, "created"), 0, "now")

	read := make(chan string)
	go func() {
		b, err := os.ReadFile(pipe)
		if err != nil {
			t.Error(err)
		}
		read <- string(b)
	}()
	if err := WriteFile(pipe, []byte("through")); err != nil {
		t.Fatal(err)
	}
	wantFile(t, pipe, fs.ModeNamedPipe, "")
	if got := <-read; got != "through" {
		t.Errorf("the pipe's reader got %q", got)
	}

	device := filepath.Join(dir, "null")
	if err := os.Symlink(os.DevNull, device); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(device, []byte("nothing")); err != nil {
		t.Fatal(err)
	}
	wantFile(t, device, fs.ModeSymlink, "")
	wantFile(t, os.DevNull, fs.ModeDevice|fs.ModeCharDevice, "")
}
