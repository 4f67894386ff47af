package sealed

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"softrdma/internal/link"
	"softrdma/internal/link/trust"
	"softrdma/internal/reason"
)

const (
	// maxCallers bounds the callers that have not proved who they are, and maxHostCallers those of one address. From
	// busyAt of them on a caller has to show first that it gets what is sent to its address.
	maxCallers     = 256
	maxHostCallers = 64
	busyAt         = 16

	// busyTimeout is handshakeTimeout from then on, so that silent callers make room.
	busyTimeout = time.Second
)

// A lobby counts the callers that have not proved who they are.
type lobby struct {
	refuse func(from netip.AddrPort, err error) // is told why a handshake failed
	count  func(err error)                      // is told of callers for which there is no place

	mu    sync.Mutex
	all   int
	hosts map[netip.Addr]int
}

// An unproved is a caller that has not proved who it is. The lobby's mu guards it.
type unproved struct {
	from    netip.AddrPort
	conn    *quic.Conn // nil until its first message is complete
	greeted bool       // the handshake is complete
	left    bool       // the lobby
}

type unprovedKey struct{}

func unprovedOf(c context.Context) *unproved { return c.Value(unprovedKey{}).(*unproved) }

// busy reports whether a caller has to show that it gets what is sent to its address (RFC 9000 8.1.2).
func (l *lobby) busy(net.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all >= busyAt
}

// settings returns those for a caller.
func (l *lobby) settings(*quic.ClientInfo) (*quic.Config, error) {
	c := settings(0)
	if l.busy(nil) {
		c.HandshakeIdleTimeout = busyTimeout
	}
	return c, nil
}

// enter counts a caller whose first packet has come, and refuses it if there are too many. The
// context ends with the connection.
func (l *lobby) enter(ctx context.Context, c *quic.ClientInfo) (context.Context, error) {
	s := &unproved{from: addrPort(c.RemoteAddr)}
	if err := l.take(s.from.Addr()); err != nil {
		l.count(err)
		return nil, err
	}
	ctx = context.WithValue(ctx, unprovedKey{}, s)
	context.AfterFunc(ctx, func() { l.gone(s, context.Cause(ctx)) })
	return ctx, nil
}

// take takes a place for a caller of a host.
func (l *lobby) take(host netip.Addr) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.hosts[host]; n >= maxHostCallers {
		return tooMany(maxHostCallers)
	}
	if l.all >= maxCallers {
		return tooMany(maxCallers)
	}
	if l.hosts == nil {
		l.hosts = make(map[netip.Addr]int)
	}
	l.all++
	l.hosts[host]++
	return nil
}

func tooMany(most uint64) error {
	return reason.Detail{Reason: reason.PSPPeers, Expected: most, Found: most + 1}.Err()
}

// accept notes the connection of a caller.
func (l *lobby) accept(c *quic.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	unprovedOf(c.Context()).conn = c
}

// greet notes that a caller's handshake is complete.
func (l *lobby) greet(c *quic.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	unprovedOf(c.Context()).greeted = true
}

// leave makes the place of a caller free that has become a peer.
func (l *lobby) leave(c *quic.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free(unprovedOf(c.Context()))
}

// gone makes the place of a connection free that has ended.
func (l *lobby) gone(s *unproved, err error) {
	l.mu.Lock()
	l.free(s)
	tell, conn := !s.greeted, s.conn
	l.mu.Unlock()
	if !tell {
		return
	}
	if f := trust.Refusal(err); f != nil {
		err = f
	} else {
		err = &link.Failure{Detail: failed(conn), Err: told(err)}
	}
	l.refuse(s.from, err)
}

// free makes a place free. The caller holds mu.
func (l *lobby) free(s *unproved) {
	if s.left {
		return
	}
	s.left = true
	l.all--
	host := s.from.Addr()
	if l.hosts[host]--; l.hosts[host] == 0 {
		delete(l.hosts, host)
	}
}
