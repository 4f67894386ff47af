//go:build linux

package uverbs

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/uapi"
)

// openOwn opens a device as programs of this module do. It returns the descriptor of
// asynchronous events as well.
func (c *testClient) openOwn() (*devFile, *os.File) {
	c.t.Helper()
	f := c.open("uverbs0")
	no, b, fds := f.command(uapi.CmdGetContext, uapi.Bytes(&uapi.Response{}), uapi.Bytes(&uapi.OwnContext{}), 8+uapi.Size[uapi.OwnContextResp]())
	if no != 0 || len(fds) != 1 {
		c.t.Fatalf("GET_CONTEXT: %v, %d descriptors", no, len(fds))
	}
	about, _ := uapi.Parse[uapi.OwnContextResp](b[8:])
	if about.Port != 4791 || about.Reasons != uapi.Reasons() {
		c.t.Fatalf("found %+v", about)
	}
	async := os.NewFile(uintptr(fds[0]), "async")
	c.t.Cleanup(func() { async.Close() })
	return f, async
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

func TestMemoryIsSharedOnlyIfItCannotShrink(t *testing.T) {
	s := newServer(t, "127.14.7.1")
	f, _ := newTestClient(t, s).openOwn()
	pd, _, _ := do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	const n = 3 << 12
	good := newMemfd(t, n, unix.F_SEAL_SHRINK, 0)
	readOnly, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", good), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(readOnly)
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(null)
	reg := func(start, length, offset uint64, fds ...int) (syscall.Errno, uapi.RegMRResp) {
		if len(fds) > 0 {
			defer f.rightsOf(fds...)()
		}
		no, b, _ := f.command(uapi.CmdRegMR, uapi.Bytes(&uapi.RegMR{Start: start, Length: length, HCAVA: start, PDHandle: pd.Handle, AccessFlags: rightsAll}),
			uapi.Bytes(&uapi.OwnMR{Flags: uapi.SharedMemory, Offset: offset}), 12)
		r, _ := uapi.Parse[uapi.RegMRResp](b)
		return no, r
	}
	at := addrOf(f.alloc(n)) &^ 4095 // mapped, and not the memfd: nobody looks there
	before := openDescriptors(t)
	for name, c := range map[string]struct {
		start, length, offset uint64
		fds                   []int
		want                  syscall.Errno
	}{
		"no descriptor":        {at, 4096, 0, nil, syscall.EINVAL},
		"two descriptors":      {at, 4096, 0, []int{good, good}, syscall.EINVAL},
		"a device":             {at, 4096, 0, []int{null}, syscall.EINVAL},
		"may shrink":           {at, 4096, 0, []int{newMemfd(t, n, 0, 0)}, syscall.EINVAL},
		"read-only":            {at, 4096, 0, []int{readOnly}, syscall.EACCES},
		"longer than the file": {at, n + 1, 0, []int{good}, syscall.EINVAL},
		"beyond its end":       {at, 1, n, []int{good}, syscall.EINVAL},
		"an offset below 0":    {at, 4096, 1<<64 - 4096, []int{good}, syscall.EINVAL},
		"nothing":              {at, 0, 0, []int{good}, syscall.EINVAL},
		"at another alignment": {at + 8, 4096, 0, []int{good}, syscall.EINVAL},
	} {
		if no, _ := reg(c.start, c.length, c.offset, c.fds...); no != c.want {
			t.Errorf("%s: %v, want %v", name, no, c.want)
		}
	}
	no, r := reg(at+8, 5000, 4096+8, good)
	if no != 0 {
		t.Fatal(no)
	}
	// The device writes to the file only.
	region := s.devices[0].Adapter.Memory.Lookup(r.RKey)
	if d := region.Put(at+8, []byte("shared")); d.Reason != reason.None {
		t.Fatal(d)
	}
	var b [6]byte
	if _, err := unix.Pread(good, b[:], 4096+8); err != nil || string(b[:]) != "shared" {
		t.Errorf("found %q, %v", b, err)
	}
	eventually(t, "all descriptors closed", func() bool { return openDescriptors(t) <= before+1 }) // one for a memfd of the table
}

// Linux registers regions of no bytes, and those of IBV_ACCESS_ZERO_BASED, whose first
// byte has the address that the command says.
func TestRegionsOfNoBytesAndZeroBased(t *testing.T) {
	s := newServer(t, "127.14.7.2")
	own, _ := newTestClient(t, s).openOwn()
	for _, d := range []*devFile{own, newTestClient(t, s).open("uverbs0")} {
		pd, _, _ := do[uapi.HandleOnly](d, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
		page := addrOf(d.alloc(8192)) &^ 4095
		page += 4096
		for name, q := range map[string]uapi.RegMR{
			"no bytes":                    {Start: page + 8, HCAVA: page + 8},
			"no bytes at a page's start":  {Start: page, HCAVA: page},
			"no bytes at all":             {},
			"zero-based":                  {Start: page, Length: 64, AccessFlags: uint32(qp.ZeroBased | qp.LocalWrite)},
			"zero-based with its address": {Start: page, HCAVA: page, Length: 64, AccessFlags: uint32(qp.ZeroBased | qp.LocalWrite)},
		} {
			q.PDHandle = pd.Handle
			r, _, _ := do[uapi.RegMRResp](d, uapi.CmdRegMR, uapi.Bytes(&q), 12)
			region := s.devices[0].Adapter.Memory.Lookup(r.RKey)
			if region == nil || region.Base != q.HCAVA || region.Len() != q.Length {
				t.Errorf("%s: found %+v, want %d bytes at %#x", name, region, q.Length, q.HCAVA)
			}
			if q.Length > 0 {
				if why := region.Put(q.HCAVA, []byte("x")); why.Reason != reason.None {
					t.Errorf("%s: %v", name, why)
				}
			}
			if no, _, _ := d.command(uapi.CmdDeregMR, uapi.Bytes(&uapi.HandleOnly{Handle: r.MRHandle}), nil, 0); no != 0 {
				t.Errorf("%s: deregistered with %v", name, no)
			}
		}
	}
}

func TestRefusalTextIsSentOnRequest(t *testing.T) {
	s := newServer(t, "127.14.7.3")
	f := newTestClient(t, s).open("uverbs0")
	h := uapi.CmdHeader{Command: uapi.CmdDeallocPD, InWords: 3}
	b := append(uapi.Bytes(&h), binary.NativeEndian.AppendUint32(nil, 77)...)
	f.send(uapi.Request{Op: uapi.OpWrite, File: f.id, Arg: [4]uint64{0, uint64(len(b))}}, b)
	if len(f.text) != 0 {
		t.Errorf("text %q without a request for it", f.text)
	}
	p, _ := f.send(uapi.Request{Op: uapi.OpWrite | uapi.OpTell, File: f.id, Arg: [4]uint64{0, uint64(len(b))}}, b)
	if p.Result != -int64(syscall.ENOENT) || !strings.Contains(f.text, "COMMAND_HANDLE") || !strings.Contains(f.text, "77") {
		t.Errorf("result %d, text %q", p.Result, f.text)
	}
}

func TestCloseDestroysEverythingBeforeItReturns(t *testing.T) {
	s := newServer(t, "127.14.7.4")
	f := newTestClient(t, s).open("uverbs0")
	newSide(f, 0x1000)
	if p, _ := f.send(uapi.Request{Op: uapi.OpClose, File: f.id}, nil); p.Result != 0 {
		t.Fatal(p.Result)
	}
	if c := s.cfg.Devices[0].Counts(); c.QP+c.CQ+c.MR+c.PD != 0 {
		t.Errorf("left %+v", c)
	}
	if p, _ := f.send(uapi.Request{Op: uapi.OpClose, File: f.id}, nil); p.Result != -int64(syscall.EIO) {
		t.Errorf("a second time: %d", p.Result)
	}
}

func TestEventsOfOwnProgramsHaveReasons(t *testing.T) {
	s := newServer(t, "127.14.7.5")
	_, async := newTestClient(t, s).openOwn()
	var e uapi.OwnEvent
	s.devices[0].Adapter.Raise(machine.EventPortErr, nil, reason.Detail{})
	if _, err := async.Read(uapi.Bytes(&e)); err != nil || e.Element != 1 || e.EventType != uint32(machine.EventPortErr) {
		t.Errorf("found %+v, %v", e, err)
	}
}

func TestOwnOptionsOfConnections(t *testing.T) {
	s := newServer(t, "127.14.7.6")
	f := cmFile{newTestClient(t, s).open("rdma_cm")}
	id := f.id(0x106)
	set := func(name, value uint32) syscall.Errno {
		b := f.alloc(4)
		binary.NativeEndian.PutUint32(b, value)
		no, _ := f.do(uapi.CMSetOption, uapi.Bytes(&uapi.CMOption{ID: id, Level: uapi.CMOptionOwn, Name: name, Value: addrOf(b), Len: 4}), -1, 0)
		return no
	}
	if no := set(uapi.CMOwnMinRNRTimer, 3); no != syscall.ENOSYS {
		t.Errorf("a program that is not softrdma's: %v", no)
	}
	if no, _ := f.do(uapi.CMOwn, uapi.Bytes(&uapi.OwnCM{Flags: 1}), 0, 8); no != syscall.EINVAL {
		t.Errorf("with a flag: %v", no)
	}
	b := f.must(uapi.CMOwn, uapi.Bytes(&uapi.OwnCM{}), 0, 8)
	if binary.NativeEndian.Uint64(b) != uapi.Reasons() {
		t.Errorf("found %#x", b)
	}
	for _, c := range []struct {
		name, value uint32
		want        syscall.Errno
	}{
		{uapi.CMOwnProtocol, 255, 0}, {uapi.CMOwnProtocol, 254, syscall.EINVAL}, {uapi.CMOwnProtocol, 256, syscall.EINVAL},
		{uapi.CMOwnMinRNRTimer, 31, 0}, {uapi.CMOwnMinRNRTimer, 32, syscall.EINVAL}, {uapi.CMOwnMinRNRTimer, 256, syscall.EINVAL},
		{uapi.CMOwnUDPPort, 65535, 0}, {uapi.CMOwnUDPPort, 65536, syscall.EINVAL},
		{uapi.CMOwnTimeout, 15<<8 | 31, 0}, {uapi.CMOwnTimeout, 16 << 8, syscall.EINVAL}, {uapi.CMOwnTimeout, 1 << 16, syscall.EINVAL},
		{99, 0, syscall.ENOSYS},
	} {
		if no := set(c.name, c.value); no != c.want {
			t.Errorf("option %d = %d: %v, want %v", c.name, c.value, no, c.want)
		}
	}
}
