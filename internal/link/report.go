package link

import (
	"net/netip"
	"syscall"
)

// A Report is an ICMP or ICMPv6 error about a packet of a flow. Any host on the
// network may have sent it, so check its quotation against what was sent before you
// act on it.
type Report struct {
	Src, Dst netip.AddrPort // of the packet, with its UDP ports
	Err      syscall.Errno  // ECONNREFUSED: nobody listens on the port; else the host or network is not reached
	Quoted   []byte         // the beginning of the packet behind its UDP header, as much as came back
}

// A Reporter is a Link that knows what the network answers.
type Reporter interface {
	// Reported reports whether Reports may have something; any goroutine may call it.
	Reported() bool

	// Look updates Reported when no goroutine sleeps in Wait, which otherwise does
	// it; any goroutine may call it.
	Look()

	// Reports gives f what was reported since. The report is the link's again when f
	// returns. It follows the rule of Receive.
	Reports(f func(*Report))
}
