package explain

import "softrdma/internal/wire/mad"

// path is the advice for a field of the primary path that the peer does not accept.
func path(field, look, remedy string) text {
	return text{cause: "The request names a " + field + " for the primary path that the peer's device or network does not have.", look: look, remedy: remedy}
}

// alternate is the advice for a field of the alternate path.
func alternate(field string) text {
	return text{cause: "The request has an alternate path, and the peer does not accept its " + field + ".",
		look: "Whether the program sets an alternate path (alt_ah_attr, automatic path migration).", remedy: "Connect without an alternate path."}
}

const fabricPath = "The path record that the subnet administrator returns for the two ports (saquery), and the peer's port."

// rejectAdvice explains the reject reasons (IBTA 12.6.7.2).
var rejectAdvice = map[mad.RejectReason]text{
	mad.RejectNoQP: {cause: "The peer's device has no queue pair left, or its process may create no more.",
		look: "max_qp of the peer's device (ibv_devinfo -v), and how many queue pairs its programs hold (rdma resource).", remedy: "Close connections on the peer, or share queue pairs."},
	mad.RejectNoEEC: {cause: "The request is for reliable datagrams, which neither softrdma nor current adapters have.",
		look: "The transport service type of the request.", remedy: "Use RC, UC or UD."},
	mad.RejectNoResources: {cause: "The peer lacks memory, queue pairs or entries for another connection.",
		look: "The peer's log, and the limits of its process.", remedy: "Close connections on the peer, or raise its limits."},
	mad.RejectTimeout: {cause: "The peer received no answer to its message.",
		look: "Losses on the path, and whether the server accepts in time.", remedy: "Dial again; accept requests sooner."},
	mad.RejectUnsupported: {cause: "The peer's connection manager does not support something that the request asks for.",
		look: "The request in a capture, and the peer's version.", remedy: "Leave out what the peer does not support."},
	mad.RejectInvalidCommID: {cause: "The message belongs to a connection that the receiver does not know: it has ended there.",
		look: "Whether the peer has closed the connection or was started again.", remedy: "Dial again."},
	mad.RejectInvalidCommInstance: {cause: "The message's local and remote communication IDs do not belong together: one of them is of an earlier connection.",
		look: "Whether one end was started again.", remedy: "Dial again."},
	mad.RejectInvalidServiceID: {cause: "No program listens on the port at the peer, or it listens on another address or port space.",
		look: "Whether the server runs, and the port of both ends.", remedy: "Start the server first, with the port that the client dials."},
	mad.RejectInvalidTransport: {cause: "The listener serves another service type (RC, UC, UD, XRC) than the request asks for.",
		look: "Queue pair type and port space of both ends.", remedy: "Use the same type on both ends."},
	mad.RejectStaleConnection: {cause: "The peer still has an earlier connection with the same queue pair number.",
		look: "Whether this end was killed and started again.", remedy: "Dial again: softrdma uses another queue pair number."},
	mad.RejectNoRDC: {cause: "The request is for a reliable datagram channel, which current adapters do not have.",
		look: "The transport service type of the request.", remedy: "Use RC, UC or UD."},
	mad.RejectInvalidGID: {cause: "The peer's device does not have the request's address.",
		look: "The addresses of the peer's interface.", remedy: "Dial an address of the peer's RDMA device."},
	mad.RejectInvalidLID:          path("LID", fabricPath, "Look the path up again: LIDs change when a subnet manager takes over."),
	mad.RejectInvalidSL:           path("service level", fabricPath, "Use the service level of the path record."),
	mad.RejectInvalidTrafficClass: path("traffic class", "tos and traffic_class of both ends.", "Use the same traffic class on both ends, or 0."),
	mad.RejectInvalidHopLimit:     path("hop limit", "hop_limit of the address vector.", "Use a hop limit of at least the number of routers; 64 is usual with RoCE v2."),
	mad.RejectInvalidPacketRate:   path("packet rate", "static_rate of the path, and rate and width of the peer's port.", "Use rate 0, which does not limit."),
	mad.RejectInvalidAltGID:       alternate("GID"),
	mad.RejectInvalidAltLID:       alternate("LID"),
	mad.RejectInvalidAltSL:        alternate("service level"),
	mad.RejectInvalidAltClass:     alternate("traffic class"),
	mad.RejectInvalidAltHopLimit:  alternate("hop limit"),
	mad.RejectInvalidAltRate:      alternate("packet rate"),
	mad.RejectCMRedirect: {cause: "Another communication manager serves the service: the additional rejection information names it.",
		look: "The REJ in a capture.", remedy: "Dial the address that the REJ names; librdmacm does not follow it by itself."},
	mad.RejectPortRedirect: {cause: "Another port of the peer serves the service: the additional rejection information names it.",
		look: "The REJ in a capture.", remedy: "Dial the port that the REJ names; librdmacm does not follow it by itself."},
	mad.RejectInvalidMTU: {cause: "The request's path MTU is larger than the peer's interface carries.",
		look: "The MTU of both interfaces (softrdma devices -v).", remedy: "Use interfaces with the same MTU, or lower the larger one."},
	mad.RejectResponderResources: {cause: "The request asks for more READs and atomics in flight than the peer serves.",
		look: "initiator_depth and responder_resources of both ends.", remedy: "Request fewer."},
	mad.RejectConsumer: {cause: "The server's program rejected the request, had a full backlog, or ended.",
		look: "The server's own messages, and the private data of the rejection.", remedy: "Fix the problem that the server reports."},
	mad.RejectInvalidRNRRetry: {cause: "The peer does not accept the RNR retry count of the reply.",
		look: "rnr_retry_count of both ends.", remedy: "Use a value from 0 to 7."},
	mad.RejectDuplicateCommID: {cause: "The peer has a connection or request with this communication ID already: a message was repeated, or one end was started again.",
		look: "Whether one end was started again, and duplicates in a capture.", remedy: "Dial again: each connection gets another ID."},
	mad.RejectInvalidClassVersion: {cause: "The message has a version of the communication management class that the receiver does not know.",
		look: "The class version in a capture.", remedy: "Use software of the same generation at both ends."},
	mad.RejectInvalidFlowLabel:    path("flow label", "flow_label of the address vector.", "Use flow label 0."),
	mad.RejectInvalidAltFlowLabel: alternate("flow label"),
	mad.RejectVendorOption: {cause: "The request has an option of a vendor (enhanced connection establishment) that the peer does not support.",
		look: "Adapters and drivers of both ends.", remedy: "Switch the option off: rdma_set_local_ece, or the vendor's setting."},
}
