//go:build linux

package uverbs

import (
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// A pipe is a descriptor that a program waits on and reads records of one size
// from: the system's own poll, epoll, fcntl, dup and fork work on it without
// any help. The program has the reading end; that the last copy of it was
// closed shows at the writing end, which is the server's.
type pipe struct {
	size  int // of a record, bytes
	inode uint64
	w     *os.File

	account *account

	mu      sync.Mutex
	backlog []byte // did not fit
	pushing bool   // a goroutine waits for room
	closed  bool
}

// newPipe makes a pipe and gives the program's end.
func newPipe(size int, a *account) (p *pipe, end int, err error) {
	if err := a.descriptors.take(1); err != nil {
		return nil, -1, err
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		a.descriptors.give(1)
		return nil, -1, err
	}
	var st unix.Stat_t
	err = unix.Fstat(fds[0], &st)
	if err == nil {
		// The program's end blocks, until it is told not to.
		_, err = unix.FcntlInt(uintptr(fds[0]), unix.F_SETFL, 0)
	}
	if err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		a.descriptors.give(1)
		return nil, -1, err
	}
	return &pipe{size: size, inode: st.Ino, w: os.NewFile(uintptr(fds[1]), "pipe"), account: a}, fds[0], nil
}

// onClose calls f, once, when the program has closed its end, or close was
// called here.
func (p *pipe) onClose(f func()) error {
	raw, err := p.w.SyscallConn()
	if err != nil {
		return err
	}
	go func() {
		_ = raw.Read(func(fd uintptr) bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, 0) // POLLERR is always told
			return n > 0 || err != nil && err != unix.EINTR
		})
		f()
	}()
	return nil
}

// put gives the program a record. It never blocks.
func (p *pipe) put(record []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if len(p.backlog) == 0 && p.write(record) {
		return
	}
	p.backlog = append(p.backlog, record...)
	if !p.pushing {
		p.pushing = true
		go p.push()
	}
}

// write writes a record whole, where there is room: what is shorter than a page
// is written whole or not at all.
func (p *pipe) write(record []byte) (ok bool) {
	raw, err := p.w.SyscallConn()
	if err != nil {
		return true // closed: nobody will miss it
	}
	_ = raw.Control(func(fd uintptr) {
		n, err := unix.Write(int(fd), record)
		ok = n == len(record) || err != nil && err != unix.EAGAIN
	})
	return ok
}

// push writes what put could not.
func (p *pipe) push() {
	for {
		p.mu.Lock()
		if len(p.backlog) == 0 || p.closed {
			p.pushing = false
			p.mu.Unlock()
			return
		}
		record := slices.Clone(p.backlog[:p.size])
		p.backlog = p.backlog[p.size:]
		p.mu.Unlock()
		if _, err := p.w.Write(record); err != nil {
			return // closed
		}
	}
}

// drop takes the records back that the program has not read and for which gone
// tells true, and tells how many those are. The others keep their order.
func (p *pipe) drop(gone func(record []byte) bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var kept []byte
	sift := func(b []byte) {
		for ; len(b) >= p.size; b = b[p.size:] {
			if gone(b[:p.size]) {
				n++
			} else {
				kept = append(kept, b[:p.size]...)
			}
		}
	}
	sift(p.unread())
	sift(p.backlog)
	p.backlog = nil
	for len(kept) > 0 && p.write(kept[:p.size]) {
		kept = kept[p.size:]
	}
	if p.backlog = kept; len(kept) > 0 && !p.pushing {
		p.pushing = true
		go p.push()
	}
	return n
}

// unread takes everything out of the pipe. The system opens a pipe's other end
// by its name below /proc.
func (p *pipe) unread() (b []byte) {
	raw, err := p.w.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) {
		r, err := unix.Open(procFD(int(fd)), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		defer unix.Close(r)
		var room [4096]byte
		for {
			n, err := unix.Read(r, room[:])
			if n <= 0 || err != nil {
				return
			}
			b = append(b, room[:n]...)
		}
	})
	return b
}

// close ends the pipe: the program reads the end of a file.
func (p *pipe) close() {
	p.mu.Lock()
	again := p.closed
	p.closed = true
	p.mu.Unlock()
	if !again {
		_ = p.w.Close()
		p.account.descriptors.give(1)
	}
}
