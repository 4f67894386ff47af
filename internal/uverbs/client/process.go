//go:build linux

package client

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
)

// A Process is a program that has made a connection. Its identity comes from the
// system, never from a message.
//
// The memory of programs of the server's own user is accessed by process number,
// as a debugger does. That is fast, and safe even if exec or reuse of the number
// has put another program in its place, because the user could have accessed that
// one as well. Only root serves programs of other users, and the system denies
// root nothing, so their memory is accessed through a descriptor that stands for
// one address space and for none after it. Otherwise a program could register
// memory and then run a set-user-ID program in its place.
type Process struct {
	PID      int
	UID, GID uint32
	gone     atomic.Bool // it has ended: its number may belong to another one
	pidfd    *os.File    // nil if the system has none
	mem      *os.File    // its memory, if it is another user's program
	denied   error       // why its memory cannot be accessed
	Refused  error       // why it is not served
	Looks    atomic.Bool // it leads no program to the server
	Account  *Account    // of its user
	refusals *Refusals   // counts memory that does not answer; may be nil
	copies   copies
	held     atomic.Bool // account counts processDescriptors for it
	mapping  sync.Mutex
	pages    map[any]*pages // that this process has mapped for it, by their file
	self     bool           // it is this process
	maps     *os.File       // of this process
	reading  sync.Mutex
}

func (p *Process) String() string { return fmt.Sprintf("process %d (user %d)", p.PID, p.UID) }

// Load implements memory.Space. If the memory does not answer, it returns an error after a while,
// but dst may be written to later: see AfterCopies.
func (p *Process) Load(dst []byte, addr uint64) error {
	if p.self {
		return copyOwn(dst, OwnMemory(addr, len(dst)))
	}
	return p.copy(copyLoad, dst, addr)
}

// load is Load, which may wait for the process's memory.
func (p *Process) load(dst []byte, addr uint64) error {
	if p.mem != nil {
		return memError(p.mem.ReadAt(dst, int64(addr)))
	}
	for len(dst) > 0 {
		if p.gone.Load() {
			return syscall.ESRCH
		}
		local := [1]unix.Iovec{{Base: &dst[0], Len: uint64(len(dst))}}
		remote := [1]unix.RemoteIovec{{Base: uintptr(addr), Len: len(dst)}}
		n, err := unix.ProcessVMReadv(p.PID, local[:], remote[:], 0)
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

// Store implements memory.Space. If the memory does not answer, it returns an error after a while,
// but src may be read later: see AfterCopies.
func (p *Process) Store(addr uint64, src []byte) error {
	if p.self {
		return copyOwn(OwnMemory(addr, len(src)), src)
	}
	return p.copy(copyStore, src, addr)
}

// store is Store, which may wait for the process's memory.
func (p *Process) store(addr uint64, src []byte) error {
	if p.mem != nil {
		return memError(p.mem.WriteAt(src, int64(addr)))
	}
	for len(src) > 0 {
		if p.gone.Load() {
			return syscall.ESRCH
		}
		local := [1]unix.Iovec{{Base: &src[0], Len: uint64(len(src))}}
		remote := [1]unix.RemoteIovec{{Base: uintptr(addr), Len: len(src)}}
		n, err := unix.ProcessVMWritev(p.PID, local[:], remote[:], 0)
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

// memError turns an error of /proc/PID/mem into the one that process_vm_readv
// gives. A process that has ended reads as the end of the file, and an address
// without a mapping as EIO or an invalid offset.
func memError(_ int, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrClosed):
		return syscall.ESRCH
	}
	return syscall.EFAULT
}

// CheckMemory returns why the process's memory cannot be accessed, or nil. Addr is an
// address that the process has mapped.
func (p *Process) CheckMemory(addr uint64) error {
	err := p.denied
	if err == nil && addr != 0 {
		var b [1]byte
		err = p.Load(b[:], addr)
	}
	if no := syscall.Errno(0); errors.As(err, &no) && no != syscall.EFAULT && no != syscall.ETIMEDOUT {
		return Refuse(syscall.EACCES, reason.ClientMemory, uint64(p.PID), uint64(no))
	}
	return nil
}

// openMemory opens the process's address space. It fails if the process runs a
// set-user-ID program by now: its directory belongs to another user then.
func (p *Process) openMemory() error {
	f, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.PID), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	st, err := os.Stat(fmt.Sprintf("/proc/%d", p.PID))
	if err == nil && (st.Sys().(*syscall.Stat_t).Uid != p.UID || p.Ended()) {
		err = syscall.EPERM
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	p.mem = f
	return nil
}

// Same reports whether two are the same process, still running as the same user.
func (p *Process) Same(other *Process) bool {
	return p != nil && p.UID == other.UID && p.GID == other.GID && !p.Ended()
}

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	if p.gone.Load() || p.pidfd == nil {
		return p.gone.Load()
	}
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return true
	}
	over := true
	_ = raw.Control(func(fd uintptr) { over = Readable(fd) })
	return over
}

