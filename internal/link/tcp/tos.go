package tcp

import (
	"net"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// setTOS sets the type of service if the system supports it.
func setTOS(c *net.TCPConn, tos uint8) {
	switch a, _ := c.RemoteAddr().(*net.TCPAddr); {
	case tos == 0 || a == nil:
	case a.IP.To4() != nil:
		_ = ipv4.NewConn(c).SetTOS(int(tos))
	default:
		_ = ipv6.NewConn(c).SetTrafficClass(int(tos))
	}
}
