package verbs_test

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"softrdma/verbs"
)

// onEveryPath runs a test on a connection of each path. Both buffers are of AllocMemory.
func onEveryPath(t *testing.T, f func(t *testing.T, a, b *side)) {
	const size = 64 << 10
	for path, cfg := range map[verbs.Path]verbs.Config{
		verbs.PathSameHost:    {SameHost: verbs.SameHostRequire, NoLoopback: true},
		verbs.PathSameProcess: {SameHost: verbs.SameHostOff},
		verbs.PathNetwork:     {SameHost: verbs.SameHostOff, NoLoopback: true},
	} {
		t.Run(string(path), func(t *testing.T) {
			hostDirectory(t)
			var ends [2]*side
			for i, addr := range []string{"127.7.42.1", "127.7.42.2"} {
				mem := alloc(t, size, verbs.AllocConfig{})
				dev, err := verbs.Open(addr, cfg)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = dev.Close() })
				ends[i] = on(t, dev, mem)
			}
			a, b := ends[0], ends[1]
			a.peer, b.peer = b, a
			join(t, a, b)
			if p := a.qp.Path(); p != path {
				t.Fatalf("path %q", p)
			}
			if level := b.dev.Query().AtomicCap; level != "IBV_ATOMIC_GLOB" {
				t.Fatalf("level of atomics: %s", level)
			}
			f(t, a, b)
		})
	}
}

func join(t *testing.T, a, b *side) {
	t.Helper()
	ends{}.join(t, a, b)
}

func word(b []byte) *uint64 { return (*uint64)(unsafe.Pointer(&b[0])) }

// A remote atomic does not race with the processor's atomics, and a plain store of the program
// comes before or after it, never in between.
func TestRemoteAtomicsAndTheProcessorOnEveryPath(t *testing.T) {
	onEveryPath(t, func(t *testing.T, a, b *side) {
		const each = 500
		counter := word(b.buf)
		var local sync.WaitGroup
		defer local.Wait() // before the memory is unmapped, also if the test fails
		local.Go(func() {
			for range each {
				atomic.AddUint64(counter, 1)
			}
		})
		add := verbs.SendWR{Op: verbs.OpFetchAdd, Add: 1, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
		for range each {
			a.post(t, add)
			a.ok(t, verbs.WCFetchAdd)
		}
		local.Wait()
		if got := atomic.LoadUint64(counter); got != 2*each {
			t.Errorf("counter %d, expected %d", got, 2*each)
		}
		for i := range uint64(100) {
			atomic.StoreUint64(counter, i<<32)
			a.post(t, add)
			a.ok(t, verbs.WCFetchAdd)
			if old, now := *word(a.buf), atomic.LoadUint64(counter); old != i<<32 || now != i<<32+1 {
				t.Fatalf("after a store of %#x: the atomic found %#x and left %#x", i<<32, old, now)
			}
		}
	})
}

// A READ that is posted after a store sees it, and one that completed before does not.
func TestReadSeesEarlierStoresOnEveryPath(t *testing.T) {
	onEveryPath(t, func(t *testing.T, a, b *side) {
		for i := range 200 {
			n := []int{8, 4096, len(b.buf)}[i%3]
			want := bytes.Repeat([]byte{byte(i + 1)}, n)
			copy(b.buf, want)
			a.post(t, verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
			a.ok(t, verbs.WCRead)
			clear(b.buf[:n])
			if !bytes.Equal(a.buf[:n], want) {
				t.Fatalf("READ %d of %d bytes: found other bytes than those stored before", i, n)
			}
		}
	})
}
