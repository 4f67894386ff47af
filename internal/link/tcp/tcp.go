// Package tcp is the link over the system's TCP sockets, which any program may open: iWARP
// without root and without a kernel module. It owns the sockets of one local address, and
// never parses what they carry.
//
// There are two implementations. On Linux one epoll descriptor watches all sockets: it needs
// no goroutines or buffers, and a connection costs only its socket. On other systems, and
// everywhere with TLS, package net reads and writes, by two goroutines for each connection,
// through a buffer for each direction. If another process drives a stream with TLS, these
// goroutines relay its bytes instead.
package tcp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"softrdma/internal/link"
)

// Config is how a link is opened. The zero value suits most uses.
type Config struct {
	// ReceiveBuffer and SendBuffer are the sizes of each socket's buffers in bytes. 0 means
	// that the system adapts them.
	ReceiveBuffer int
	SendBuffer    int

	// PeerTimeout is how long the peer's host may be silent before a connection fails. 0 means
	// DefaultPeerTimeout, and a negative value the system's default. A stopped process does
	// not fail its connections, because its host still answers.
	PeerTimeout time.Duration

	// Congestion is the system's congestion control, by its name. Empty means the system's default, or between
	// processes of one host one that does not pace. Only Linux lets programs choose.
	Congestion string

	// Refused, if not nil, is called for each peer whose TLS handshake with a listener failed,
	// possibly by several goroutines at the same time.
	Refused func(peer netip.AddrPort, err error)
}

// DefaultPeerTimeout is how long a peer's host may leave data and probes unanswered before
// connections to it fail.
const DefaultPeerTimeout = 30 * time.Second

// ErrFamily is returned for a peer whose address family is not the link's.
var ErrFamily = errors.New("address of the wrong family")

// OpenTLS opens a link whose streams all use TLS, configured by security.
func OpenTLS(local netip.Addr, cfg Config, security *tls.Config) (link.Streams, error) {
	return openConns(local, cfg, security)
}

// Silence holds the options of connections for PeerTimeout: Count keep-alive probes, the first after
// Idle, at an Interval, and the timeout of data. All are 0 for the system's default.
type Silence struct {
	Idle, Interval time.Duration
	Count          int
	Timeout        time.Duration
}

// Silence returns the options for PeerTimeout.
func (c *Config) Silence() Silence {
	d := c.PeerTimeout
	switch {
	case d < 0:
		return Silence{}
	case d == 0:
		d = DefaultPeerTimeout
	}
	// Half of the time passes before the first probe. The system counts in seconds.
	const probes = 3
	second := func(d time.Duration) time.Duration { return time.Duration(wholeSeconds(d)) * time.Second }
	return Silence{Idle: second(d / 2), Interval: second(d / 2 / probes), Count: probes, Timeout: d}
}

// wholeSeconds returns a time in seconds, at least 1.
func wholeSeconds(d time.Duration) int { return max(int(d.Round(time.Second)/time.Second), 1) }

// checkLocal returns the local address in canonical form, or an error if it cannot be one.
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

// base is common to all links of streams.
type base struct{ local netip.Addr }

// checkPeer refuses addresses that no stream of the link can reach.
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

// Local returns the link's address. It has no port: each listener and each stream has its own.
func (d *base) Local() netip.AddrPort { return netip.AddrPortFrom(d.local, 0) }
