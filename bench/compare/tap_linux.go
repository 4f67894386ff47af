package compare

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"softrdma/internal/testenv/twohosts"
)

// A tap is an Ethernet interface in a namespace. This process reads the frames that the
// interface sends from a descriptor, and writes the frames that it receives.
type tap struct {
	fd   int
	name string
	in   *twohosts.Host
	seen [2]uint64 // see dropped
}

// tapFrames is the length of the interface's transmit queue, long enough for frames
// that arrive while this process is not scheduled.
const tapFrames = 1 << 15

// openTap creates the interface without offloads, so that every frame is a packet with
// a valid checksum and not longer than the MTU.
func openTap(h *twohosts.Host, name string) (*tap, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/net/tun", Err: err}
	}
	var request struct {
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	request.flags = unix.IFF_TAP | unix.IFF_NO_PI
	for _, c := range []struct {
		what string
		op   uintptr
		arg  uintptr
	}{
		{"TUNSETIFF", unix.TUNSETIFF, uintptr(unsafe.Pointer(&request))},
		{"TUNSETOFFLOAD", unix.TUNSETOFFLOAD, 0},
	} {
		if _, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), c.op, c.arg); no != 0 {
			unix.Close(fd)
			return nil, fmt.Errorf("tap %s: %s: %w", name, c.what, no)
		}
	}
	return &tap{fd: fd, name: name, in: h}, nil
}

// configure brings the interface up, with a permanent neighbour entry, so that the
// relay cannot lose ARP packets.
func (t *tap) configure(mtu int, own, other netip.Addr, otherMAC net.HardwareAddr) error {
	n, ns, err := t.in.Netlink()
	if err != nil {
		return err
	}
	defer ns.Close()
	defer n.Close()
	l, err := n.LinkByName(t.name)
	if err != nil {
		return err
	}
	// Without an IPv6 address the kernel sends no packets by itself.
	const noAddress = 1 // IN6_ADDR_GEN_MODE_NONE
	if err := errors.Join(n.LinkSetMTU(l, mtu), n.LinkSetTxQLen(l, tapFrames), n.LinkSetIP6AddrGenMode(l, noAddress)); err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	if l, err = twohosts.BringUp(n, t.name, own); err != nil {
		return err
	}
	return n.NeighSet(&netlink.Neigh{
		LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT, IP: other.AsSlice(), HardwareAddr: otherMAC,
	})
}

func (t *tap) link() (netlink.Link, error) {
	n, ns, err := t.in.Netlink()
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	defer n.Close()
	return n.LinkByName(t.name)
}

// dropped returns the number of frames that the interface has dropped in both
// directions since the last call.
func (t *tap) dropped() (n uint64, err error) {
	l, err := t.link()
	if err != nil {
		return 0, err
	}
	s := l.Attrs().Statistics
	now := [2]uint64{s.TxDropped + s.TxErrors, s.RxDropped + s.RxErrors}
	for i := range now {
		n += now[i] - t.seen[i]
	}
	t.seen = now
	return n, nil
}
