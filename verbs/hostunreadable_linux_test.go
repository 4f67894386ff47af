package verbs_test

import (
	"bytes"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/verbs"
)

// The kernel refuses to copy some memory out of another process, such as that of devices. A peer
// that finds out in the middle of a connection gets the payload through the ring instead.
func TestMemoryThatPeerCannotReadTakesTheRing(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("SKIPPED: needs a processor that reads what is mapped for writing alone")
	}
	const size = 1 << 20
	hostDirectory(t)
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	a, b := on(t, openMode(t, "127.7.41.1", verbs.SameHostRequire), mem), on(t, openMode(t, "127.7.41.2", verbs.SameHostRequire), make([]byte, 2*size))
	a.peer, b.peer = b, a
	ends{connect: verbs.ConnectConfig{Timeout: 14, RetryCnt: 7}}.join(t, a, b)
	fill(mem, 5)
	w := a.write(0, size)
	a.post(t, w)
	a.ok(t, verbs.WCWrite)
	if !bytes.Equal(mem, b.buf[:size]) {
		t.Error("WRITE: other bytes arrived")
	}
	b.post(t, verbs.SendWR{Op: verbs.OpRead, Flags: verbs.Signaled, SGL: []verbs.SGE{b.mr.SGE(size, size)}, RemoteAddr: a.mr.Addr(), RKey: a.mr.RKey()})
	b.ok(t, verbs.WCRead)
	if !bytes.Equal(mem, b.buf[size:]) {
		t.Error("READ: other bytes arrived")
	}
	if got := a.qp.Path(); got != verbs.PathSameHost {
		t.Errorf("path %q", got)
	}
}