// Exited reports whether the process has ended or is ending: it has no memory any more. Unlike Ended it is
// right while the system closes the process's descriptors, and after Close.
func (p *Process) Exited() bool {
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID))
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// watch marks p as gone when the process ends, and then calls done. It reports
// false where there is no descriptor to watch. The end of the process still ends
// its files.
func (p *Process) watch(done func()) bool {
	if p.pidfd == nil {
		return false
	}
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return false
	}
	go func() {
		_ = raw.Read(Readable)
		p.gone.Store(true)
		done()
	}()
	return true
}

// Close ends watch and all access to the process's memory.
func (p *Process) Close() {
	p.gone.Store(true)
	p.copies.close()
	if p.held.Swap(false) {
		p.Account.Descriptors.Return(ProcessDescriptors)
	}
	if p.pidfd != nil {
		_ = p.pidfd.Close()
	}
	if p.mem != nil {
		_ = p.mem.Close()
	}
	if p.maps != nil {
		_ = p.maps.Close()
	}
}

// ProcessDescriptors is how many descriptors a process counts for.
const ProcessDescriptors = 2

// Readable reports whether a descriptor is readable.
func Readable(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return n > 0 || err != nil && err != unix.EINTR
}

// soPeerPidFD is SO_PEERPIDFD, since Linux 6.5.
const soPeerPidFD = 77

// pidfdOf returns a descriptor of the process that made a connection, or nil
// before Linux 5.3. Systems without SO_PEERPIDFD find the process by its number,
// which another process may just have taken over.
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

// openMaps returns the file with the mappings of the process, and what ends its use.
func (p *Process) openMaps() (_ io.Reader, done func(), _ error) {
	if p.maps != nil {
		p.reading.Lock()
		if _, err := p.maps.Seek(0, io.SeekStart); err != nil {
			p.reading.Unlock()
			return nil, nil, err
		}
		return p.maps, p.reading.Unlock, nil
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", p.PID))
	return f, func() { _ = f.Close() }, err
}

// Mapped checks that a process has all of a range mapped, and writable if write is
// set, and returns where the mappings of that range begin and end.
func (p *Process) Mapped(start, end uint64, write bool) (first, last uint64, _ error) {
	if p.self {
		return p.mapped(start, end, write)
	}
	var found [2]uint64 // the list waits for the lock that page faults of the process hold
	err := p.call(func() (err error) {
		found[0], found[1], err = p.mapped(start, end, write)
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	return found[0], found[1], nil
}

func (p *Process) mapped(start, end uint64, write bool) (first, last uint64, _ error) {
	f, done, err := p.openMaps()
	if err != nil {
		return 0, 0, syscall.ESRCH
	}
	first, last = start, end
	defer done()
	for s := bufio.NewScanner(f); start < end && s.Scan(); {
		var from, to uint64
		var perms string
		if n, _ := fmt.Sscanf(s.Text(), "%x-%x %4s", &from, &to, &perms); n != 3 || to <= start {
			continue
		}
		if from > start || perms[0] != 'r' || write && perms[1] != 'w' {
			break
		}
		first, last = min(first, from), max(last, to)
		start = to
	}
	if start < end {
		return 0, 0, fmt.Errorf("memory at %#x: %w", start, syscall.EFAULT)
	}
	return first, last, nil
}

// PipeInode returns the inode of the pipe that a descriptor of the program is.
func (p *Process) PipeInode(fd int) (uint64, error) {
	var room [64]byte
	n, err := unix.Readlink(fmt.Sprintf("/proc/%d/fd/%d", p.PID, fd), room[:])
	if err != nil {
		return 0, syscall.EBADF
	}
	var inode uint64
	if k, _ := fmt.Sscanf(string(room[:n]), "pipe:[%d]", &inode); k != 1 {
		return 0, syscall.EBADF
	}
	return inode, nil
}
