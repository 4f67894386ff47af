//go:build linux

package uverbs

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
)

// A sharer is a client that says to the server what the library says of sharing
// memory, true or not.
type sharer struct {
	*devFile
	pd  uint32
	mem []byte // to be registered
}

func newSharer(t testing.TB, s *Server) *sharer {
	t.Helper()
	f := newTestClient(t, s).open("uverbs0")
	pd, _, _ := do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	mem, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(mem) })
	return &sharer{f, pd.Handle, mem}
}

// rightsOf sends the next command with descriptors.
func (c *testClient) rightsOf(fds ...int) func() {
	c.rights = unix.UnixRights(fds...)
	return func() { c.rights = nil }
}

// newMemfd makes shared memory of n bytes.
func newMemfd(t *testing.T, n, seals, flags int) int {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|flags)
	if err == nil {
		err = unix.Ftruncate(fd, int64(n))
	}
	if err == nil && seals != 0 {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// tell writes a command with what the library says.
func (f *sharer) tell(b []byte, share, arg uint64, fds ...int) uapi.Reply {
	f.t.Helper()
	buf := f.alloc(len(b))
	copy(buf, b)
	if len(fds) > 0 {
		defer f.rightsOf(fds...)()
	}
	p, _ := f.send(uapi.Request{Op: uapi.OpWrite, File: f.id, Arg: [4]uint64{addrOf(buf), uint64(len(b)), share, arg}}, buf)
	return p
}

// register asks for a region at an offset of the memory.
func (f *sharer) register(off, n, share, arg uint64, fds ...int) (uapi.Reply, uapi.RegMRResp) {
	f.t.Helper()
	out := f.alloc(12)
	h := uapi.CmdHeader{Command: uapi.CmdRegMR, InWords: uint16(8+uapi.Size[uapi.RegMR]()) / 4, OutWords: 3}
	at := addrOf(f.mem) + off
	q := uapi.RegMR{Response: addrOf(out), Start: at, Length: n, HCAVA: at, PDHandle: f.pd, AccessFlags: rightsAll}
	p := f.tell(append(uapi.Bytes(&h), uapi.Bytes(&q)...), share, arg, fds...)
	r, _ := uapi.Parse[uapi.RegMRResp](out)
	return p, r
}

func (f *sharer) deregister(handle uint32) uapi.Reply {
	f.t.Helper()
	h := uapi.CmdHeader{Command: uapi.CmdDeregMR, InWords: 3}
	return f.tell(append(uapi.Bytes(&h), binary.NativeEndian.AppendUint32(nil, handle)...), uapi.ShareOffered, 0)
}

func TestSharingIsRequestedForLongRegionsIfOffered(t *testing.T) {
	s := newServer(t, "127.14.8.1")
	f := newSharer(t, s)
	base := addrOf(f.mem)
	for _, c := range []struct {
		name          string
		off, n, share uint64
		at, want      uint64 // nothing where want is 0
	}{
		{"whole pages", 0, 1 << 20, uapi.ShareOffered, 0, 1 << 20},
		{"parts of pages", 100, 200_000, uapi.ShareOffered, 4096, 192512},
		{"not offered", 0, 1 << 20, 0, 0, 0},
		{"short", 0, client.ShareFrom - 1, uapi.ShareOffered, 0, 0},
		{"short but for parts of pages", 1, client.ShareFrom, uapi.ShareOffered, 0, 0},
	} {
		p, r := f.register(c.off, c.n, c.share, 0)
		if p.Result < 0 || p.Flags&uapi.ReplyShare != 0 != (c.want != 0) || c.want != 0 && (p.Offset != base+c.at || p.Rdev != c.want || r.LKey != 0) {
			t.Errorf("%s: found %+v, key %#x", c.name, p, r.LKey)
		}
		if r.LKey != 0 {
			f.deregister(r.MRHandle)
		}
	}
	// While the library replaced its pages, what this region stores would be lost.
	_, small := f.register(1<<19, 100, uapi.ShareOffered, 0)
	if p, r := f.register(0, 1<<20, uapi.ShareOffered, 0); p.Result < 0 || p.Flags&uapi.ReplyShare != 0 || r.LKey == 0 {
		t.Errorf("requested memory of another region: %+v", p)
	} else {
		f.deregister(r.MRHandle)
	}
	f.deregister(small.MRHandle)
	if p, _ := f.register(0, 1<<20, uapi.ShareOffered, 0); p.Flags&uapi.ReplyShare == 0 {
		t.Error("not requested after that region was deregistered")
	}
	// Mappings get scarce: a region takes one, and four where it is shared.
	for range 3 {
		f.register(1<<19, 100, uapi.ShareOffered, 0)
	}
	q := &s.admission.Account(uint32(os.Geteuid())).Mappings
	others := q.Max/2 - q.Held()
	take := func(n int64) {
		if err := q.Take(n); err != nil {
			t.Fatal(err)
		}
	}
	take(others)
	defer q.Return(others)
	if p, _ := f.register(0, 1<<19, uapi.ShareOffered, 0); p.Flags&uapi.ReplyShare == 0 {
		t.Error("not requested with half of the mappings left")
	}
	take(1)
	defer q.Return(1)
	if p, r := f.register(0, 1<<19, uapi.ShareOffered, 0); p.Result < 0 || p.Flags&uapi.ReplyShare != 0 || r.LKey == 0 {
		t.Errorf("requested with less than half of the mappings left: %+v", p)
	}
}

func TestRegionsOnOneShareAreOnTheSamePages(t *testing.T) {
	s := newServer(t, "127.14.8.2")
	f := newSharer(t, s)
	fd := newMemfd(t, 3<<20, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW, 0)
	const off = 1 << 20
	first, a := f.register(0, 1<<20, uapi.ShareMemfd, off, fd)
	if first.Result < 0 || first.File == 0 {
		t.Fatalf("%+v", first)
	}
	if p, _ := f.register(4096, 100_000, uapi.ShareOffered, 0); p.Flags&uapi.ReplyShare == 0 {
		t.Error("the library is not asked for a part of shared memory")
	}
	again, b := f.register(4097, 100_000, uapi.ShareKnown, first.File)
	if again.Result < 0 || again.File != first.File {
		t.Fatalf("%+v", again)
	}
	table := s.devices[0].Adapter.Memory
	for i, r := range []uapi.RegMRResp{a, b} {
		if d := table.Lookup(r.RKey).Put(addrOf(f.mem)+9000, []byte{byte(7 + i)}); d.Reason != reason.None {
			t.Fatal(d)
		}
		var got [1]byte
		if _, err := unix.Pread(fd, got[:], off+9000); err != nil || got[0] != byte(7+i) || f.mem[9000] != 0 {
			t.Errorf("found %d in the file, %d in the program, %v", got[0], f.mem[9000], err)
		}
	}
	// What lies outside of whole pages is the program's.
	if d := table.Lookup(b.RKey).Put(addrOf(f.mem)+4097, []byte{3}); d.Reason != reason.None || f.mem[4097] != 3 {
		t.Errorf("found %d, %v", f.mem[4097], d)
	}
	if p := f.deregister(a.MRHandle); p.Result < 0 || p.Flags&uapi.ReplyPrivate != 0 {
		t.Errorf("the share ended before its last region: %+v", p)
	}
	if p := f.deregister(b.MRHandle); p.Flags&uapi.ReplyPrivate == 0 || p.File != first.File {
		t.Errorf("the share did not end with its last region: %+v", p)
	}
	if p, r := f.register(0, 1<<20, uapi.ShareKnown, first.File); p.Result < 0 || p.File != 0 || r.LKey == 0 {
		t.Errorf("a share that has ended: %+v", p)
	}
}

func TestUnsafeMemfdIsRefused(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	s := newServerOf(t, "127.14.8.3", Config{Log: func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}})
	f := newSharer(t, s)
	const n = 1 << 20
	good := newMemfd(t, n, unix.F_SEAL_SHRINK, 0)
	file, err := unix.Open(t.TempDir(), unix.O_RDWR|unix.O_CLOEXEC|unix.O_TMPFILE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(file)
	if err := unix.Ftruncate(file, n); err != nil {
		t.Fatal(err)
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	before := openDescriptors(t)
	for name, c := range map[string]struct {
		off, n, at uint64
		fds        []int
	}{
		"no descriptor":         {0, n, 0, nil},
		"two descriptors":       {0, n, 0, []int{good, good}},
		"without seals":         {0, n, 0, []int{newMemfd(t, n, 0, 0)}},
		"sealed against growth": {0, n, 0, []int{newMemfd(t, n, unix.F_SEAL_GROW|unix.F_SEAL_SEAL, 0)}},
		"a file":                {0, n, 0, []int{file}},
		"a pipe":                {0, n, 0, []int{pipe[0]}},
		"too short":             {0, n, 0, []int{newMemfd(t, n-4096, unix.F_SEAL_SHRINK, 0)}},
		"beyond its end":        {0, n, n, []int{good}},
		"an offset below 0":     {0, n, 1<<64 - 4096, []int{good}},
		"a part of a page":      {0, n, 8, []int{good}},
		"no whole page":         {0, 100, 0, []int{good}},
	} {
		mu.Lock()
		lines = nil
		mu.Unlock()
		p, _ := f.register(c.off, c.n, uapi.ShareMemfd, c.at, c.fds...)
		mu.Lock()
		if p.Result != -int64(syscall.EINVAL) || !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "MEMORY_SHARED") }) {
			t.Errorf("%s: %v, logged %q", name, syscall.Errno(-p.Result), lines)
		}
		mu.Unlock()
	}
	// It may not come in the place of memory that a region is on already.
	if p, _ := f.register(0, n, uapi.ShareMemfd, 0, good); p.Result < 0 {
		t.Fatalf("%+v", p)
	}
	if p, _ := f.register(0, n, uapi.ShareMemfd, 0, good); p.Result != -int64(syscall.EINVAL) {
		t.Errorf("twice: %+v", p)
	}
	eventually(t, "all descriptors closed", func() bool { return openDescriptors(t) <= before+5 }) // four of them memfds of the table
}

