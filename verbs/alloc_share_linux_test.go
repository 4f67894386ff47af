package verbs_test

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/memory"
	"softrdma/internal/registry"
	"softrdma/verbs"
)

// alloc allocates memory that is freed when the test ends.
func alloc(t testing.TB, n int, cfg verbs.AllocConfig) []byte {
	t.Helper()
	m, err := verbs.AllocMemory(n, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Free(); err != nil {
			t.Error(err)
		}
	})
	return m.Bytes()
}

// segmentOf registers mem until the test ends and returns the segment that is offered to
// peers.
func segmentOf(t testing.TB, pd *verbs.PD, mem []byte) *memory.Segment {
	t.Helper()
	mr, err := pd.RegisterMemory(mem, verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := mr.Deregister(); err != nil {
			t.Error(err)
		}
	})
	return registry.Adapter(pd.Device()).Memory.Segments.Find(memory.Addr(mem))
}

func inProcessPD(t testing.TB) *verbs.PD {
	t.Helper()
	dev := openDevice(t, addrA, verbs.Config{})
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	return pd
}

func TestAllocatedMemoryIsSealedForPeers(t *testing.T) {
	pd := inProcessPD(t)
	mem := alloc(t, 1<<20+5, verbs.AllocConfig{})
	s := segmentOf(t, pd, mem)
	if s == nil {
		t.Fatal("a region over the whole memory does not offer it")
	}
	mem[1<<20] = 0x5a
	open := s.Use(func(fd int) {
		const want = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL | unix.F_SEAL_FUTURE_WRITE
		if got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0); err != nil || got&want != want {
			t.Errorf("seals %#x, %v, expected at least %#x", got, err, want)
		}
		if _, err := unix.Mmap(fd, 0, len(s.Mem), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
			t.Error("a peer can map the memory to write to it")
		}
		view, err := unix.Mmap(fd, 0, len(s.Mem), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil || view[1<<20] != 0x5a {
			t.Fatalf("a peer cannot read the memory: %v", err)
		}
		if err := unix.Munmap(view); err != nil {
			t.Error(err)
		}
	})
	if !open {
		t.Fatal("the segment is closed")
	}
}

func TestOnlyWholeAllocationsAreOffered(t *testing.T) {
	pd := inProcessPD(t)
	mem := alloc(t, 64<<10, verbs.AllocConfig{})
	for name, part := range map[string][]byte{
		"part of an allocation": mem[4096:], "Go memory": make([]byte, 64<<10), "small allocation": alloc(t, 4096, verbs.AllocConfig{}),
		"memory for iWARP": alloc(t, 64<<10, verbs.AllocConfig{Device: openIWARP(t, "127.13.1.61")}),
	} {
		t.Run(name, func(t *testing.T) {
			if segmentOf(t, pd, part) != nil {
				t.Error("offered to peers")
			}
		})
	}
}

func TestMemoryIsPrivateWhenDescriptorsRunOut(t *testing.T) {
	pd := inProcessPD(t)
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	})
	few := old
	few.Cur = 64
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	shared := 0
	for range 100 {
		if segmentOf(t, pd, alloc(t, 16<<10, verbs.AllocConfig{})) != nil {
			shared++
		}
	}
	if shared == 0 || shared > 16 {
		t.Errorf("with 64 descriptors, %d of 100 allocations have one; expected 1 to 16", shared)
	}
}

func BenchmarkAllocMemory(b *testing.B) {
	for _, n := range []int{4 << 10, 64 << 10, 1 << 20, 16 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				m, err := verbs.AllocMemory(n, verbs.AllocConfig{})
				if err != nil {
					b.Fatal(err)
				}
				for i, buf := 0, m.Bytes(); i < n; i += 4096 {
					buf[i] = 1
				}
				if err := m.Free(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRegisterMemory(b *testing.B) {
	pd := inProcessPD(b)
	for name, mem := range map[string][]byte{"go": make([]byte, 1<<20), "alloc": alloc(b, 1<<20, verbs.AllocConfig{})} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				mr, err := pd.RegisterMemory(mem, verbs.LocalWrite)
				if err != nil {
					b.Fatal(err)
				}
				if err := mr.Deregister(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
