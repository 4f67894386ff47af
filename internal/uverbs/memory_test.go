//go:build linux

package uverbs

import (
	"encoding/binary"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/attack"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
)

// leave takes all memory that a user may have but for n bytes, until undo is called.
func leave(t *testing.T, a *client.Account, n int64) (undo func()) {
	t.Helper()
	taken := a.Memory.Max - a.Memory.Held() - n
	if err := a.Memory.Take(taken); err != nil {
		t.Fatal(err)
	}
	return func() { a.Memory.Return(taken) }
}

// A registrar is a client that registers parts of its memory.
type registrar struct {
	*devFile
	pd  uint32
	mem []byte
}

func newRegistrar(t *testing.T, s *Server) *registrar {
	t.Helper()
	f := newTestClient(t, s).open("uverbs0")
	pd, _, _ := do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	mem, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(mem) })
	return &registrar{f, pd.Handle, mem}
}

// registerRange registers a part of the memory and has every page of its mirror used. It returns
// the error that the program sees.
func (f *registrar) registerRange(s *Server, off, n uint64) (handle uint32, no syscall.Errno) {
	f.t.Helper()
	f.used = 0
	at := addrOf(f.mem) + off
	no, b, _ := f.command(uapi.CmdRegMR, uapi.Bytes(&uapi.RegMR{Start: at, Length: n, HCAVA: at, PDHandle: f.pd, AccessFlags: rightsAll}), nil, 12)
	if no != 0 {
		return 0, no
	}
	r, _ := uapi.Parse[uapi.RegMRResp](b)
	if d := s.devices[0].Adapter.Memory.Lookup(r.RKey).Put(at, make([]byte, n)); d.Reason != reason.None {
		f.t.Fatal(d)
	}
	return r.MRHandle, 0
}

// One user registers memory until the daemon has no more for that user. Its own device and
// the programs of others continue, and what it frees can be used again.
func TestAttackMemoryWithoutEndStopsNobodyElse(t *testing.T) {
	const (
		region = 1<<10 + 2*4096 // what one costs beside its pages
		same   = 256 << 10
	)
	limit := uint64(4<<20 + attack.Count(94)*region) // of one user
	s, log := newServerFor(t, "127.14.30.1", func(uint32, uint32) bool { return true })
	a, b := newPair(t, s)
	f := newRegistrar(t, s)
	account := s.admission.Account(uint32(os.Geteuid()))
	defer leave(t, account, int64(limit))()
	before := account.Memory.Held()

	// The pages of the same memory count once.
	var handles []uint32
	for i := range attack.Count(94) {
		h, no := f.registerRange(s, 0, same)
		if no != 0 {
			t.Fatalf("registration %d of the same memory: %v", i+1, no)
		}
		handles = append(handles, h)
	}
	if n := account.Memory.Held() - before - int64(len(handles))*region; n != same {
		t.Errorf("%d registrations of the same %d bytes count %d", len(handles), same, n)
	}

	var err error
	if f.mem, err = unix.Mmap(-1, 0, int(2*limit), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(f.mem)
	var last syscall.Errno
	for at := uint64(0); at < 2*limit && last == 0; at += same {
		_, last = f.registerRange(s, at, same)
	}
	if last != syscall.ENOMEM {
		t.Fatalf("the registration beyond the limit: found %v, expected %v", last, syscall.ENOMEM)
	}
	if !strings.Contains(log(), "bytes of memory: CLIENT_LIMIT") {
		t.Errorf("the log says %q", log())
	}
	exercise(t, a, b)
	other := startHelper(t, s, unprivileged(t)) // which has a device, rings and a region
	if other.error != "" {
		t.Fatal("another user: ", other.error)
	}
	for _, h := range handles {
		f.used = 0
		do[struct{}](f.devFile, uapi.CmdDeregMR, binary.NativeEndian.AppendUint32(nil, h), 0)
	}
	if _, no := f.registerRange(s, 2*limit-same, same); no != 0 {
		t.Errorf("after memory was given back: %v", no)
	}
	exercise(t, a, b)
}

// Queues, pipes, files and objects count as well.
func TestEverythingThatAProgramHoldsCounts(t *testing.T) {
	s := newServer(t, "127.14.30.2")
	account := s.admission.Account(uint32(os.Geteuid()))
	f := newTestClient(t, s).open("uverbs0")
	pd, _, _ := do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	cm := newTestClient(t, s).open("rdma_cm")
	for what, create := range map[string]func() syscall.Errno{
		"protection domains": func() syscall.Errno {
			no, _, _ := f.command(uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), nil, 4)
			return no
		},
		"completion queues": func() syscall.Errno {
			no, _, _ := f.command(uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CQE: 1, CompChannel: -1}), nil, 24)
			return no
		},
		"windows": func() syscall.Errno {
			no, _, _ := f.command(uapi.CmdAllocMW, uapi.Bytes(&uapi.AllocMW{PDHandle: pd.Handle, Type: 1}), nil, 8)
			return no
		},
		"channels": func() syscall.Errno {
			no, _, fds := f.command(uapi.CmdCreateCompChannel, uapi.Bytes(&uapi.Response{}), nil, 4)
			for _, fd := range fds {
				t.Cleanup(func() { unix.Close(fd) })
			}
			return no
		},
		"ids": func() syscall.Errno {
			cm.used = 0
			q := uapi.CMCreate{Response: addrOf(cm.alloc(8)), PS: 0x106}
			return cm.ucm(0, uapi.Bytes(&q), 4)
		},
	} {
		undo := leave(t, account, 1<<20)
		held := account.Memory.Held()
		var no syscall.Errno
		n := 0
		for ; no == 0 && n < 2000; n++ {
			f.used = 0
			no = create()
		}
		if no != syscall.ENOMEM {
			t.Errorf("%s: number %d: found %v, expected %v", what, n, no, syscall.ENOMEM)
		}
		if account.Memory.Held() <= held && n > 1 {
			t.Errorf("%s: they count nothing", what)
		}
		undo()
	}
}

// A program that reads no events gets no more of them when its user has no memory left. The
// pipe itself keeps the first ones.
func TestEventsThatNobodyReadsAreBounded(t *testing.T) {
	s, log := newServerFor(t, "127.14.30.3", nil)
	account := s.admission.Account(uint32(os.Geteuid()))
	p, end, err := client.NewPipe(8, account)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(end)
	const room = 8 << 10
	defer leave(t, account, room)()
	before := account.Memory.Held()
	for range 64<<10/8 + 2*room/8 {
		p.Put(make([]byte, 8))
	}
	if n := account.Memory.Held() - before; n != room {
		t.Errorf("%d bytes of events wait, expected %d", n, room)
	}
	if !strings.Contains(log(), "event: bytes of memory: CLIENT_LIMIT") {
		t.Errorf("the log says %q", log())
	}
	if n := p.Remove(func([]byte) bool { return true }); n < 64<<10/8 {
		t.Errorf("%d events are taken back", n)
	}
	if n := account.Memory.Held() - before; n != 0 {
		t.Errorf("%d bytes are counted without events", n)
	}
	p.Close()
}
