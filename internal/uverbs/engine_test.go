//go:build linux

package uverbs

import (
	"bytes"
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/adapter/deferral"
	"softrdma/internal/queue"
	"softrdma/internal/uverbs/program"
	"softrdma/internal/wire/uapi"
	"softrdma/verbs"
)

// newEngineClient plays the preloaded library of a program whose device is in its own
// process.
func newEngineClient(t testing.TB, addr string) *testClient {
	t.Helper()
	dev, err := verbs.Open(addr, verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	deferrals := make([]deferral.Place, 8)
	e := program.New(deferrals, func(line string) { t.Log(line) })
	if err := e.Add(dev, "rxe0", 0); err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Leave()
		// Nothing is left of files whose descriptors the program has closed.
		eventually(t, "the device has no objects", func() bool { return dev.Counts() == verbs.Counts{} })
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
		unix.Munmap(mem)
	})
	seen := unsafe.Slice((*seenPlace)(unsafe.Pointer(&deferrals[0])), len(deferrals))
	return &testClient{t: t, engine: e, mem: mem, deferrals: seen}
}

// A seenPlace is a deferral.Place as the preloaded library sees it.
type seenPlace struct {
	name atomic.Uint64
	left atomic.Uint32
	_    [52]byte
}

// ringUnlessDeferred rings the doorbell unless the engine can do without, as the preloaded library does. It
// reports whether it rang.
func (s *side) ringUnlessDeferred() bool {
	s.f.t.Helper()
	d := &s.f.deferrals[s.handle%uint32(len(s.f.deferrals))]
	if left := d.left.Load(); d.name.Load() == s.f.id+uint64(s.handle) && left > 0 {
		d.left.Store(left - 1)
		return false
	}
	if err := s.f.engine.Doorbell(s.f.id, s.handle); err != nil {
		s.f.t.Fatal(err)
	}
	return true
}

// The requests whose doorbells were left out are sent by the next poll, or by the device's
// own thread if it does not poll. Polls of another thread come between writing a request and
// looking for its place.
func TestRequestsWithoutTheDoorbellsThatTheEngineDefersAreSent(t *testing.T) {
	a, b := newEnginePair(t, [2]string{"127.14.15.7", "127.14.15.8"})
	poll := func(s *side) {
		if err := s.f.engine.Progress(s.f.id, s.cq, true); err != nil {
			t.Error(err)
		}
	}
	var posting atomic.Bool
	var pollers sync.WaitGroup
	defer pollers.Wait() // before the rings are unmapped, also if the test fails
	ended := make(chan struct{})
	defer close(ended)
	pollers.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
			}
			if posting.Load() {
				poll(a)
			}
			runtime.Gosched()
		}
	})
	rung, leftOut := 0, 0
	// The engine defers doorbells only while its worker is paused, which is the scheduler's to say:
	// a run in which it never was takes more bursts.
	for burst := 0; burst < 300 || leftOut == 0 && burst < 100_000; burst++ {
		poll(a)
		posting.Store(burst%3 == 0)
		const requests = 10
		for i := range requests {
			a.buf[i] = byte(burst)
			a.put(queue.Write, func(w *queue.SendWQE) { *w.RDMA() = queue.RDMA{Addr: addrOf(b.buf[i:]), RKey: b.key} }, a.sge(i, 1))
			if a.ringUnlessDeferred() {
				rung++
			} else {
				leftOut++
			}
		}
		posting.Store(false)
		if burst%3 == 1 {
			poll(a)
		}
		for range requests {
			a.completion()
		}
		for i, found := range b.buf[:requests] {
			if found != byte(burst) {
				t.Fatalf("burst %d, request %d: found %d", burst, i, found)
			}
		}
	}
	if leftOut == 0 {
		t.Error("the engine could do without no doorbell")
	}
	t.Logf("%d doorbells rung, %d left out", rung, leftOut)
}

func TestDestroyedQueuePairLeavesNoDeferralToTheNext(t *testing.T) {
	a, b := newEnginePair(t, [2]string{"127.14.15.9", "127.14.15.10"})
	deferred := false
	for attempt := 0; !deferred && attempt < 1000; attempt++ {
		if err := a.f.engine.Progress(a.f.id, a.cq, true); err != nil {
			t.Fatal(err)
		}
		posted := 0
		for ; !deferred && posted < 8; posted++ {
			a.put(queue.Write, func(w *queue.SendWQE) { *w.RDMA() = queue.RDMA{Addr: addrOf(b.buf), RKey: b.key} }, a.sge(0, 1))
			deferred = !a.ringUnlessDeferred()
		}
		for range posted {
			if !deferred {
				a.completion()
			}
		}
	}
	if !deferred {
		t.Fatal("the engine deferred no doorbell")
	}
	if no, _, _ := a.f.command(uapi.CmdDestroyQP, uapi.Bytes(&uapi.Destroy{Handle: a.handle}), nil, 4); no != 0 {
		t.Fatal(no)
	}
	for i := range a.f.deferrals {
		if name := a.f.deferrals[i].name.Load(); name != 0 {
			t.Errorf("place %d has name %#x", i, name)
		}
	}
}

