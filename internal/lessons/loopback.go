package lessons

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"runtime"

	"softrdma/verbs"
)

// A loopback opens devices on loopback addresses that no other program has.
type loopback [2]byte // the address's second and third byte

func newLoopback() (l loopback) {
	_, _ = rand.Read(l[:]) // never fails
	return l
}

func (p loopback) open(ctx context.Context, via path, n int) (*verbs.Device, error) {
	c := verbs.RoCEConfig{NoLoopback: via == sockets, SameHost: verbs.SameHostOff}
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" { // one address, and a port for each device
		l, err := new(net.ListenConfig).ListenPacket(ctx, "udp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		at := l.LocalAddr().String()
		if err := l.Close(); err != nil {
			return nil, err
		}
		return verbs.OpenRoCE(ctx, at, c)
	}
	return verbs.OpenRoCE(ctx, fmt.Sprintf("127.%d.%d.%d", 100+p[0]%100, p[1], 1+n), c)
}
