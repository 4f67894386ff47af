package hostmem

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Bells wake one lane. Each peer has its own bell, so no peer can consume another's wake-up.
// One descriptor watches all bells.
type Bells struct {
	epoll int

	mu    sync.Mutex
	bells map[int32]*Bell // by number; nil after Close
	last  int32
}

// A Bell lets one peer wake a lane. It offers two kinds of descriptors.
//
// An eventfd is faster, but every process that holds it can make it blocking and fill it, so
// that the next process that rings it hangs in the system call. It is for peers of the same
// user, which could also stop each other by a signal. Peers of other users get a datagram
// socket, where a call can ask not to block whatever the socket's flags are.
//
// The eventfd is never read, because that could block too: the epoll reports edges, and each
// write is one. The socket that is read here is the other end of the peer's socket.
type Bell struct {
	in     *Bells
	number int32
	owner  any
	event  int
	socket int // our non-blocking end; -1 if the peer has the eventfd

	datagram [1]byte
}

// NewBells makes the bells of a lane.
func NewBells() (*Bells, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	return &Bells{epoll: fd, bells: make(map[int32]*Bell)}, nil
}

// FD returns the descriptor that is readable while a bell was rung that Rung has not reported
// (see link.Watcher).
func (b *Bells) FD() int { return b.epoll }

// Add makes a bell. Rung identifies it by owner.
func (b *Bells) Add(owner any) (*Bell, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bells == nil {
		return nil, errors.Join(os.ErrClosed, unix.Close(fd))
	}
	b.last++
	x := &Bell{in: b, number: b.last, owner: owner, event: fd, socket: -1}
	if err := b.watch(fd, x.number); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	b.bells[x.number] = x
	return x, nil
}

func (b *Bells) watch(fd int, number int32) error {
	err := unix.EpollCtl(b.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: number})
	return os.NewSyscallError("epoll_ctl", err)
}

// Rung calls f for the owner of each bell that was rung since the last call, and perhaps for
// other owners. It does not wait.
func (b *Bells) Rung(f func(owner any)) {
	var events [16]unix.EpollEvent
	for {
		n, err := unix.EpollWait(b.epoll, events[:], 0)
		if err != nil && err != unix.EINTR {
			return
		}
		for i := range max(n, 0) {
			if owner, ok := b.answer(events[i].Fd); ok {
				f(owner)
			}
		}
		if err == nil && n < len(events) {
			return
		}
	}
}

// answer returns the owner of a bell that was rung.
func (b *Bells) answer(number int32) (owner any, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.bells[number]
	if x == nil {
		return nil, false
	}
	x.drain()
	return x.owner, true
}

// drain makes room in the socket for the next ring. A peer that keeps it full loses only its
// own wake-ups.
func (x *Bell) drain() {
	if x.socket < 0 {
		return
	}
	for range 64 {
		if _, err := unix.Read(x.socket, x.datagram[:]); err != nil {
			return
		}
	}
}

// Close closes all bells. Close the link that watches them first.
func (b *Bells) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.bells {
		x.free()
	}
	if b.bells != nil {
		_ = unix.Close(b.epoll)
	}
	b.bells = nil
}

// FD returns the descriptor for a peer of the same user, which opens it with OpenRinger. The
// Bell keeps it.
func (x *Bell) FD() int { return x.event }

// ForOther returns the descriptor for a peer of another user. The caller owns it.
func (x *Bell) ForOther() (fd int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, os.NewSyscallError("socketpair", err)
	}
	x.in.mu.Lock()
	defer x.in.mu.Unlock()
	if x.in.bells[x.number] != x || x.socket >= 0 {
		err = os.ErrClosed
	} else {
		err = x.in.watch(pair[0], x.number)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(pair[0]), unix.Close(pair[1]))
	}
	x.socket = pair[0]
	return pair[1], nil
}

// Close closes the bell. It may be called again.
func (x *Bell) Close() {
	x.in.mu.Lock()
	defer x.in.mu.Unlock()
	if x.in.bells[x.number] != x {
		return
	}
	delete(x.in.bells, x.number)
	x.free()
}

// free closes the descriptors. The peer may hold the same eventfd, so closing it here does not
// remove it from the epoll.
func (x *Bell) free() {
	_ = unix.EpollCtl(x.in.epoll, unix.EPOLL_CTL_DEL, x.event, nil)
	_ = unix.Close(x.event)
	if x.socket >= 0 {
		_ = unix.Close(x.socket)
	}
}
