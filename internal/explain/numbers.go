package explain

import (
	"fmt"
	"maps"
	"slices"

	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	rdmap "softrdma/internal/wire/iwarp"
	"softrdma/internal/wire/mad"
)

// The kinds of entries that messages, packets and programs print only as a number.
const (
	Reject      Kind = "connection reject reason"
	Resolution  Kind = "service ID resolution status"
	CMEvent     Kind = "connection manager event"
	CMMessage   Kind = "connection manager message"
	PortSpace   Kind = "port space"
	PacketOp    Kind = "packet opcode"
	RDMAPOp     Kind = "RDMAP opcode"
	Terminate   Kind = "Terminate code"
	QPState     Kind = "queue pair state"
	QPType      Kind = "queue pair type"
	Operation   Kind = "work request operation"
	Completed   Kind = "completed operation"
	RNRTimer    Kind = "RNR timer field"
	ECN         Kind = "ECN field"
	TLSRecord   Kind = "TLS record type"
	ExitCode    Kind = "exit code of softrdma"
	SystemError Kind = "errno of the operating system"
)

// hexadecimal holds the kinds that are printed in hexadecimal, with their number
// of digits.
var hexadecimal = map[Kind]int{Syndrome: 2, PacketOp: 2, RDMAPOp: 1, Terminate: 4, CMMessage: 4, PortSpace: 4, VendorError: 2, NVMeStatus: 3}

// makeNumbers returns the entries that Lookup searches in addition to those of All.
func makeNumbers() (all []Entry) {
	add := func(k Kind, n int, name, meaning, clause string) {
		all = append(all, Entry{Kind: k, Name: name, Number: n, Meaning: meaning, Clause: clause})
	}
	all = append(all, mistakes()...)
	for r := mad.RejectReason(1); r <= mad.RejectVendorOption; r++ {
		if r.Known() {
			t := rejectAdvice[r]
			all = append(all, Entry{Kind: Reject, Name: r.String(), Number: int(r), Meaning: sentence(r.Words()), Cause: t.cause,
				Look: t.look, Remedy: t.remedy, Clause: "IBTA 12.6.7.2", See: []string{reason.CMRejected.String()}})
		}
	}
	for s := mad.SIDRSuccess; s <= mad.SIDRUnsupportedVersion; s++ {
		add(Resolution, int(s), fmt.Sprintf("SIDR_%d", s), sentence(s.String()), "IBTA 12.11.2")
	}
	for e := cmid.EventAddrResolved; e <= cmid.EventInternal; e++ {
		a := cmEventAdvice[e]
		all = append(all, Entry{Kind: CMEvent, Name: e.String(), Number: int(e), Meaning: cmEventTexts[e],
			Cause: a.cause, Look: a.look, Remedy: a.remedy, Clause: "librdmacm, rdma_get_cm_event(3)"})
	}
	for a := mad.AttrREQ; a.Known(); a++ {
		add(CMMessage, int(a), a.String(), "The connection manager's message "+a.String()+".", "IBTA 12.6.5, 12.6.7.2")
	}
	for _, p := range []cmid.PortSpace{cmid.PortSpaceIPoIB, cmid.PortSpaceTCP, cmid.PortSpaceUDP, cmid.PortSpaceIB} {
		add(PortSpace, int(p), "PORT_SPACE_"+p.String(), "Ports of the "+p.String()+" port space.", "rdma_port_space of rdma_cm")
	}
	for o := range 256 {
		if i := ib.Opcode(o).Info(); i != nil {
			add(PacketOp, o, i.Name, "The first byte of a packet's base transport header.", "IBTA 9.2, table 38")
		}
	}
	for o := rdmap.Opcode(0); o < rdmap.Opcodes; o++ {
		add(RDMAPOp, int(o), "RDMAP "+o.String(), "The operation of an RDMAP message.", "RFC 5040 4.1, RFC 7306 4")
	}
	for _, t := range slices.Sorted(slices.Values(rdmap.Terms())) {
		a := terminateAdvice[t]
		all = append(all, Entry{Kind: Terminate, Name: t.String(), Number: int(t), Meaning: "The error that a Terminate message reports.",
			Cause: a.cause, Look: a.look, Remedy: a.remedy, Clause: "RFC 5040 4.8, RFC 5041 8.2, RFC 5044 8"})
	}
	return slices.Concat(all, verbsNumbers(), subnetNumbers(), nvmeNumbers())
}

