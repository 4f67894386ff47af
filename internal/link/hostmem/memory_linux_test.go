package hostmem

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
)

// memfd makes a memfd with seals.
func newMemfd(t *testing.T, flags, size, seals int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", flags|unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err == nil {
		t.Cleanup(func() { _ = unix.Close(fd) })
		err = unix.Ftruncate(fd, int64(size))
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		t.Skip(err)
	}
	return fd
}

func TestMemoryIsSharedAndStaysMapped(t *testing.T) {
	size := AreaSize(1, 1)
	ours, err := NewMemory(size)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := MapMemory(ours.FD(), size, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Ftruncate(ours.FD(), 0); err == nil {
		t.Error("shared memory can be truncated")
	}
	if err := ours.CloseFD(); err != nil || ours.FD() != -1 {
		t.Errorf("descriptor %d: %v", ours.FD(), err)
	}
	ours.Bytes()[size-1], theirs.Bytes()[0] = 1, 2
	if theirs.Bytes()[size-1] != 1 || ours.Bytes()[0] != 2 {
		t.Error("the two mappings differ")
	}
	for _, m := range []*Memory{ours, theirs} {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A peer can still punch holes into a sealed memfd.
func TestMemoryWithHolesIsReadable(t *testing.T) {
	m, err := NewMemory(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.Bytes()[5] = 1
	if err := unix.Fallocate(m.FD(), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20); err != nil {
		t.Skip(err)
	}
	if m.Bytes()[5] != 0 {
		t.Error("the hole is not empty")
	}
	m.Bytes()[5] = 1
}

func TestMemoryThatCouldFaultIsRefused(t *testing.T) {
	size := os.Getpagesize()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(int64(size)); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, fd, size int) {
		_, err := MapMemory(fd, size, false)
		var e *reason.Error
		if !errors.As(err, &e) || e.Detail.Reason != reason.HostMemory {
			t.Errorf("%s: %v, expected %v", what, err, reason.HostMemory)
		}
	}
	refused("a file", int(f.Fd()), size)
	refused("a memfd that can shrink", newMemfd(t, 0, size, unix.F_SEAL_GROW), size)
	refused("a short memfd", newMemfd(t, 0, size, unix.F_SEAL_SHRINK), size+1)
	refused("no bytes", newMemfd(t, 0, size, unix.F_SEAL_SHRINK), 0)
	t.Run("huge pages", func(t *testing.T) {
		refused("huge pages", newMemfd(t, unix.MFD_HUGETLB, 0, unix.F_SEAL_SHRINK), size)
	})
}

func TestReadOnlyMemoryMapsForReading(t *testing.T) {
	size := os.Getpagesize()
	fd := newMemfd(t, 0, size, unix.F_SEAL_SHRINK|unix.F_SEAL_FUTURE_WRITE)
	if _, err := MapMemory(fd, size, true); err == nil {
		t.Error("mapped for writing")
	}
	m, err := MapMemory(fd, size, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
