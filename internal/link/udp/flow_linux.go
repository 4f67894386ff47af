//go:build linux && !softrdma_portable

package udp

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// keptFlows is the number of flows without users that are kept, because making a socket
	// takes longer than a short connection's use of it.
	keptFlows = 16

	// keptTime is how long they are kept while nothing is received.
	keptTime = time.Second
)

// trim frees what is not needed after nothing was received for a time: the sockets of flows without users, and a
// larger receive buffer.
func (l *Link) trim(quiet time.Duration) {
	if quiet >= l.buffer.keep {
		l.buffer.shrink(l.rx.fd)
	}
	for _, e := range l.flows.trim() {
		e.close()
	}
}

func (l *Link) receiver() (*endpoint, netip.AddrPort) { return &l.rx, l.local }

func (l *Link) segments() int { return l.out.segments }

// again prepares a flow's socket for new users: errors about packets of former users must not
// fail the next send.
func (l *Link) again(e *endpoint) {
	_, _ = unix.GetsockoptInt(e.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	l.reports.read(e.fd)
}
