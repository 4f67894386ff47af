//go:build linux

package uverbs

import (
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// A process is a program that has sent a request, by its number. Its memory is
// read and written by that number, as the system does for a debugger.
type process struct {
	pid   int
	gone  atomic.Bool // the number may be another's now
	pidfd *os.File    // nil where the system has none
}

// Load implements memory.Space.
func (p *process) Load(dst []byte, addr uint64) error {
	for len(dst) > 0 {
		if p.gone.Load() {
			return syscall.ESRCH
		}
		local := [1]unix.Iovec{{Base: &dst[0], Len: uint64(len(dst))}}
		remote := [1]unix.RemoteIovec{{Base: uintptr(addr), Len: len(dst)}}
		n, err := unix.ProcessVMReadv(p.pid, local[:], remote[:], 0)
		if err != nil {
			return err
		}
		if n <= 0 {
			return syscall.EFAULT
		}
		dst, addr = dst[n:], addr+uint64(n)
	}
	return nil
}

// Store implements memory.Space.
func (p *process) Store(addr uint64, src []byte) error {
	for len(src) > 0 {
		if p.gone.Load() {
			return syscall.ESRCH
		}
		local := [1]unix.Iovec{{Base: &src[0], Len: uint64(len(src))}}
		remote := [1]unix.RemoteIovec{{Base: uintptr(addr), Len: len(src)}}
		n, err := unix.ProcessVMWritev(p.pid, local[:], remote[:], 0)
		if err != nil {
			return err
		}
		if n <= 0 {
			return syscall.EFAULT
		}
		src, addr = src[n:], addr+uint64(n)
	}
	return nil
}

// watch makes p gone when the process ends, and then calls done. The
// descriptor is of the process that has the number now: the one that asked. It
// tells false where the system cannot, before Linux 5.10; the process's files go
// with it, and tell.
func (p *process) watch(done func()) bool {
	fd, err := unix.PidfdOpen(p.pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return false
	}
	p.pidfd = os.NewFile(uintptr(fd), "pidfd")
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return false
	}
	go func() {
		_ = raw.Read(readable)
		p.gone.Store(true)
		done()
	}()
	return true
}

// close ends watch.
func (p *process) close() {
	if p.pidfd != nil {
		_ = p.pidfd.Close()
	}
}

// readable tells whether a descriptor has anything to tell now.
func readable(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 || err != nil && err != unix.EINTR
}
