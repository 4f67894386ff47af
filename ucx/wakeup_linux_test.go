package ucx_test

import (
	"syscall"
	"testing"

	. "github.com/openucx/ucx/bindings/go/src/ucx"
)

func epoll(t testing.TB) int {
	t.Helper()
	fd, err := syscall.EpollCreate1(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	return fd
}

// ready returns how many descriptors of an epoll instance are ready within milliseconds.
func ready(t testing.TB, fd, milliseconds int) int {
	t.Helper()
	var list [4]syscall.EpollEvent
	for {
		n, err := syscall.EpollWait(fd, list[:], milliseconds)
		if err == nil {
			return n
		}
		if err != syscall.EINTR {
			t.Fatal(err)
		}
	}
}

func TestDescriptorIsReadableAfterSignalAndMessage(t *testing.T) {
	p := epoll(t)
	a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
	own := newWorker(t, (&UcpWorkerParams{}).WakeupEdge().SetEventFD(uintptr(p)))
	_, err := own.GetEfd()
	refused(t, nil, err, UCS_ERR_UNSUPPORTED)
	fd, err := b.GetEfd()
	if err != nil {
		t.Fatal(err)
	}
	q := epoll(t)
	if err := syscall.EpollCtl(q, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)}); err != nil {
		t.Fatal(err)
	}
	for w, fd := range map[*UcpWorker]int{own: p, b: q} {
		e := connect(t, a, w, &UcpEpParams{})
		ends(t, started(t)(e.FlushNonBlocking(nil)), UCS_OK, a, w)
		for n := 0; ; n++ { // late events
			if quiet(w); ready(t, fd, 10) == 0 {
				break
			}
			if n == 100 {
				t.Fatal("the descriptor is always ready")
			}
		}
		if err := w.Signal(); err != nil {
			t.Fatal(err)
		}
		if n := ready(t, fd, 30_000); n != 1 {
			t.Fatal("the descriptor is not ready after Signal")
		}
		if s := w.Arm(); s != UCS_ERR_BUSY {
			t.Fatalf("Arm after Signal returned %v", s)
		}
		quiet(w)
		started(t)(e.SendTagNonBlocking(1, nil, 0, nil))
		if n := ready(t, fd, 30_000); n != 1 {
			t.Fatal("the descriptor is not ready after a message")
		}
	}
	_, err = newContext(t, all()).NewWorker((&UcpWorkerParams{}).SetEventFD(1 << 20))
	refused(t, nil, err, UCS_ERR_INVALID_PARAM)
}
