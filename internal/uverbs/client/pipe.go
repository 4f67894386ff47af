//go:build linux

package client

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Pipe is a descriptor that a program waits on and reads records of one size
// from. The system's own poll, epoll, fcntl, dup and fork work on it. The program
// has the reading end. The writing end, which is the server's, shows when the last
// copy of the reading end was closed.
//
// Made by NewSocket it is a pair of sockets, which keep the bounds of records of any size.
type Pipe struct {
	Size  int // of a record of Put, bytes
	Inode uint64
	w     *os.File
	watch *os.File // of sockets: readable when the program has closed its end

	account *Account
	held    int64 // of the account's memory
	own     int64 // descriptors of the account

	mu      sync.Mutex
	backlog []byte // did not fit
	pushing bool   // a goroutine waits for room
	closed  bool
}

// How much memory a pipe and a pair of sockets count for: what the kernel keeps in them,
// which is twice sendBuffer for sockets, and themselves.
const (
	pipeBytes   = 68 << 10
	sendBuffer  = 64 << 10
	socketBytes = 2*sendBuffer + 4<<10
)

// NewPipe makes a pipe and returns the program's end as well.
func NewPipe(size int, a *Account) (p *Pipe, end int, err error) {
	return newPipe(&Pipe{Size: size, account: a, held: pipeBytes, own: 1}, func(fds *[2]int) error {
		return unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK)
	})
}

// NewSocket makes a pair of sockets, and returns the program's end as well. Put queues
// records of 1 byte.
func NewSocket(a *Account) (p *Pipe, end int, err error) {
	p = &Pipe{Size: 1, account: a, held: socketBytes, own: 2}
	return newPipe(p, func(fds *[2]int) (err error) {
		if *fds, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		_ = unix.SetsockoptInt(fds[1], unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer)
		if p.watch, err = watchEnd(fds[1]); err != nil {
			_, _ = unix.Close(fds[0]), unix.Close(fds[1])
		}
		return err
	})
}

// watchEnd returns a descriptor that is readable when the other end of a socket is closed.
// Go's poller would wake a thread for each record that the program reads.
func watchEnd(fd int) (*os.File, error) {
	e, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err = unix.EpollCtl(e, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLRDHUP}); err == nil {
		err = unix.SetNonblock(e, true)
	}
	if err != nil {
		_ = unix.Close(e)
		return nil, err
	}
	return os.NewFile(uintptr(e), "watch"), nil
}

func newPipe(p *Pipe, pair func(fds *[2]int) error) (_ *Pipe, end int, err error) {
	if err := p.account.Descriptors.Take(p.own); err != nil {
		return nil, -1, err
	}
	if err := p.account.Memory.Take(p.held); err != nil {
		p.account.Descriptors.Return(p.own)
		return nil, -1, err
	}
	if end, err = p.open(pair); err != nil {
		p.giveBack()
		return nil, -1, err
	}
	return p, end, nil
}

// giveBack returns what the pipe counts for.
func (p *Pipe) giveBack() {
	p.account.Descriptors.Return(p.own)
	p.account.Memory.Return(p.held)
}

// open makes the pipe's descriptors, and returns the program's end.
func (p *Pipe) open(pair func(fds *[2]int) error) (end int, err error) {
	var fds [2]int
	if err := pair(&fds); err != nil {
		return -1, err
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
		if p.watch != nil {
			_ = p.watch.Close()
		}
		return -1, err
	}
	p.Inode, p.w = st.Ino, os.NewFile(uintptr(fds[1]), "pipe")
	return fds[0], nil
}

// OnClose calls f, once, when the program has closed its end, or close was
// called here.
func (p *Pipe) OnClose(f func()) error {
	raw, err := cmp.Or(p.watch, p.w).SyscallConn()
	if err != nil {
		return err
	}
	go func() {
		_ = raw.Read(func(fd uintptr) bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) // of a pipe POLLERR
			return n > 0 || err != nil && err != unix.EINTR
		})
		f()
	}()
	return nil
}

// Put queues a record for the program. It never blocks.
func (p *Pipe) Put(record []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if len(p.backlog) == 0 && p.write(record) {
		return
	}
	if err := p.account.Memory.Take(int64(len(record))); err != nil {
		p.account.Refuse("event", err) // the program does not read those before it
		return
	}
	p.backlog = append(p.backlog, record...)
	if !p.pushing {
		p.pushing = true
		go p.push()
	}
}

// Try queues a record of any size in a socket if there is room, and reports whether there
// was.
func (p *Pipe) Try(record []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed || len(p.backlog) == 0 && p.write(record)
}

// write writes a record if there is room, and reports whether it is done with. The
// system writes less than a page whole or not at all.
func (p *Pipe) write(record []byte) (ok bool) {
	raw, err := p.w.SyscallConn()
	if err != nil {
		return true // closed
	}
	_ = raw.Control(func(fd uintptr) {
		if p.watch != nil {
			err = unix.Sendto(int(fd), record, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
		} else {
			_, err = unix.Write(int(fd), record)
		}
		ok = err != unix.EAGAIN && !noMemory(err)
	})
	return ok
}

// push writes the backlog, waiting for room.
func (p *Pipe) push() {
	for {
		p.mu.Lock()
		if len(p.backlog) == 0 || p.closed {
			p.pushing = false
			p.mu.Unlock()
			return
		}
		record := slices.Clone(p.backlog[:p.Size])
		p.backlog = p.backlog[p.Size:]
		p.account.Memory.Return(int64(p.Size))
		p.mu.Unlock()
		for {
			_, err := p.w.Write(record)
			if err == nil {
				break
			}
			if !noMemory(err) {
				return // closed
			}
			time.Sleep(memoryPause)
		}
	}
}

// memoryPause is the time between attempts to write when the system has no memory for a record.
const memoryPause = 10 * time.Millisecond

// noMemory reports whether the system, or the limit of the control group, had no memory for a record.
func noMemory(err error) bool { return errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENOMEM) }

// Remove removes the unread records for which gone reports true, and returns their
// number. The others keep their order.
func (p *Pipe) Remove(gone func(record []byte) bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var kept []byte
	filter := func(b []byte) {
		for ; len(b) >= p.Size; b = b[p.Size:] {
			if gone(b[:p.Size]) {
				n++
			} else {
				kept = append(kept, b[:p.Size]...)
			}
		}
	}
	filter(p.unread())
	filter(p.backlog)
	before := len(p.backlog)
	p.backlog = nil
	for len(kept) > 0 && p.write(kept[:p.Size]) {
		kept = kept[p.Size:]
	}
	p.account.Memory.Return(int64(before - len(kept)))
	if p.backlog = kept; len(kept) > 0 && !p.pushing {
		p.pushing = true
		go p.push()
	}
	return n
}

// unread removes all records from the pipe and returns them. It opens the other end of
// the pipe by its name below /proc.
func (p *Pipe) unread() (b []byte) {
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

// hangUp ends a write of push that waits for room in a socket.
func (p *Pipe) hangUp() {
	if raw, err := p.w.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
}

// Close ends the pipe. The program then reads the end of a file.
func (p *Pipe) Close() {
	p.mu.Lock()
	again := p.closed
	p.closed = true
	p.account.Memory.Return(int64(len(p.backlog)))
	p.backlog = nil
	p.mu.Unlock()
	if !again {
		if p.watch != nil {
			_ = p.watch.Close()
			p.hangUp()
		}
		_ = p.w.Close()
		p.giveBack()
	}
}
