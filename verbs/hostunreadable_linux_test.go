package verbs_test

import (
	"bytes"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/verbs"
)

// The kernel refuses to copy some memory of another process, such as device memory. A peer
// that finds this out during a connection gets the payload through the ring instead, at once,
// even if the sender has no timeout.
func TestMemoryThatPeerCannotReadTakesTheRing(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("SKIPPED: needs a processor that reads what is mapped for writing alone")
	}
	for name, recovery := range map[string]verbs.Recovery{"selective repeat": verbs.SelectiveRepeat, "go-back-N": verbs.GoBackN} {
		for opName, op := range map[string]verbs.Op{"WRITE": verbs.OpWrite, "SEND": verbs.OpSend, "READ": verbs.OpRead} {
			t.Run(opName+" "+name, func(t *testing.T) { unreadable(t, recovery, op) })
		}
	}
}

func unreadable(t *testing.T, recovery verbs.Recovery, op verbs.Op) {
	const size = 1 << 20
	hostDirectory(t)
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	cfg := verbs.Config{SameHost: verbs.SameHostRequire, Recovery: recovery}
	a, b := on(t, openHost(t, "127.7.41.1", cfg), mem), on(t, openHost(t, "127.7.41.2", cfg), make([]byte, size))
	a.peer, b.peer = b, a
	joinForever(t, a, b)
	fill(mem, 5)
	if op == verbs.OpSend {
		if err := b.qp.PostRecv(verbs.RecvWR{SGL: []verbs.SGE{b.mr.SGE(0, size)}}); err != nil {
			t.Fatal(err)
		}
	}
	from := a
	w := a.write(0, size)
	w.Op = op
	if op == verbs.OpRead {
		from = b
		w = b.write(0, size)
		w.Op = op
	}
	from.post(t, w)
	if wc := from.one(t); wc.Status != verbs.Success {
		t.Errorf("completion %+v: %v", wc, wc.Err())
	}
	b.qp.Path() // takes the lane: the race detector does not know that the acknowledge orders the bytes
	if !bytes.Equal(mem, b.buf) {
		t.Error("other bytes arrived")
	}
	if got := a.qp.Path(); got != verbs.PathSameHost {
		t.Errorf("path %q", got)
	}
}

// joinForever connects two sides that wait for acknowledges without a limit.
func joinForever(t *testing.T, a, b *side) {
	t.Helper()
	at := [2]verbs.Endpoint{a.qp.Endpoint(), b.qp.Endpoint()}
	for i, s := range []*side{a, b} {
		local, peer := at[i], at[1-i]
		err := s.qp.ToInit(verbs.InitAttr{Access: verbs.RemoteWrite | verbs.RemoteRead})
		if err == nil {
			err = s.qp.ToRTR(verbs.RTRAttr{PathMTU: local.MTU, DestQPN: peer.QPN, RQPSN: peer.PSN, MaxDestRdAtomic: 8, AV: verbs.AddressVector{DGID: peer.GID}})
		}
		if err == nil {
			err = s.qp.ToRTS(verbs.RTSAttr{SQPSN: local.PSN, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 8})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