func TestPrivateRegionIsReported(t *testing.T) {
	s := newServer(t, "127.14.8.4")
	f := newSharer(t, s)
	for _, why := range []uint64{uapi.NotThreads, 99} {
		if p, r := f.register(0, 1<<20, uapi.ShareNot, why); p.Result < 0 || r.LKey == 0 {
			t.Fatalf("%+v", p)
		}
	}
	if n := maps.Collect(s.cfg.Devices[0].Counters())["MEMORY_PRIVATE"]; n != 2 {
		t.Errorf("counted %d times", n)
	}
}

// A share is nothing to who does not know it: it belongs to one process.
func TestSharesBelongToOneProcess(t *testing.T) {
	s := newServer(t, "127.14.8.5")
	a := newSharer(t, s)
	p, _ := a.register(0, 1<<20, uapi.ShareMemfd, 0, newMemfd(t, 1<<20, unix.F_SEAL_SHRINK, 0))
	if p.File == 0 {
		t.Fatalf("%+v", p)
	}
	h := startHelper(t, s, nil)
	known := s.admission.Processes()
	i := slices.IndexFunc(known, func(p *client.Process) bool { return p.PID == h.cmd.Process.Pid })
	if i < 0 {
		t.Fatal("the server does not know the other process")
	}
	if n, _ := known[i].Shared(); n != 0 {
		t.Errorf("%v has %d shares", known[i], n)
	}
	// Files go with what they hold, and accounts are looked at in the end.
	if q := a.tellClose(); q.Result != 0 {
		t.Error(q.Result)
	}
	for _, p := range s.admission.Processes() {
		if shares, regions := p.Shared(); shares+regions != 0 {
			t.Errorf("%v: left %d shares of %d regions", p, shares, regions)
		}
	}
}

