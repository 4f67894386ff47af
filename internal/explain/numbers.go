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
var hexadecimal = map[Kind]int{Syndrome: 2, PacketOp: 2, RDMAPOp: 1, Terminate: 4, CMMessage: 4, PortSpace: 4, VendorError: 2}

// rejectAdvice explains the most frequent reject reasons.
var rejectAdvice = map[mad.RejectReason]text{
	mad.RejectInvalidServiceID: {cause: "No program listens on the port at the peer, or it listens on another address or port space.",
		look: "Whether the server runs, and the port of both ends.", remedy: "Start the server first, with the port that the client dials."},
	mad.RejectConsumer: {cause: "The server's program rejected the request, had a full backlog, or ended.",
		look: "The server's own messages, and the private data of the rejection.", remedy: "Fix the problem that the server reports."},
	mad.RejectInvalidMTU: {cause: "The request's path MTU is larger than the peer's interface carries.",
		look: "The MTU of both interfaces (softrdma devices -v).", remedy: "Use interfaces with the same MTU, or lower the larger one."},
	mad.RejectStaleConnection: {cause: "The peer still has an earlier connection with the same queue pair number.",
		look: "Whether this end was killed and started again.", remedy: "Dial again: softrdma uses another queue pair number."},
	mad.RejectTimeout: {cause: "The peer received no answer to its message.",
		look: "Losses on the path, and whether the server accepts in time.", remedy: "Dial again; accept requests sooner."},
	mad.RejectInvalidGID: {cause: "The peer's device does not have the request's address.",
		look: "The addresses of the peer's interface.", remedy: "Dial an address of the peer's RDMA device."},
	mad.RejectResponderResources: {cause: "The request asks for more READs and atomics in flight than the peer serves.",
		look: "initiator_depth and responder_resources of both ends.", remedy: "Request fewer."},
}

// numbers returns the entries that Lookup searches in addition to those of All.
func numbers() (all []Entry) {
	add := func(k Kind, n int, name, meaning, clause string) {
		all = append(all, Entry{Kind: k, Name: name, Number: n, Meaning: meaning, Clause: clause})
	}
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
		add(CMEvent, int(e), e.String(), cmEventTexts[e], "librdmacm, rdma_get_cm_event(3)")
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
		add(Terminate, int(t), t.String(), "The error that a Terminate message reports.", "RFC 5040 4.8, RFC 5041 8.2, RFC 5044 8")
	}
	return slices.Concat(all, verbsNumbers(), subnetNumbers())
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
