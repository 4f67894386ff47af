package samehost

import (
	"bytes"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
)

// A process is a peer's, as the system knows it.
type process struct {
	pid   int // 0 if it has none in this PID namespace
	uid   uint32
	pidfd int // -1 for none
}

// peerOf returns the process at the other end of a connection.
func peerOf(c *net.UnixConn) (process, error) {
	p := process{pidfd: -1}
	err := control(c, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			p.pid, p.uid = int(cred.Pid), cred.Uid
		}
		return err
	})
	return p, err
}

// control calls f with a connection's descriptor.
func control(c *net.UnixConn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if e := raw.Control(func(fd uintptr) { err = f(int(fd)) }); e != nil {
		return e
	}
	return err
}

// identify opens a descriptor of the process. Without one its memory is never read,
// because its number could become that of another process.
func (p *process) identify(c *net.UnixConn) {
	if p.pid <= 0 {
		return
	}
	_ = control(c, func(sock int) (err error) {
		if p.pidfd, err = unix.GetsockoptInt(sock, unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
			return nil
		}
		// Before Linux 6.5. The number is still the peer's if its end of the connection is
		// open afterwards.
		if p.pidfd, err = unix.PidfdOpen(p.pid, 0); err != nil {
			p.pidfd = -1
			return err
		}
		if n, _ := unix.Poll([]unix.PollFd{{Fd: int32(sock), Events: unix.POLLRDHUP}}, 0); n > 0 {
			p.close()
		}
		return nil
	})
}

func (p *process) close() {
	if p.pidfd >= 0 {
		_ = unix.Close(p.pidfd)
		p.pidfd = -1
	}
}

// read copies from the process's memory: all of dst or nothing that counts. The process
// was the peer's if it lives afterwards: its number was not free in between.
func (p *process) read(dst []byte, addr uint64) error {
	if p.pidfd < 0 {
		return syscall.EPERM
	}
	for len(dst) > 0 {
		local := [1]unix.Iovec{{Base: &dst[0], Len: uint64(len(dst))}}
		remote := [1]unix.RemoteIovec{{Base: uintptr(addr), Len: len(dst)}}
		n, err := unix.ProcessVMReadv(p.pid, local[:], remote[:], 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n <= 0 {
			return syscall.EFAULT
		}
		dst, addr = dst[n:], addr+uint64(n)
	}
	poll := [1]unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(poll[:], 0)
		if err == unix.EINTR {
			continue
		}
		if n != 0 || err != nil {
			return syscall.ESRCH
		}
		return nil
	}
}

// tracer is the process that Yama lets read this one's memory. The system keeps one. It
// stays the first peer's until its channels have ended, so that peers do not take the right
// from each other all the time.
var tracer struct {
	sync.Mutex
	pid, users int
}

// permit lets a process read this one's memory where Yama asks for that
// (kernel.yama.ptrace_scope 1). Other scopes permit it anyway, or never. It reports whether
// forbid is to be called.
func permit(pid int) bool {
	if b, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); err != nil || !bytes.Equal(bytes.TrimSpace(b), []byte("1")) {
		return false
	}
	if pid <= 0 || pid == os.Getpid() {
		return false
	}
	tracer.Lock()
	defer tracer.Unlock()
	if tracer.users > 0 && tracer.pid != pid {
		return false
	}
	if tracer.users == 0 && unix.Prctl(unix.PR_SET_PTRACER, uintptr(pid), 0, 0, 0) != nil {
		return false
	}
	tracer.pid, tracer.users = pid, tracer.users+1
	return true
}

// forbid undoes permit.
func forbid() {
	tracer.Lock()
	defer tracer.Unlock()
	if tracer.users--; tracer.users == 0 {
		_ = unix.Prctl(unix.PR_SET_PTRACER, 0, 0, 0, 0)
	}
}

// allMapped reports whether every user has a number in this user namespace.
func allMapped() bool {
	b, err := os.ReadFile("/proc/self/uid_map")
	f := strings.Fields(string(b))
	return err == nil && len(f) == 3 && f[0] == "0" && f[2] == "4294967295"
}

// isBell checks that a descriptor is like an eventfd, which no write waits for. A peer of the
// same user is trusted not to change that.
func isBell(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != 0 || flags&unix.O_NONBLOCK == 0 {
		return reason.Detail{Reason: reason.HostMessage, Expected: unix.O_NONBLOCK, Found: uint64(st.Mode&unix.S_IFMT) | uint64(flags&unix.O_NONBLOCK)}.Err()
	}
	return nil
}