func (f *sharer) tellClose() uapi.Reply {
	f.t.Helper()
	p, _ := f.send(uapi.Request{Op: uapi.OpClose, File: f.id}, nil)
	return p
}

// FuzzShare has regions made and given up with anything said of sharing them.
func FuzzShare(f *testing.F) {
	f.Add([]byte{0, 0, 16, 1, 0, 0, 0, 16, 2, 0, 0, 1, 8, 3, 1, 1, 0, 0, 0, 0})
	f.Add([]byte{0, 48, 0, 48, 48}) // of no length
	pid := os.Getpid()              // several processes fuzz at a time
	s := newServer(f, fmt.Sprintf("127.18.%d.%d", pid>>8&0xff, 1+pid&0x7f))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := newSharer(t, s)
		fd := newMemfd(t, 1<<20, unix.F_SEAL_SHRINK, 0)
		var handles []uint32
		for ; len(b) >= 5 && c.used < 1<<19; b = b[5:] {
			if b[0]&1 != 0 && len(handles) > 0 {
				i := int(b[1]) % len(handles)
				if p := c.deregister(handles[i]); p.Result < 0 {
					t.Fatalf("%+v", p)
				}
				handles = slices.Delete(handles, i, i+1)
				continue
			}
			off := uint64(b[1]) << 11
			n := min(uint64(b[2])<<15+uint64(b[0]), 1<<20-off)
			var fds []int
			if b[0]&2 == 0 {
				fds = []int{fd}
			}
			p, r := c.register(off, n, uint64(b[3]%6), uint64(b[4])<<(b[0]&12), fds...)
			if p.Result < 0 || p.Flags&uapi.ReplyShare != 0 {
				continue
			}
			handles = append(handles, r.MRHandle)
			if n == 0 { // has no byte
				continue
			}
			for _, at := range []uint64{off, off + n/2, off + n - 1} {
				if d := s.devices[0].Adapter.Memory.Lookup(r.RKey).Put(addrOf(c.mem)+at, []byte{1}); d.Reason != reason.None {
					t.Fatal(d)
				}
			}
		}
		if p := c.tellClose(); p.Result != 0 {
			t.Fatal(p.Result)
		}
	})
}
