package block

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func newFile(t *testing.T, cfg FileConfig) *File {
	t.Helper()
	f, err := OpenFile(filepath.Join(t.TempDir(), "disk"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

const size = 256 << 10

func newMemory(t *testing.T, size int64) *Memory {
	t.Helper()
	m, err := NewMemory(size, 512)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Every backend must store bytes, and return zeros for what was never written or was trimmed.
func TestBackendsStoreBytes(t *testing.T) {
	memory := newMemory(t, size)
	all := map[string]Backend{"memory": memory, "file": newFile(t, FileConfig{Size: size})}
	direct, err := OpenFile(filepath.Join(t.TempDir(), "disk"), FileConfig{Size: size, Direct: true})
	if err != nil { // as on tmpfs before Linux 6.6, or with blocks of 4 KiB
		t.Logf("SKIPPED for direct access: %v", err)
	} else {
		t.Cleanup(func() { direct.Close() })
		all["direct file"] = direct
	}
	for name, b := range all {
		t.Run(name, func(t *testing.T) {
			storesBytes(t, b)
		})
	}
}

// storesBytes checks a backend of zeros.
func storesBytes(t *testing.T, b Backend) {
	t.Helper()
	want := make([]byte, size)
	check := func(after string, err error) {
		t.Helper()
		got := bytes.Repeat([]byte{0xee}, size)
		if err != nil {
			t.Fatal(after, err)
		}
		if n, err := b.ReadAt(got, 0); n != size || err != nil || !bytes.Equal(got, want) {
			t.Fatalf("after %s: read %d, %v, equal %v", after, n, err, bytes.Equal(got, want))
		}
	}
	check("opening", nil)
	data := bytes.Repeat([]byte{1, 2, 3, 4}, 40<<10)
	_, err := b.WriteAt(data, 30<<10)
	copy(want[30<<10:], data)
	check("a write", err)
	clear(want[63<<10 : 129<<10])
	check("a trim", b.Trim(63<<10, 66<<10))
	clear(want[130<<10 : 131<<10])
	check("zeros", b.WriteZeroes(130<<10, 1<<10, false))
	check("a flush", b.Flush())
	odd := make([]byte, 100<<10+1)[1:] // not aligned
	for i := range odd {
		odd[i] = byte(i >> 3)
	}
	_, err = b.WriteAt(odd, 150<<10)
	copy(want[150<<10:], odd)
	check("a write of memory that is not aligned", err)
	if n, err := b.ReadAt(odd[:1024], 140<<10); n != 1024 || err != nil || !bytes.Equal(odd[:1024], want[140<<10:141<<10]) {
		t.Errorf("a read to memory that is not aligned: %d, %v", n, err)
	}
	if _, err := b.ReadAt(make([]byte, 1024), size-512); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("beyond the end: %v", err)
	}
	if b.Size() != size || b.BlockSize() != 512 {
		t.Errorf("size %d, block %d", b.Size(), b.BlockSize())
	}
}

func TestFileKeepsItsSizeAndContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	if _, err := OpenFile(path, FileConfig{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a size: %v", err)
	}
	if err := os.WriteFile(path, bytes.Repeat([]byte{7}, 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(path, FileConfig{Size: 1024, BlockSize: 4096, ReadOnly: true})
	if err != nil || f.Size() != 4096 {
		t.Fatal(f, err)
	}
	f.f.Close()
	if _, err := OpenFile(path, FileConfig{BlockSize: 8192}); err == nil {
		t.Error("a file that is smaller than a block was opened")
	}
	fresh := filepath.Join(t.TempDir(), "fresh")
	if _, err := OpenFile(fresh, FileConfig{Size: 100}); err == nil || !strings.Contains(err.Error(), "expected at least a block of 512 bytes, found 100") {
		t.Errorf("a size of less than a block: %v", err)
	}
	if _, err := os.Stat(fresh); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused file was made: %v", err)
	}
	if _, err := OpenFile(t.TempDir(), FileConfig{}); err == nil || !strings.Contains(err.Error(), "expected a file or a block device") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := OpenFile(path, FileConfig{BlockSize: 1000}); err == nil {
		t.Error("a block size that is not a power of two was accepted")
	}
}
