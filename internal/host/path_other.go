//go:build !linux

package host

import "net"

// routeMTU returns 0: the MTU is unknown.
func routeMTU(*net.UDPConn, bool) int { return 0 }
