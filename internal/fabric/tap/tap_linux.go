package tap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/link/fabric"
)

// Run makes a network interface with the address of a host's port, "NAME/NODE", and moves frames until
// the context ends. The interface ends with it. begun is called when the interface is up. For a guest
// the interface has no addresses.
func Run(ctx context.Context, address, name string, guest bool, begun func(*attach.Info)) error {
	port, err := attach.OpenService(ctx, address, hostport.WholeFrames, nil)
	if err != nil {
		return err
	}
	fd, err := open(name)
	if err != nil {
		return errors.Join(err, port.Close())
	}
	defer unix.Close(fd)
	info := port.Info()
	if err := configure(name, info, guest); err != nil {
		return errors.Join(fmt.Errorf("interface %s: %w", name, err), port.Close())
	}
	t := &tap{fd: fd, link: fabric.NewFrames(port.Link())}
	t.link.Watch(fd)
	stop := context.AfterFunc(ctx, func() { _ = port.Close() })
	defer stop()
	begun(info)
	if err := t.run(ctx); err != nil && ctx.Err() == nil {
		return errors.Join(fmt.Errorf("interface %s: %w", name, err), port.Close())
	}
	return port.Close()
}

// open makes the device.
func open(name string) (int, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: "/dev/net/tun", Err: err}
	}
	r, err := unix.NewIfreq(name)
	if err == nil {
		r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_TUN_EXCL)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, r)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("make the interface %s: %w", name, err)
	}
	return fd, nil
}

// configure gives the interface the port's addresses and brings it up. The interface of a guest has none.
func configure(name string, info *attach.Info, guest bool) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	e := info.Ethernet
	if guest {
		setIPv6(name, "disable_ipv6", "1")
		return errors.Join(netlink.LinkSetMTU(l, e.MTU), netlink.LinkSetUp(l))
	}
	setIPv6(name, "addr_gen_mode", "1") // no address of the link, which no other host reaches
	setIPv6(name, "accept_ra", "0")
	err = errors.Join(netlink.LinkSetHardwareAddr(l, e.MAC[:]), netlink.LinkSetMTU(l, e.MTU))
	for _, ip := range info.Addrs {
		a := &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(e.Prefix.Bits(), 32)}}
		if ip.Is6() {
			a.Mask, a.Flags = net.CIDRMask(e.Prefix6.Bits(), 128), unix.IFA_F_NODAD // the fabric gives each host its own
		}
		if e := netlink.AddrAdd(l, a); e != nil && (ip.Is4() || hasIPv6(name)) {
			err = errors.Join(err, e)
		}
	}
	return errors.Join(err, netlink.LinkSetUp(l))
}

// setIPv6 sets a parameter of IPv6 of an interface. A system without IPv6 has none.
func setIPv6(name, parameter, value string) {
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/"+parameter, []byte(value), 0)
}

// hasIPv6 reports whether the interface may have addresses of IPv6.
func hasIPv6(name string) bool {
	b, err := os.ReadFile("/proc/sys/net/ipv6/conf/" + name + "/disable_ipv6")
	return err == nil && len(b) > 0 && b[0] == '0'
}

// A tap moves frames between the system and the fabric.
type tap struct {
	fd     int
	link   *fabric.Frames
	in     [fabric.MaxFrame]byte
	out    [fabric.MaxFrame]byte
	length int // of the frame in out that waits for room
	level  uint8
}

const (
	// burst is the number of frames that move in one direction before the other one has its turn.
	burst = 64

	// pause is the wait for room at a port that is paused. The system's frames wait meanwhile.
	pause = 100 * time.Microsecond
)

func (t *tap) run(ctx context.Context) error {
	for ctx.Err() == nil {
		sent, err := t.send()
		if err != nil {
			return err
		}
		received, err := t.receive()
		switch {
		case err != nil:
			return err
		case sent || received:
		case t.length > 0:
			time.Sleep(pause)
		default:
			if err := t.link.Wait(-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// send moves frames of the system, and reports whether there were some.
func (t *tap) send() (some bool, err error) {
	for range burst {
		if t.length == 0 {
			n, err := unix.Read(t.fd, t.out[:])
			switch {
			case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EIO): // EIO: the interface is down
				return some, nil
			case err != nil:
				return some, err
			}
			t.length, t.level = n, priority(t.out[:n])
		}
		if !t.link.Room(t.level) {
			return some, nil
		}
		_ = t.link.Send(t.level, t.out[:t.length]) // lost without a fabric
		t.length, some = 0, true
	}
	return some, nil
}

// priority is that of a frame on the fabric, as its switches see it.
func priority(frame []byte) uint8 {
	f := dcb.Frame{Data: frame}
	f.Parse()
	if f.Tagged {
		return f.PCP & 7
	}
	return f.DSCP >> 3
}

// receive moves frames to the system, and reports whether there were some.
func (t *tap) receive() (some bool, err error) {
	for range burst {
		n, err := t.link.Receive(t.in[:])
		if n == 0 || err != nil {
			return some, err
		}
		some = true
		if _, err := unix.Write(t.fd, t.in[:n]); err != nil && !errors.Is(err, unix.EIO) && !errors.Is(err, unix.EAGAIN) {
			return some, err
		}
	}
	return some, nil
}
