package link

import "fmt"

// An MTUError reports a packet that exceeds the MTU of its path: an interface's MTU was
// lowered, or a router reported a smaller one.
type MTUError struct {
	MTU  int   // largest IP packet of the path in bytes
	Size int   // size of the packet in bytes, with IP and UDP headers
	Err  error // system error
}

// Error contains both lengths.
func (e *MTUError) Error() string {
	return fmt.Sprintf("packet of %d bytes, the path carries %d: %v", e.Size, e.MTU, e.Err)
}

// Unwrap returns the system's error.
func (e *MTUError) Unwrap() error { return e.Err }

// A Fragmentation says what happens to packets that are too long for their path.
type Fragmentation uint8

// The fragmentations.
const (
	// Unfragmented packets are dropped, or refused by Send if the system knows of a smaller MTU. New flows are
	// like that.
	Unfragmented Fragmentation = iota

	// Probed packets are dropped. Send refuses those that are longer than the interface's MTU, and does not ask what the
	// system has learned from ICMP.
	Probed

	// Fragmented packets arrive in fragments, which the peer's system puts together.
	Fragmented
)

// A Fragmenter is a link of packets that can fragment them. RoCE v2 does not want that (annex A17.3.1.1.5), and a
// peer that sees the IP header, such as an adapter, refuses the packets for their ICRC.
type Fragmenter interface {
	// Fragment sets the fragmentation of a flow.
	Fragment(*Flow, Fragmentation)
}
