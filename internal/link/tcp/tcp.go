// Package tcp is the link over the system's TCP sockets, as any program may
// open them: iWARP without root and without a kernel module. It owns the
// sockets of one local address, and on Linux one epoll descriptor for all of
// them. It never looks into what it carries, and has neither goroutines nor
// buffers of its own: a connection costs what its socket costs.
//
// Systems other than Linux are not supported yet: Open says so.
package tcp

import (
	"errors"
	"fmt"
	"net/netip"

	"softrdma/internal/link"
)

// Config is how a link is opened. The zero value is good for most.
type Config struct {
	// ReceiveBuffer and SendBuffer are the sizes of each socket's buffers in
	// bytes; 0 leaves them to the system, which adapts them.
	ReceiveBuffer int
	SendBuffer    int
}

// ErrFamily is returned for a peer whose address is of the other family than
// the link's.
var ErrFamily = errors.New("address of the wrong family")

// errPackets is what the doors for packets give.
var errPackets = fmt.Errorf("a link of streams carries no packets: %w", errors.ErrUnsupported)

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

// Local is the link's address. It has no port: each listener and each stream
// has one of its own.
func (l *Link) Local() netip.AddrPort { return netip.AddrPortFrom(l.local, 0) }

// OpenFlow refuses: streams are dialled.
func (l *Link) OpenFlow(netip.AddrPort, uint32) (*link.Flow, error) { return nil, errPackets }

// CloseFlow has nothing to do.
func (l *Link) CloseFlow(*link.Flow) {}

// Send refuses.
func (l *Link) Send(*link.Tx) error { return errPackets }

// Receive has nothing, ever.
func (l *Link) Receive(*link.Rx) (bool, error) { return false, nil }

// Join refuses: streams have one peer each.
func (l *Link) Join(netip.Addr) error { return errPackets }

// Leave refuses.
func (l *Link) Leave(netip.Addr) error { return errPackets }

// ReceiveBuffer is 0: no packet is lost for the want of one.
func (l *Link) ReceiveBuffer() int { return 0 }

var _ link.Streams = (*Link)(nil)
