package tcp

import (
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// longTrip is the round trip from which on a socket gets a larger buffer to send from.
	longTrip = 5 * time.Millisecond

	// maxUnsent bounds the bytes in such a buffer that TCP may not send yet: what is written later would wait behind them.
	maxUnsent = 512 << 10
)

// longBuffer is what SO_SNDBUF has to be set to for the largest buffer that this program may have, or 0 if the system
// gives a socket as much by itself (tcp(7), tcp_wmem).
var longBuffer = sync.OnceValue(func() int {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	// The system takes as much of it as it permits, and doubles it for what it keeps beside the data (socket(7)).
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, math.MaxInt32/4)
	most, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF)
	if err != nil {
		return 0
	}
	text, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_wmem")
	var own int
	if words := strings.Fields(string(text)); len(words) == 3 {
		own, err = strconv.Atoi(words[2])
	}
	if err != nil || own == 0 || most <= own {
		return 0
	}
	return most / 2
})

// widenSend gives the socket of a connection that was made a larger buffer to send from if its path is long. TCP keeps
// data until it is acknowledged, and what is behind a lost packet for another round trip or two, which is more than the
// system's buffer holds on a fast path.
func widenSend(fd int, cfg *Config) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err == nil && cfg.SendBuffer == 0 {
		widenFor(fd, time.Duration(info.Rtt)*time.Microsecond)
	}
}

// widenFor is widenSend for a round trip. Without larger buffers connections are slower, so errors do not matter.
func widenFor(fd int, trip time.Duration) {
	if n := longBuffer(); n > 0 && trip >= longTrip && unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent) == nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, n)
	}
}

// widen is widenSend for a connection of package net.
func widen(c *net.TCPConn, cfg *Config) {
	raw, err := c.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { widenSend(int(fd), cfg) })
	}
}