// newEnginePair connects queue pairs of two programs, each with a device in its process.
func newEnginePair(t *testing.T, addrs [2]string) (a, b *side) {
	var sides [2]*side
	for i, addr := range addrs {
		f := newEngineClient(t, addr).open("uverbs0")
		_, _, fds := do[uapi.GetContextResp](f, uapi.CmdGetContext, uapi.Bytes(&uapi.Response{}), 8)
		unix.Close(fds[0])
		sides[i] = newSide(f, 0x1000)
	}
	gid := func(addr string) [16]byte { return verbs.GIDFrom(netip.MustParseAddr(addr)) }
	sides[0].connect(sides[1].qpn, gid(addrs[1]))
	sides[1].connect(sides[0].qpn, gid(addrs[0]))
	return sides[0], sides[1]
}

func TestProgramWithItsOwnDeviceSendsWritesReadsAndCounts(t *testing.T) {
	a, b := newEnginePair(t, [2]string{"127.14.15.1", "127.14.15.2"})
	exercise(t, a, b)
}

// Doorbells and polls are calls without a message.
func TestDoorbellSendsAndProgressReceivesOnTheCallersThread(t *testing.T) {
	a, b := newEnginePair(t, [2]string{"127.14.15.3", "127.14.15.4"})
	for i := range 100 {
		copy(a.buf, bytes.Repeat([]byte{byte(i)}, 100))
		a.put(queue.Write, func(w *queue.SendWQE) { *w.RDMA() = queue.RDMA{Addr: addrOf(b.buf), RKey: b.key} }, a.sge(0, 100))
		if err := a.f.engine.Doorbell(a.f.id, a.handle); err != nil {
			t.Fatal(err)
		}
		c := *a.events.consumer()
		for atomic.LoadUint32(a.events.producer()) == c {
			for _, s := range []*side{a, b} {
				if err := s.f.engine.Progress(s.f.id, s.cq, true); err != nil {
					t.Fatal(err)
				}
			}
		}
		a.completion()
		if b.buf[99] != byte(i) {
			t.Fatalf("message %d: found %d", i, b.buf[99])
		}
	}
}

func TestDirectCallsRefuseWhatIsNotThere(t *testing.T) {
	a, _ := newEnginePair(t, [2]string{"127.14.15.5", "127.14.15.6"})
	e := a.f.engine
	progress := func(file uint64, handle uint32) error { return e.Progress(file, handle, true) }
	for what, c := range map[string]struct {
		call   func(file uint64, handle uint32) error
		file   uint64
		handle uint32
		want   syscall.Errno
	}{
		"doorbell of no file":                  {e.Doorbell, 7, a.handle, syscall.EIO},
		"doorbell of no queue pair":            {e.Doorbell, a.f.id, 1 << 15, syscall.ENOENT},
		"doorbell of a handle beyond the page": {e.Doorbell, a.f.id, 1 << 20, syscall.ENOENT},
		"doorbell of a completion queue":       {e.Doorbell, a.f.id, a.cq, syscall.EINVAL},
		"progress of no file":                  {progress, 7, a.cq, syscall.EIO},
		"progress of a queue pair":             {progress, a.f.id, a.handle, syscall.EINVAL},
		"progress of no object":                {progress, a.f.id, 1<<32 - 1, syscall.ENOENT},
	} {
		if err := c.call(c.file, c.handle); !errors.Is(err, c.want) {
			t.Errorf("%s: expected %v, found %v", what, c.want, err)
		}
	}
	close := func() int64 {
		p, _ := a.f.send(uapi.Request{Op: uapi.OpClose, File: a.f.id}, nil)
		return p.Result
	}
	if n, again := close(), close(); n != 0 || again != 0 {
		t.Errorf("close: %d, once more: %d", n, again)
	}
	if err := e.Doorbell(a.f.id, a.handle); err == nil {
		t.Error("a doorbell of a closed file succeeds")
	}
	if p, _ := a.f.send(uapi.Request{Op: uapi.OpWrite, File: a.f.id}, nil); p.Result != -int64(syscall.EIO) {
		t.Errorf("write to a closed file: %d", p.Result)
	}
	if p, _ := a.f.send(uapi.Request{Op: uapi.OpOpen, Version: uapi.Protocol + 1}, []byte("uverbs0")); p.Result != -int64(syscall.EPROTO) {
		t.Errorf("another version of the protocol: %d", p.Result)
	}
	if p, _ := a.f.send(uapi.Request{Op: uapi.OpOpen}, []byte("uverbs1")); p.Result != -int64(syscall.ENOENT) {
		t.Errorf("a device that is not there: %d", p.Result)
	}
}

// A program asks for no share of a device that has none to give: the server has nothing to refuse.
func TestEngineLeavesDevicesThatAreNotSharedToTheServer(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	dev, err := verbs.Open("iwarp:127.14.15.9", verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := newServerOf(t, "", Config{Devices: []*verbs.Device{dev}, Log: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}})
	e := program.New(nil, nil)
	first, err := e.Open(s.Socket(), "uverbs0")
	if !first || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "siw0 127.14.15.9 (iWARP, not shared)") {
		t.Errorf("expected an error that names the device, found %v", err)
	}
	if first, again := e.Open(s.Socket(), "uverbs0"); first || !errors.Is(again, err) {
		t.Errorf("expected the same error from the second attempt, found %v", again)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(lines) > 0 {
		t.Errorf("the server logged %q", lines)
	}
	for name, n := range s.devices[0].Verbs.Counters() {
		t.Errorf("the device counted %s %d times", name, n)
	}
}
