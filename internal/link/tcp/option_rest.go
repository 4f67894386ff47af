//go:build !linux && !darwin && !windows

package tcp

import (
	"net"
	"time"
)

// setUserTimeout does nothing. Keep-alive probes and the system's retransmission limit apply.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
