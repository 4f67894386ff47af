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

// A Reporter is a Link that collects ICMP errors about its flows. It does not wait for
// them: having the kernel announce them costs more than they are worth, because it then
// does so with every datagram that it has sent. Errors are collected when a later Send
// on the flow fails because of them, and by Look. The methods follow the rule of
// Receive.
type Reporter interface {
	// Look collects the errors about one flow. It takes a system call.
	Look(*Flow)

	// NextReport takes the oldest of the errors that were collected, and returns nil
	// when there are no more. The report holds until the next call on the link.
	NextReport() *Report
}
