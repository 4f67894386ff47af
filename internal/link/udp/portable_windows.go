package udp

import (
	"errors"
	"net"

	"golang.org/x/sys/windows"
)

// errTooLong is the error of Windows for a datagram longer than the buffer.
var errTooLong error = windows.WSAEMSGSIZE

// ipDontFragment is IP_DONTFRAGMENT and IPV6_DONTFRAG of ws2ipdef.h. The type
// of service cannot be set by a socket option on Windows.
const ipDontFragment = 14

var (
	options4 = options{level: windows.IPPROTO_IP, hops: windows.IP_TTL, fragment: ipDontFragment, never: 1}
	options6 = options{level: windows.IPPROTO_IPV6, hops: windows.IPV6_UNICAST_HOPS, fragment: ipDontFragment, never: 1}
)

func setOption(c *net.UDPConn, level, option, value int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = windows.SetsockoptInt(windows.Handle(fd), level, option, value) })
	return errors.Join(err, failed)
}
