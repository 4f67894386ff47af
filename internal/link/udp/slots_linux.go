//go:build linux && !softrdma_portable

package udp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"softrdma/internal/inherit"
	"softrdma/internal/reason"
	"softrdma/internal/steering"
	"softrdma/internal/unixmsg"
)

// Slots are the receiving sockets of an address that programs share, one for each lane of the
// address. The kernel numbers the sockets of a SO_REUSEPORT group in the order in which they
// were bound, and steers packets by that number.
//
// When a socket of a group is closed, the kernel gives its number to the last one. So none is
// closed: Slots keeps a descriptor of each, and programs keep all of them open when the
// process of Slots has ended (see keeper).
type Slots struct {
	local netip.AddrPort
	cfg   Config
	first int // the lanes below belong to the owner of the address
	of    int

	keeper keeper
	lanes  *steering.Lending

	mu     sync.Mutex
	socks  unixmsg.Descriptors // of the lanes from first on
	closed bool
}

// OpenSlots opens n links of one local address like OpenLanes, and provides further lanes, of
// in total, for programs.
func OpenSlots(local netip.AddrPort, cfg Config, n, of int) ([]*Link, *Slots, error) {
	_, _ = rand.Read(cfg.Key[:]) // never fails
	links, err := openFirst(local, cfg, n, true)
	if err != nil {
		return nil, nil, errors.Join(err, closeAll(links))
	}
	s := &Slots{local: links[0].local, cfg: links[0].cfg, first: n, of: of, keeper: keeper{-1, -1}, lanes: steering.NewLending(n, of)}
	if err := s.start(links); err != nil {
		s.Close()
		return nil, nil, errors.Join(err, closeAll(links))
	}
	return links, s, nil
}

// start binds the first socket besides the owner's, which makes them a group, and makes the
// kernel steer packets.
func (s *Slots) start(owner []*Link) error {
	if err := s.keeper.open(); err != nil {
		return err
	}
	for _, l := range owner {
		if err := s.keeper.keep(l.rx.fd); err != nil {
			return err
		}
	}
	if err := s.add(); err != nil {
		return err
	}
	return steer(s.socks[0], s.of)
}

// Take lends a lane of the address to a program. It returns the lane's number and the
// descriptors for OpenSlot, which the caller closes. Give frees the lane.
func (s *Slots) Take() (lane int, fds []int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, nil, os.ErrClosed
	}
	if lane, err = s.lanes.Take(); err != nil {
		return 0, nil, err
	}
	if fds, err = s.lend(lane - s.first); err != nil {
		s.lanes.Give(lane)
		return 0, nil, err
	}
	return lane, fds, nil
}

// lend returns copies of the descriptors of socket i, which is bound if it is the next one.
func (s *Slots) lend(i int) (fds unixmsg.Descriptors, err error) {
	if i == len(s.socks) {
		if err := s.add(); err != nil {
			return nil, err
		}
	}
	if err := revive(s.socks[i]); err != nil {
		return nil, err
	}
	for _, fd := range []int{s.socks[i], s.keeper.end} {
		n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			fds.Close()
			return nil, os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
		}
		fds = append(fds, n)
	}
	return fds, nil
}

// Key returns the key of the address, for the Config of OpenSlot.
func (s *Slots) Key() [16]byte { return s.cfg.Key }

// add binds the next socket.
func (s *Slots) add() error {
	h := host{cfg: s.cfg, local: s.local}
	if err := h.findInterface(); err != nil {
		return err
	}
	e, err := h.bindReceiving(true)
	if err != nil {
		return err
	}
	drain(e.fd)
	if err := s.keeper.keep(e.fd); err != nil {
		e.close() // it is the last of the group, so no other one gets its number
		return err
	}
	s.socks = append(s.socks, e.fd)
	return nil
}

// Give takes back a lane whose program has ended or no longer uses it. Packets to it are
// dropped until it is lent again.
func (s *Slots) Give(lane int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	drain(s.socks[lane-s.first])
	s.lanes.Give(lane)
}

// Close releases the address. Lanes that are lent to programs keep working.
func (s *Slots) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.socks.Close()
	s.keeper.close()
}

// revive makes a socket that dropped packets receive again.
func revive(fd int) error {
	return os.NewSyscallError("setsockopt SO_DETACH_FILTER", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0))
}

// drainLimit is more packets than a receive buffer holds.
const drainLimit = 1 << 16

// drain makes a socket drop what it has received, and all packets that follow.
func drain(fd int) {
	dropAll(fd)
	var b [1]byte
	for range drainLimit {
		if _, _, err := unix.Recvfrom(fd, b[:], unix.MSG_DONTWAIT|unix.MSG_TRUNC); err == unix.EAGAIN {
			return
		}
	}
}

// A keeper holds sockets open for as long as any process has a descriptor of its end: they are
// in messages to that end, which are never received.
type keeper struct{ in, end int }

func (k *keeper) open() error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	k.in, k.end = fds[0], fds[1]
	return nil
}

func (k *keeper) keep(fd int) error {
	return os.NewSyscallError("sendmsg", unix.Sendmsg(k.in, []byte{0}, unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL))
}

func (k *keeper) close() {
	if k.in >= 0 {
		unixmsg.Descriptors{k.in, k.end}.Close()
	}
}

// OpenSlot opens a link on a lane that Slots has lent, in this process's network namespace. It
// takes ownership of the descriptors. The local address is that of Slots.
func OpenSlot(fds unixmsg.Descriptors, local netip.AddrPort, cfg Config) (*Link, error) {
	local, err := checkSlot(fds, local)
	if err != nil {
		fds.Close()
		return nil, err
	}
	l := newLink(local, cfg)
	l.rx.fd, l.keeper = fds[0], fds[1]
	inherit.Add(fds...)
	return l.start(func() error { return nil })
}

// checkSlot checks that descriptors are those of a slot of a local address.
func checkSlot(fds []int, local netip.AddrPort) (netip.AddrPort, error) {
	local, err := checkLocal(local)
	if err != nil {
		return local, err
	}
	if len(fds) != 2 {
		return local, fmt.Errorf("open UDP link on %v: expected 2 descriptors of a shared address, found %d", local, len(fds))
	}
	if bound, err := localOf(fds[0], local); err != nil || bound.Port() != local.Port() {
		return local, fmt.Errorf("open UDP link on %v: expected a socket on that address, found port %d: %w", local, bound.Port(), errors.Join(err, unix.EINVAL))
	}
	return local, CheckNetwork(fds[0])
}

// CheckNetwork refuses a socket of another network namespace, which has other addresses and
// routes. Linux before 5.14 does not distinguish namespaces.
func CheckNetwork(fd int) error {
	own, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(own)
	here, err := unix.GetsockoptUint64(own, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	there, err2 := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err == nil && err2 == nil && here != there {
		return reason.Detail{Reason: reason.SlotNetwork, Expected: here, Found: there}.Err()
	}
	return nil
}
