//go:build !linux

package host

import "net"

// routeMTU is not known here.
func routeMTU(*net.UDPConn, bool) int { return 0 }
