// Package udp is the link over the system's UDP sockets, which any program may open: RoCE v2
// without root and without a kernel module. It owns the sockets of one local address: one that
// receives on the RoCE v2 port, one per flow that only sends, one per multicast group. A BPF
// program reads the destination queue pair number to choose a lane. The package never
// retransmits, orders or checks packets.
//
// # The IPv4 identification
//
// The ICRC covers the identification field of the IPv4 header (annex A17.3.3), which the
// system fills in. On Linux, sockets of this package give it known values: an unconnected
// socket that must not fragment (DF) sends identification 0, and packet i of a batch that is
// segmented on its way gets i, whether the kernel or the adapter segments it (this is tested
// against a TUN device, in segment_linux_test.go). A connected socket, which sends 10 %
// faster, counts up from a random number instead; flows are connected if that number can be
// learned (identify_linux.go). Flow.Segments is the number of packets of a batch after which
// the count restarts. IPv6 has no such field, so its sockets are connected.
//
// Other systems are not tested. RFC 6864 lets a system send identification 0 with DF, as macOS
// and FreeBSD are known to do. If a system counts, peers that check strictly refuse its
// packets over IPv4, but not over IPv6.
package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"softrdma/internal/link"
)

// Config configures a link. The zero value suits most uses.
type Config struct {
	// ReceiveBuffer and SendBuffer are the requested sizes of the socket
	// buffers in bytes, 4 MiB when 0. The system may grant less: see
	// Link.Capabilities. On Linux a receive buffer of size 0 follows need
	// (buffer_linux.go).
	ReceiveBuffer int
	SendBuffer    int

	// Interface is the index of the interface for multicast. 0 means the one that has the
	// local address.
	Interface int

	// NoSegmentation sends every packet separately even if the system can segment batches.
	NoSegmentation bool

	// MaxFlowSockets limits the sockets of flows: 0 means 256, a negative number none. Further
	// flows share a socket to the same peer. If there is none, they use the receiving socket
	// and its port.
	MaxFlowSockets int

	// Key is the key of an address that programs share, and zero for any other address. It
	// must be secret. OpenSlots draws one.
	Key Key
}

// A Key proves that a packet was handed over by a program which shares the address.
type Key [16]byte

const (
	defaultBuffer      = 4 << 20
	defaultFlowSockets = 256

	// sendTimeout is how long Send waits for room in a full socket buffer.
	sendTimeout = 5 * time.Millisecond

	// maxDatagram is the largest payload of an IPv4 UDP datagram, which limits a batch that is
	// segmented.
	maxDatagram = 65535 - 20 - 8
)

func (c Config) withDefaults() Config {
	if c.ReceiveBuffer <= 0 {
		c.ReceiveBuffer = defaultBuffer
	}
	if c.SendBuffer <= 0 {
		c.SendBuffer = defaultBuffer
	}
	if c.MaxFlowSockets == 0 {
		c.MaxFlowSockets = defaultFlowSockets
	}
	return c
}

// Errors of flows and batches that cannot be sent at all.
var (
	// ErrFamily is returned for a peer whose address family differs from the link's.
	ErrFamily = errors.New("address of the wrong family")

	// ErrFlow is returned for a flow that is not, or no longer, open.
	ErrFlow = errors.New("flow not open on this link")

	// ErrBatch is returned for a batch that exceeds the link's limits.
	ErrBatch = errors.New("batch out of limits")

	// ErrGroup is returned for Join with an address that is not a multicast group of the
	// link's family, and for Leave of a group that was not joined.
	ErrGroup = errors.New("not a multicast group of this link")
)

// A SendError says why a batch, or an earlier one, was not sent.
type SendError struct {
	Src, Dst    netip.AddrPort
	Bytes, Size int

	// Earlier means that the network reported the loss of an earlier batch (ICMP), and that
	// the current one was sent.
	Earlier bool

	// Err is the system's error. It is EAGAIN or ENOBUFS if the socket or the interface had no
	// room, ECONNREFUSED if the peer's host reported a closed port, EMSGSIZE if a packet
	// exceeds the path's MTU.
	Err error
}

