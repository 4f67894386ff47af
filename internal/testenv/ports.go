package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
)

// The ports of FreePort. Systems choose higher ones by themselves (Linux from 32768, others from 49152), so
// that no other socket gets a port before the program that is started on it.
const (
	firstPort = 23000
	portCount = 32768 - firstPort
)

// nextPort distinguishes the ports of this process from those of other tests that run at the same time.
var nextPort atomic.Uint32

func init() { nextPort.Store(rand.Uint32N(portCount)) }

// FreePort returns a port of a network, tcp or udp, to which no program is bound. It returns no port twice
// before it has returned all.
func FreePort(t testing.TB, network string) int {
	t.Helper()
	for range portCount {
		port := firstPort + int(nextPort.Add(1)%portCount)
		address := fmt.Sprintf(":%d", port)
		if network == "udp" {
			if c, err := net.ListenPacket(network, address); err == nil {
				_ = c.Close()
				return port
			}
		} else if l, err := net.Listen(network, address); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatalf("no free port of %s from %d to %d", network, firstPort, firstPort+portCount-1)
	return 0
}