// verbsNumbers returns the entries for the numbers of libibverbs, of protocol
// fields and of the softrdma command.
func verbsNumbers() (all []Entry) {
	add := func(k Kind, n int, name, meaning, clause string) {
		all = append(all, Entry{Kind: k, Name: name, Number: n, Meaning: meaning, Clause: clause})
	}
	for s := qp.Reset; s <= qp.Err; s++ {
		add(QPState, int(s), "IBV_QPS_"+s.String(), stateTexts[s], "IBTA 10.3.1")
	}
	for _, t := range []qp.Type{qp.RC, qp.UC, qp.UD, qp.XRCSend, qp.XRCRecv} {
		add(QPType, int(t), "IBV_QPT_"+t.String(), "A transport service of queue pairs.", "IBTA 10.3.1")
	}
	for o := queue.Write; o <= queue.AtomicWrite; o++ {
		if o.Known() {
			add(Operation, int(o), o.String(), "The operation of a send work request.", "IBTA 11.4.1.1")
		}
	}
	for o := queue.WCSend; o <= queue.WCRecvRDMAImm; o++ {
		if o.Known() {
			add(Completed, int(o), o.String(), "The operation that a completion belongs to.", "IBTA 11.4.2.1")
		}
	}
	for f := range 32 {
		add(RNRTimer, f, fmt.Sprintf("RNR_TIMER_%d", f), fmt.Sprintf("After an RNR NAK with this field the sender waits %v before it retries.", ib.RNRTimer(uint8(f))), "IBTA 9.7.5.2.8, table 45")
	}
	for f, m := range []string{"Not ECN-capable.", "ECN-capable transport, codepoint 1.", "ECN-capable transport, codepoint 0.", "Congestion experienced: a router marked the packet."} {
		add(ECN, f, fmt.Sprintf("ECN_%d", f), m, "RFC 3168 5")
	}
	for i, m := range []string{"Change of cipher.", "An alert.", "A handshake; a TLS stream begins with one.", "Application data."} {
		add(TLSRecord, 20+i, fmt.Sprintf("TLS_RECORD_%d", 20+i), m, "RFC 8446 5.1")
	}
	for _, n := range slices.Sorted(maps.Keys(ExitCodes)) {
		add(ExitCode, n, fmt.Sprintf("EXIT_%d", n), ExitCodes[n], "softrdma exit-codes")
	}
	for _, n := range slices.Sorted(maps.Keys(vendorStatuses)) {
		all = append(all, vendorError(n))
	}
	return append(all, systemErrors()...)
}

// ExitCodes explains the exit codes of the softrdma command.
var ExitCodes = map[int]string{
	0:   "Success.",
	1:   "The operation failed; the line on standard error says why.",
	2:   "The command line is wrong.",
	3:   "The peer could not be reached, went away or did not answer in time.",
	4:   "Data arrived that differs from what was sent.",
	126: "The program of softrdma exec or softrdma run cannot be executed.",
	127: "The program of softrdma exec or softrdma run was not found.",
	130: "Interrupted by SIGINT (Ctrl-C).",
	143: "Ended by SIGTERM.",
}

var stateTexts = [...]string{
	"Nothing can be posted.", "Receives can be posted; packets are not accepted.", "Ready to receive: packets are accepted, nothing is sent.",
	"Ready to send: connected.", "The send queue is drained, or draining.", "The send queue stopped after an error (UC, UD).", "Error: all work requests are flushed.",
}

var cmEventTexts = [...]string{
	"rdma_resolve_addr has found a device.", "rdma_resolve_addr has failed.", "rdma_resolve_route has succeeded.", "rdma_resolve_route has failed.",
	"A peer wants to connect.", "The peer has accepted an id that has no queue pair.", "Connecting failed on this side.",
	"The peer does not answer, or refused a service ID resolution.", "The peer rejected the connection.", "The connection is established.",
	"The connection has ended.", "The device was removed.", "Joining a multicast group succeeded.", "Joining a multicast group failed.",
	"The device's address has changed.", "The queue pair may be used again.",
	"rdma_resolve_addrinfo has succeeded.", "rdma_resolve_addrinfo has failed.", "The program wrote the event itself (rdma_write_cm_event).",
	"librdmacm wrote the event, and shows the program another one.",
}

// cmEventAdvice explains the events that report a failure.
var cmEventAdvice = map[cmid.EventType]text{
	cmid.EventAddrError: {cause: "No RDMA device is on the route to the address, or the address does not answer ARP or neighbour discovery. The status is an errno.",
		look: "`ip route get` and `ping` for the address; `rdma link`.", remedy: "Use an address that is reached through an RDMA interface."},
	cmid.EventRouteError: {cause: "No path leads to the peer's port: the subnet administrator did not answer or knows none.",
		look: "opensm or `softrdma fabric status`; the timeout of rdma_resolve_route.", remedy: "Start a subnet manager, or pass a longer timeout."},
	cmid.EventConnectError: {cause: "An answer of the peer could not be used, or the queue pair could not be moved to the next state.",
		look: "The status, an errno, and the queue pair's attributes.", remedy: "Fix the parameters of rdma_connect or rdma_accept."},
	cmid.EventUnreachable: {cause: "The peer's host does not answer, has no RDMA device on the address, or a firewall drops UDP port 4791.",
		look: "Captures on both hosts, the firewall, and the device on the peer.", remedy: "Open UDP port 4791, and make the device on the peer."},
	cmid.EventRejected: {cause: "The status is the reject reason: 8 means no listener, 28 a rejection by the peer's program, with iWARP 111 means that TCP was refused.",
		look: "The status of the event, and the server.", remedy: "Start the server first; look up the reason with softrdma explain."},
	cmid.EventDisconnected: {cause: "The peer disconnected, or its process ended.",
		look: "The peer's log.", remedy: "Nothing if the peer was done; otherwise fix the peer."},
	cmid.EventDeviceRemoval: {cause: "The adapter was removed, or softrdma's device or daemon has ended.",
		look: "dmesg, or the log of the daemon.", remedy: "Destroy the ids of the device, and open it again when it is back."},
	cmid.EventMulticastError: {cause: "The subnet administrator or the interface refused the group, or the membership was lost.",
		look: "opensm's log; the interface's IGMP state.", remedy: "Join again."},
}

// sentence capitalizes s and adds a full stop.
func sentence(s string) string {
	if s == "" {
		return s
	}
	if c := s[0]; c >= 'a' && c <= 'z' {
		s = string(c-'a'+'A') + s[1:]
	}
	return s + "."
}