// Error describes the batch and the system's error.
func (e *SendError) Error() string {
	what := "batch"
	if e.Earlier {
		what = "an earlier batch than this"
	}
	return fmt.Sprintf("send %s of %d bytes in packets of %d from %v to %v: %v", what, e.Bytes, e.Size, e.Src, e.Dst, e.Err)
}

// Unwrap returns the system's error.
func (e *SendError) Unwrap() error { return e.Err }

// checkLocal returns the local address in canonical form, or an error if it cannot be one.
func checkLocal(local netip.AddrPort) (netip.AddrPort, error) {
	a := local.Addr().Unmap()
	switch {
	case !a.IsValid():
		return local, fmt.Errorf("open UDP link: local address missing: expected an IPv4 or IPv6 address of this host")
	case a.IsUnspecified():
		return local, fmt.Errorf("open UDP link: %v is the unspecified address: expected a single one, which the ICRC covers", a)
	case a.IsMulticast():
		return local, fmt.Errorf("open UDP link: %v is a multicast group: expected an address of this host", a)
	case a.Is6() && a.IsLinkLocalUnicast() && a.Zone() == "":
		return local, fmt.Errorf("open UDP link: %v is link-local: expected an interface with it, as in %v%%eth0", a, a)
	}
	return netip.AddrPortFrom(a, local.Port()), nil
}

// onWire returns an address in the form of packets, without a zone.
func onWire(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// checkPeer returns a peer's address in the form of packets.
func checkPeer(local, dst netip.AddrPort) (netip.AddrPort, error) {
	w := onWire(dst)
	switch {
	case !w.Addr().IsValid() || w.Addr().IsUnspecified() || w.Port() == 0:
		return w, fmt.Errorf("open flow to %v: expected an address and a port", dst)
	case w.Addr().Is4() != local.Addr().Is4():
		return w, fmt.Errorf("open flow to %v: %w: the link's is %v", dst, ErrFamily, local.Addr())
	}
	return w, nil
}

// checkBatch refuses batches that no socket can send.
func checkBatch(tx *link.Tx) error {
	if tx.Size > 0 && tx.Bytes > 0 && tx.Bytes <= maxDatagram && (tx.Size >= tx.Bytes || tx.Bytes <= link.MaxPackets*tx.Size) {
		return nil
	}
	return fmt.Errorf("%w: %d bytes in packets of %d: expected 1 to %d bytes in at most %d packets",
		ErrBatch, tx.Bytes, tx.Size, maxDatagram, link.MaxPackets)
}

// errPieces returns the error for pieces whose lengths do not add up to tx.Bytes.
func errPieces(tx *link.Tx) error {
	n := 0
	for _, p := range tx.Pieces {
		n += len(p)
	}
	return fmt.Errorf("%w: %d bytes in %d pieces: expected %d bytes", ErrBatch, n, len(tx.Pieces), tx.Bytes)
}

// interfaceOf finds the interface that has a local address. All of 127.0.0.0/8 belongs to the
// loopback interface.
func interfaceOf(a netip.Addr) (*net.Interface, error) {
	ifaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for i := range ifaces {
		if z := a.Zone(); z != "" && z != ifaces[i].Name && z != fmt.Sprint(ifaces[i].Index) {
			continue
		}
		addrs, err := ifaces[i].Addrs()
		if err != nil {
			continue // the interface has gone meanwhile
		}
		for _, x := range addrs {
			if n, ok := x.(*net.IPNet); ok && holds(n, a, ifaces[i].Flags&net.FlagLoopback != 0) {
				return &ifaces[i], nil
			}
		}
	}
	return nil, fmt.Errorf("no interface has address %v", a)
}

func holds(n *net.IPNet, a netip.Addr, loopback bool) bool {
	own, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return false
	}
	return own.Unmap() == a.WithZone("") || loopback && a.Is4() && a.IsLoopback() && own.Unmap().Is4()
}
