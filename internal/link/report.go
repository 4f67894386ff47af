package link

import (
	"net/netip"
	"syscall"
)

// A Report is an ICMP or ICMPv6 error about a packet of a flow. Any host on the network can
// forge one, so compare its quotation with what was sent before you act on it.
type Report struct {
	Src, Dst netip.AddrPort // of the packet, with UDP ports
	Err      syscall.Errno  // ECONNREFUSED if the port is closed, EACCES if a firewall says that it refuses, else the host or network is unreachable
	Quoted   []byte         // the returned part of the packet behind its UDP header
}

// A Reporter is a Link that collects ICMP errors about its flows. Wait does not wake up for
// them, because the kernel would then also wake it for every sent datagram. Errors are
// collected when a later Send on the flow fails because of them, and by Look. Only the
// goroutine that may call Receive may call these methods.
type Reporter interface {
	// Look collects the errors about one flow, with a system call.
	Look(*Flow)

	// NextReport returns and removes the oldest collected error, or returns nil. The report is
	// valid until the next call on the link.
	NextReport() *Report
}
