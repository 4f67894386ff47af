//go:build linux

package uverbs

import (
	"bytes"
	"math"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/wire/uapi"
)

// register registers memory, and returns its keys.
func (s *side) register(start, length uint64, access qp.Access) (uapi.RegMRResp, syscall.Errno) {
	no, b, _ := s.f.command(uapi.CmdRegMR, uapi.Bytes(&uapi.RegMR{
		Start: start, Length: length, HCAVA: start, PDHandle: s.pd, AccessFlags: uint32(access),
	}), nil, 12)
	r, _ := uapi.Parse[uapi.RegMRResp](b)
	return r, no
}

func (s *side) deregister(h uint32) {
	s.f.t.Helper()
	if no, _, _ := s.f.command(uapi.CmdDeregMR, uapi.Bytes(&uapi.HandleOnly{Handle: h}), nil, 0); no != 0 {
		s.f.t.Error(no)
	}
}

// advise gives advice about an entry as libibverbs does.
func (s *side) advise(advice, flags uint32, e memory.SGE) syscall.Errno {
	list := s.f.alloc(uapi.Size[memory.SGE]())
	copy(list, uapi.Bytes(&e))
	return s.ioctl(uapi.IoctlHeader{Object: uapi.ObjectMR, Method: uapi.MethodAdviseMR},
		uapi.IoctlAttr{ID: 0, Data: uint64(s.pd)}, uapi.IoctlAttr{ID: 1, Len: 4, Data: uint64(advice)},
		uapi.IoctlAttr{ID: 2, Len: 4, Data: uint64(flags)}, uapi.IoctlAttr{ID: 3, Len: uint16(len(list)), Data: addrOf(list)})
}

// ioctl makes the ioctl of a method.
func (s *side) ioctl(h uapi.IoctlHeader, attrs ...uapi.IoctlAttr) syscall.Errno {
	h.Attrs, h.Length = uint16(len(attrs)), uint16(uapi.Size[uapi.IoctlHeader]()+len(attrs)*uapi.Size[uapi.IoctlAttr]())
	b := uapi.Bytes(&h)
	for i := range attrs {
		b = append(b[:len(b):len(b)], uapi.Bytes(&attrs[i])...)
	}
	arg := s.f.alloc(len(b))
	copy(arg, b)
	p, _ := s.f.send(uapi.Request{Op: uapi.OpIoctl, File: s.f.id, Arg: [4]uint64{uapi.VerbsIoctl, addrOf(arg)}}, nil)
	return syscall.Errno(-p.Result)
}

func TestMemoryOnDemand(t *testing.T) {
	t.Run("device in the server", func(t *testing.T) {
		a, b := newPair(t, newServer(t, "127.14.0.28"))
		onDemand(t, a, b, false)
	})
	t.Run("device in the program", func(t *testing.T) {
		a, b := newEnginePair(t, [2]string{"127.14.15.21", "127.14.15.22"})
		onDemand(t, a, b, true)
	})
}

const odpRights = qp.LocalWrite | qp.RemoteWrite | qp.OnDemand

// writeTo writes the beginning of the buffer to memory of the peer.
func (s *side) writeTo(at []byte, key uint32) {
	s.f.t.Helper()
	s.post(queue.Write, func(w *queue.SendWQE) { *w.RDMA() = queue.RDMA{Addr: addrOf(at), RKey: key} }, s.sge(0, 100))
	s.completion()
	if !bytes.Equal(at[:100], s.buf[:100]) {
		s.f.t.Errorf("found %q", at[:100])
	}
}

func onDemand(t *testing.T, a, b *side, own bool) {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(page) }()
	at := addrOf(page)
	if _, no := b.register(at, 4096, qp.LocalWrite); no != syscall.EFAULT {
		t.Errorf("memory without access, not on demand: %v", no)
	}
	r, no := b.register(at, 4096, odpRights)
	if no != 0 {
		t.Fatalf("memory without access: %v", no)
	}
	e := memory.SGE{Addr: at, Length: 4096, LKey: r.LKey}
	unmapped := syscall.Errno(0) // memory of another process is brought in when it is used
	if own {
		unmapped = syscall.EFAULT
	}
	for name, c := range map[string]struct{ got, want syscall.Errno }{
		"memory without access":       {b.advise(1, 1, e), unmapped},
		"the same, best effort":       {b.advise(1, 0, e), 0},
		"beyond the region":           {b.advise(0, 1, memory.SGE{Addr: at + 1, Length: 4096, LKey: r.LKey}), syscall.EFAULT},
		"unknown key":                 {b.advise(0, 0, memory.SGE{Addr: at, Length: 1, LKey: 1}), syscall.EFAULT},
		"nothing":                     {b.advise(0, 1, memory.SGE{}), 0},
		"unknown advice":              {b.advise(3, 0, e), syscall.EOPNOTSUPP},
		"unknown flag":                {b.advise(0, 2, e), syscall.EINVAL},
		"attributes missing":          {b.ioctl(uapi.IoctlHeader{Object: uapi.ObjectMR, Method: uapi.MethodAdviseMR}), syscall.EINVAL},
		"another method":              {b.ioctl(uapi.IoctlHeader{Object: uapi.ObjectMR, Method: 1}), syscall.ENOTTY},
		"more attributes than it has": {b.ioctl(uapi.IoctlHeader{Object: uapi.ObjectMR, Method: uapi.MethodAdviseMR}, make([]uapi.IoctlAttr, 9)...), syscall.EINVAL},
	} {
		if c.got != c.want {
			t.Errorf("advice about %s: found %v, expected %v", name, c.got, c.want)
		}
	}
	if err := unix.Mprotect(page, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		t.Fatal(err)
	}
	for advice := range uint32(3) {
		if no := b.advise(advice, 1, e); no != 0 {
			t.Errorf("advice %d about mapped memory: %v", advice, no)
		}
	}
	copy(a.buf, bytes.Repeat([]byte("on demand "), 10))
	a.writeTo(page, r.RKey)
	b.deregister(r.MRHandle)

	r, no = b.register(0, math.MaxUint64, odpRights)
	if !own {
		if no != syscall.EOPNOTSUPP {
			t.Errorf("the whole address space of another process: %v", no)
		}
		return
	}
	if no != 0 {
		t.Fatalf("the whole address space: %v", no)
	}
	clear(page)
	a.writeTo(page, r.RKey)
	b.deregister(r.MRHandle)
}
