//go:build !linux

package tcp

import (
	"net"
	"time"
)

// setUserTimeout has nothing to do: keep-alive probes have to do, and the
// system's own bound of repetitions.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
