package live

import (
	"net/netip"

	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

// Remote lets programs on other hosts attach, by UDP (package relay).
type Remote struct {
	Listen netip.AddrPort // local address; without a port no program may attach
	Secret []byte         // that programs have as well; may be empty

	// Changed is called by the goroutine that owns the subnet when a program has attached to a
	// port, without a reason, and when it is no longer attached. It may be nil.
	Changed func(at topology.End, who Caller, why reason.Detail)

	// Dropped is called for each packet that is refused or ignored, by any goroutine. It may be
	// nil.
	Dropped func(from netip.AddrPort, d reason.Detail)
}

// A Caller is a program on another host.
type Caller struct {
	From    netip.AddrPort
	Program string // as it calls itself
}
