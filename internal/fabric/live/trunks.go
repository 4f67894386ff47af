package live

import (
	"net/netip"
	"slices"

	"softrdma/internal/fabric/trunk"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

// Trunks are the cables to fabrics in other processes, by UDP.
type Trunks struct {
	Listen netip.AddrPort // local address
	Secret []byte         // that all other ends have as well; may be empty
	Cables []Cable

	// Changed is called by the goroutine that owns the subnet when a trunk has found its
	// other end, when it has lost it, and when it refuses packets of it, with the reason. It
	// may be nil.
	Changed func(at topology.End, peer *trunk.Peer, why reason.Detail)
}

// A Cable is one trunk. Several to the same peer are joined in their order: the first one here
// to the peer's first one.
type Cable struct {
	At   topology.End   // a port without a cable
	Peer netip.AddrPort // where the other fabric listens
}

// addresses are the addresses of the peers, each once.
func (t *Trunks) addresses() (list []netip.AddrPort) {
	for _, c := range t.Cables {
		if !slices.Contains(list, c.Peer) {
			list = append(list, c.Peer)
		}
	}
	return list
}
