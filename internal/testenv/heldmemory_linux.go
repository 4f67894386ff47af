package testenv

import (
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Held is memory whose pages are withheld until Release: a system call that copies from or to
// it blocks (userfaultfd). No goroutine of the test may touch it meanwhile.
type Held struct {
	Mem []byte
	fd  int
}

// Numbers of userfaultfd(2).
const (
	uffdAPI      = 0xc018aa3f
	uffdRegister = 0xc020aa00
	uffdVersion  = 0xaa
	uffdMissing  = 1
)

// HoldMemory maps n bytes, whole pages, that are withheld.
func HoldMemory(t testing.TB, n int) *Held {
	t.Helper()
	fd, _, no := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0)
	if no != 0 {
		t.Skipf("SKIPPED: no userfaultfd for system calls (%v): it needs root or vm.unprivileged_userfaultfd", no)
	}
	h := &Held{fd: int(fd)}
	t.Cleanup(h.Release)
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	h.Mem = mem
	api := [3]uint64{uffdVersion}
	h.control(t, uffdAPI, unsafe.Pointer(&api))
	register := [4]uint64{uint64(uintptr(unsafe.Pointer(&mem[0]))), uint64(n), uffdMissing}
	h.control(t, uffdRegister, unsafe.Pointer(&register))
	return h
}

func (h *Held) control(t testing.TB, request uintptr, arg unsafe.Pointer) {
	t.Helper()
	if _, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(h.fd), request, uintptr(arg)); no != 0 {
		t.Fatalf("userfaultfd: request %#x: %v", request, no)
	}
}

// AwaitUse waits until a system call blocks on a page.
func (h *Held) AwaitUse(t testing.TB, limit time.Duration) {
	t.Helper()
	var event [32]byte
	poll := []unix.PollFd{{Fd: int32(h.fd), Events: unix.POLLIN}}
	for end := time.Now().Add(limit); time.Now().Before(end); {
		if n, err := unix.Poll(poll, 100); n > 0 && err == nil {
			if _, err := unix.Read(h.fd, event[:]); err == nil {
				return
			}
		}
	}
	t.Fatal("nobody uses the memory that is held")
}

// Release provides the pages. It may be called again.
func (h *Held) Release() {
	if h.fd >= 0 {
		_ = unix.Close(h.fd)
		h.fd = -1
	}
}
