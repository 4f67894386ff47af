package host

import (
	"net"

	"golang.org/x/sys/unix"
)

// routeMTU returns the MTU of a connected socket's route, or 0 if it is unknown.
func routeMTU(c *net.UDPConn, is4 bool) (mtu int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	level, name := unix.IPPROTO_IPV6, unix.IPV6_MTU
	if is4 {
		level, name = unix.IPPROTO_IP, unix.IP_MTU
	}
	err = raw.Control(func(fd uintptr) {
		if v, err := unix.GetsockoptInt(int(fd), level, name); err == nil {
			mtu = v
		}
	})
	if err != nil {
		return 0
	}
	return mtu
}
