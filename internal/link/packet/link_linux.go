package packet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/inherit"
	"softrdma/internal/link"
	"softrdma/internal/wake"
)

// errClosed is the error of calls on a closed link.
var errClosed = link.ErrClosed

// A Link is one lane's socket on an interface.
type Link struct {
	wake.Lifetime
	cfg   Config
	iface iface
	fd    int
	claim int // socket that holds cfg.Claim, -1 if there is none
	watch int // see Watch; -1 if not set
	sleep wake.Sleeper
	in    ring
	out   sender
	flows [routes]link.Flow
}

var (
	_ link.Frames  = (*Link)(nil)
	_ link.Watcher = (*Link)(nil)
)

// The routes of frames, used as the handles of flows.
const (
	wire       = iota // by the link's interface
	host              // by the loopback interface
	everywhere        // by both
	routes
)

// Open opens n links on one interface, one for each lane of a device. They receive nothing
// until Filter is called on each.
func Open(cfg Config, n int) (links []*Link, err error) {
	cfg.setDefaults()
	i, err := findInterface(cfg.Interface)
	if err != nil {
		return nil, err
	}
	for k := range n {
		if k > 0 {
			cfg.Claim = "" // held by the first one
		}
		l, err := open(cfg, i)
		if err != nil {
			for _, l := range links {
				_ = l.Close()
			}
			return nil, fmt.Errorf("open raw Ethernet socket on %s: %w", cfg.Interface, err)
		}
		links = append(links, l)
	}
	return links, nil
}

func open(cfg Config, i iface) (*Link, error) {
	l := &Link{cfg: cfg, iface: i, fd: -1, claim: -1, watch: -1}
	for r := range l.flows {
		l.flows[r].Handle = r
	}
	if err := l.sleep.Init(); err != nil {
		return nil, err
	}
	l.Lifetime.Init(l.free)
	if err := l.openSocket(); err != nil {
		l.free()
		return nil, err
	}
	return l, nil
}

func (l *Link) openSocket() (err error) {
	if l.cfg.Claim != "" {
		if err := l.claimName(l.cfg.Claim); err != nil {
			return err
		}
	}
	if l.fd, err = newSocket(); err != nil {
		return err
	}
	setBuffer(l.fd, l.cfg.SendBuffer)
	if err := l.in.open(l.fd, l.cfg.ReceiveBuffer, l.cfg.MaxFrame); err != nil {
		return err
	}
	l.out.wire, l.out.host = sockaddr(l.iface.transmit, l.cfg.EtherType), sockaddr(l.iface.loopback, l.cfg.EtherType)
	if err := l.Filter(nothing); err != nil {
		return err
	}
	// Bind to no interface: the filter takes frames of two, and an interface that goes down
	// then leaves no error behind.
	err = unix.Bind(l.fd, &unix.SockaddrLinklayer{Protocol: networkOrder(l.cfg.EtherType)})
	return os.NewSyscallError("bind", err)
}

// newSocket makes a socket that receives nothing before it is bound.
func newSocket() (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return -1, fmt.Errorf("%w: %w", ErrRight, err)
	}
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	return fd, nil
}

// setBuffer sets a send buffer's size. Without privileges it gets at most the system's limit.
func setBuffer(fd, n int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, n) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, n)
	}
}

// claimName claims a name that only one process at a time can have. Abstract addresses belong
// to the network namespace, as interfaces do, and end with the process.
func (l *Link) claimName(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	l.claim = fd
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: "@" + name})
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("%s: %w: %w", name, ErrInUse, err)
	}
	return os.NewSyscallError("bind", err)
}

// free closes everything. It is called when no call is in progress.
func (l *Link) free() {
	l.in.close()
	for _, fd := range []int{l.fd, l.claim} {
		if fd >= 0 {
			inherit.Remove(fd)
			_ = unix.Close(fd)
		}
	}
	l.sleep.Free()
}

// Close makes every call on the link, current and later ones, end with link.ErrClosed.
func (l *Link) Close() error {
	l.Lifetime.Close(l.sleep.Interrupt)
	return nil
}

// MAC returns the interface's address.
func (l *Link) MAC() [6]byte { return l.iface.mac }

// VLAN returns the VLAN that frames must be tagged with, or false if they must not be tagged:
// the interface is not in a VLAN, or adds tags itself.
func (l *Link) VLAN() (id uint16, tagged bool) { return l.iface.vlan, l.iface.tagged }

// Wire returns the flow of frames that leave by the interface.
func (l *Link) Wire() *link.Flow { return &l.flows[wire] }

// Host returns the flow of frames to devices on this host, whose MAC address is zero.
func (l *Link) Host() *link.Flow { return &l.flows[host] }

// Everywhere returns the flow of frames to a group, which may have members on this host.
func (l *Link) Everywhere() *link.Flow { return &l.flows[everywhere] }

// Capabilities describes the link.
func (l *Link) Capabilities() link.Capabilities {
	return link.Capabilities{
		Packets: link.MaxPackets, Bytes: link.MaxBatch, Frame: l.cfg.MaxFrame,
		ReceiveBuffer: l.in.slots * l.cfg.MaxFrame, Watcher: l,
	}
}

// Receive returns the next frame, which is valid until the next Receive.
func (l *Link) Receive(rx *link.Rx) (bool, error) {
	if !l.Enter() {
		return false, errClosed
	}
	defer l.Leave()
	l.in.release()
	b := l.in.read()
	rx.Data, rx.Size = b, len(b)
	return b != nil, nil
}

// Wait blocks until a frame can be received, Wake or Close is called or d has passed;
// d < 0 means no limit. It blocks a thread, not the scheduler.
func (l *Link) Wait(d time.Duration) error {
	if !l.Enter() {
		return errClosed
	}
	defer l.Leave()
	if _, err := l.sleep.Sleep(&l.Lifetime, d, l.fd, l.watch); err != nil {
		return fmt.Errorf("wait for frames: %w", err)
	}
	if l.Closed() {
		return errClosed
	}
	return nil
}

// Watch implements link.Watcher.
func (l *Link) Watch(fd int) { l.watch = fd }

// Wake ends the current or the next Wait.
func (l *Link) Wake() {
	if l.sleep.Set() && l.Enter() {
		l.sleep.Interrupt()
		l.Leave()
	}
}

// JoinMAC makes the interface receive frames to a multicast address. LeaveMAC undoes one call.
func (l *Link) JoinMAC(mac [6]byte) error { return l.membership(unix.PACKET_ADD_MEMBERSHIP, mac) }

// LeaveMAC undoes one call of JoinMAC.
func (l *Link) LeaveMAC(mac [6]byte) error { return l.membership(unix.PACKET_DROP_MEMBERSHIP, mac) }

func (l *Link) membership(option int, mac [6]byte) error {
	if !l.Enter() {
		return errClosed
	}
	defer l.Leave()
	m := unix.PacketMreq{Ifindex: int32(l.iface.index), Type: unix.PACKET_MR_MULTICAST, Alen: 6}
	copy(m.Address[:], mac[:])
	return os.NewSyscallError("setsockopt PACKET_MEMBERSHIP", unix.SetsockoptPacketMreq(l.fd, unix.SOL_PACKET, option, &m))
}

// networkOrder converts a number to network byte order, which raw socket addresses use.
func networkOrder(v uint16) uint16 {
	return binary.NativeEndian.Uint16([]byte{byte(v >> 8), byte(v)})
}
