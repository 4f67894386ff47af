//go:build linux

package uverbs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
)

// A process is a program that has made a connection. Who it is the system
// tells, never a message.
//
// The memory of programs of the server's own user is reached by the process's
// number, as by a debugger: that is fast, and where a program was replaced by
// another one, by exec or because the number is another's, the user could have
// done the same. Programs of other users are served by root alone, to whom the
// system denies nothing: theirs is reached through a descriptor that stands for
// one address space and none after it. Otherwise a program could register
// memory and then run a set-user-ID program in its place.
type process struct {
	pid      int
	uid, gid uint32
	gone     atomic.Bool // the number may be another's now
	pidfd    *os.File    // nil where the system has none
	mem      *os.File    // of another user's program
	denied   error       // its memory
	refused  error       // it is not served
	account  *account    // its user's
	held     atomic.Bool // descriptors, on account
	sharing  sharing
}

func (p *process) String() string { return fmt.Sprintf("process %d (user %d)", p.pid, p.uid) }

// Load implements memory.Space.
func (p *process) Load(dst []byte, addr uint64) error {
	if p.mem != nil {
		return memError(p.mem.ReadAt(dst, int64(addr)))
	}
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
	if p.mem != nil {
		return memError(p.mem.WriteAt(src, int64(addr)))
	}
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

// memError gives an error of /proc/PID/mem the number that process_vm_readv
// has for it: no process any more is the end of the file there, and nothing
// mapped EIO, or no offset of a file.
func memError(_ int, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrClosed):
		return syscall.ESRCH
	}
	return syscall.EFAULT
}

// reach tells whether the process's memory can be read at all, at an address
// that it has mapped.
func (p *process) reach(addr uint64) error {
	err := p.denied
	if err == nil && addr != 0 {
		var b [1]byte
		err = p.Load(b[:], addr)
	}
	if no := syscall.Errno(0); errors.As(err, &no) && no != syscall.EFAULT {
		return refuse(syscall.EACCES, reason.ClientMemory, uint64(p.pid), uint64(no))
	}
	return nil
}

// openMemory opens the process's address space. It belongs to its user, not to
// a program that the process has turned into meanwhile: the owner of the
// process's directory is another's, root, while a set-user-ID program runs.
func (p *process) openMemory() error {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	st, err := os.Stat(fmt.Sprintf("/proc/%d", p.pid))
	if err == nil && (st.Sys().(*syscall.Stat_t).Uid != p.uid || p.ended()) {
		err = syscall.EPERM
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	p.mem = f
	return nil
}

// ended asks the system whether the process has ended.
func (p *process) ended() bool {
	if p.gone.Load() || p.pidfd == nil {
		return p.gone.Load()
	}
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return true
	}
	over := true
	_ = raw.Control(func(fd uintptr) { over = readable(fd) })
	return over
}

// watch makes p gone when the process ends, and then calls done. It tells
// false where there is no descriptor to watch; the process's files go with it,
// and tell.
func (p *process) watch(done func()) bool {
	if p.pidfd == nil {
		return false
	}
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

// close ends watch, and the use of the process's memory.
func (p *process) close() {
	p.gone.Store(true)
	if p.held.Swap(false) {
		p.account.descriptors.give(processDescriptors)
	}
	if p.pidfd != nil {
		_ = p.pidfd.Close()
	}
	if p.mem != nil {
		_ = p.mem.Close()
	}
}

// processDescriptors is how many are held for a process.
const processDescriptors = 2

// readable tells whether a descriptor has anything to tell now.
func readable(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 || err != nil && err != unix.EINTR
}

// soPeerPidFD is SO_PEERPIDFD, of Linux 6.5 on.
const soPeerPidFD = 77

// pidfdOf gives a descriptor of the process that made a connection, nil where
// the system has none, before Linux 5.3. Systems without SO_PEERPIDFD look for
// the process by its number, which it may just have left to another one.
func pidfdOf(sock, pid int) *os.File {
	fd, err := unix.GetsockoptInt(sock, unix.SOL_SOCKET, soPeerPidFD)
	if err != nil {
		if fd, err = unix.PidfdOpen(pid, 0); err != nil {
			return nil
		}
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), "pidfd")
}

// inodeOf tells which pipe a descriptor of a program's is.
func (p *process) inodeOf(fd int) (uint64, error) {
	var room [64]byte
	n, err := unix.Readlink(fmt.Sprintf("/proc/%d/fd/%d", p.pid, fd), room[:])
	if err != nil {
		return 0, syscall.EBADF
	}
	var inode uint64
	if k, _ := fmt.Sscanf(string(room[:n]), "pipe:[%d]", &inode); k != 1 {
		return 0, syscall.EBADF
	}
	return inode, nil
}
