// Package tcp is the link over the system's TCP sockets, as any program may
// open them: iWARP without root and without a kernel module. It owns the
// sockets of one local address, and never looks into what they carry.
//
// There are two of it behind one contract. On Linux one epoll descriptor watches
// all sockets: it has neither goroutines nor buffers of its own, and a connection
// costs what its socket costs. On other systems, and everywhere with TLS, package
// net reads and writes, by two goroutines for each connection, through a buffer
// for each direction.
package tcp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"softrdma/internal/link"
)

// Config is how a link is opened. The zero value is good for most.
type Config struct {
	// ReceiveBuffer and SendBuffer are the sizes of each socket's buffers in
	// bytes; 0 leaves them to the system, which adapts them.
	ReceiveBuffer int
	SendBuffer    int

	// PeerTimeout is how long the peer's host may say nothing before a
	// connection fails, 0 for DefaultPeerTimeout, negative for as long as the
	// system has it. The system answers for a process that is stopped.
	PeerTimeout time.Duration

	// Refused, if set, is told of each peer whose TLS handshake with a listener
	// failed, and why. It may be called from several goroutines.
	Refused func(peer netip.AddrPort, err error)
}

// DefaultPeerTimeout is the time after which a peer's host counts as gone that
// does not acknowledge what was sent, nor answer when nothing is.
const DefaultPeerTimeout = 30 * time.Second

// ErrFamily is returned for a peer whose address is of the other family than
// the link's.
var ErrFamily = errors.New("address of the wrong family")

// OpenTLS opens a link whose every stream is TLS 1.3 or what cfg asks for.
func OpenTLS(local netip.Addr, cfg Config, security *tls.Config) (link.Streams, error) {
	return openConns(local, cfg, security)
}

// silence is how the system is told of PeerTimeout: by keep-alive probes after
// idle, every interval, count of them, and for data by timeout; all 0 for not at
// all.
type silence struct {
	idle, interval time.Duration
	count          int
	timeout        time.Duration
}

func (c *Config) silence() silence {
	d := c.PeerTimeout
	switch {
	case d < 0:
		return silence{}
	case d == 0:
		d = DefaultPeerTimeout
	}
	// Half of the time passes before the first probe, the system counts in
	// seconds.
	const probes = 3
	second := func(d time.Duration) time.Duration { return max(d.Round(time.Second), time.Second) }
	return silence{idle: second(d / 2), interval: second(d / 2 / probes), count: probes, timeout: d}
}

// checkLocal gives the local address in its one form, or why it cannot be one.
func checkLocal(a netip.Addr) (netip.Addr, error) {
	a = a.Unmap()
	switch {
	case !a.IsValid() || a.IsUnspecified() || a.IsMulticast():
		return a, fmt.Errorf("open TCP link on %v: expected a single address of this host", a)
	case a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == "":
		return a, fmt.Errorf("open TCP link: %v is link-local: expected an interface with it, as in %v%%eth0", a, a)
	}
	return a, nil
}

// base is what every link of streams has.
type base struct{ local netip.Addr }

// checkPeer refuses what no stream of the link can lead to.
func (d *base) checkPeer(dst netip.AddrPort) error {
	a := dst.Addr()
	switch {
	case !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || dst.Port() == 0:
		return errors.New("expected an address and a port")
	case a.Is4() != d.local.Is4():
		return fmt.Errorf("%w: the link's is %v", ErrFamily, d.local)
	}
	return nil
}

// Local is the link's address. It has no port: each listener and each stream
// has one of its own.
func (d *base) Local() netip.AddrPort { return netip.AddrPortFrom(d.local, 0) }
