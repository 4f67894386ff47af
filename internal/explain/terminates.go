package explain

import rdmap "softrdma/internal/wire/iwarp"

var (
	staleKey = text{cause: "The peer used a key (STag) that no memory of this stream has: a wrong one, or one whose region was deregistered or invalidated.",
		look: "The key that the request carries, and when the other end deregisters.", remedy: "Send the key of the registration, and keep it until the last access."}
	outOfBounds = text{cause: "The access begins or ends outside the registered region.",
		look: "Address and length of the request; address and length of the registration.", remedy: "Use the address and length exactly as registered."}
	otherStream = text{cause: "The memory belongs to another protection domain or to another stream.",
		look: "Which queue pair the peer's key was made for.", remedy: "Register the memory in the protection domain of the queue pair."}
	wraps = text{cause: "Address plus length exceeds 2^64.",
		look: "Address and length of the request.", remedy: "Fix the computation of the address."}
	localFailure = text{cause: "The end that sent it failed for a reason of its own, such as memory that went away.",
		look: "The log and the completions of the end that sent it.", remedy: "Fix the cause there, and connect again."}
	wrongBytes = text{cause: "The bytes do not follow the protocol: a damaged stream, an implementation that differs, or a peer that is not iWARP.",
		look: "A capture (tshark shows DDP and RDMAP), and versions of both ends.", remedy: "Use software that speaks the same version on both ends."}
	invalidate = text{cause: "A SEND with invalidate names a key that the peer may not invalidate: it has other users, or is not of this stream.",
		look: "The key in the request, and how it was made.", remedy: "Invalidate only the key that the other end has given for it."}
)

// terminateAdvice explains the errors of Terminate messages.
var terminateAdvice = map[rdmap.Term]text{
	rdmap.TermLocal:            localFailure,
	rdmap.TermProtectionSTag:   staleKey,
	rdmap.TermProtectionBounds: outOfBounds,
	rdmap.TermProtectionAccess: {cause: "The region lacks the right that the request needs.",
		look: "Access flags of the registration.", remedy: "Register with IBV_ACCESS_REMOTE_READ or _WRITE; the sink of a READ needs IBV_ACCESS_REMOTE_WRITE on iWARP."},
	rdmap.TermProtectionStream:     otherStream,
	rdmap.TermProtectionWrap:       wraps,
	rdmap.TermProtectionInvalidate: invalidate,
	rdmap.TermProtectionOther:      staleKey,
	rdmap.TermOperationVersion:     wrongBytes,
	rdmap.TermOperationOpcode: {cause: "The receiver did not expect this operation: an extension that it lacks, such as atomics, or an answer to a request that it did not make.",
		look: "The opcode in a capture, and what the other end's device supports (ibv_devinfo -v).", remedy: "Use operations that both devices have."},
	rdmap.TermOperationStream:     localFailure,
	rdmap.TermOperationGlobal:     localFailure,
	rdmap.TermOperationInvalidate: invalidate,
	rdmap.TermOperationOther:      localFailure,
	rdmap.TermDDPLocal:            localFailure,
	rdmap.TermTaggedSTag:          staleKey,
	rdmap.TermTaggedBounds:        outOfBounds,
	rdmap.TermTaggedStream:        otherStream,
	rdmap.TermTaggedWrap:          wraps,
	rdmap.TermTaggedVersion:       wrongBytes,
	rdmap.TermUntaggedQueue:       wrongBytes,
	rdmap.TermUntaggedBuffer: {cause: "A SEND arrived and no receive was posted. iWARP has no RNR NAK: the connection ends. Or more READs are in flight than the peer serves.",
		look: "How the receiver posts receives; initiator_depth and responder_resources.", remedy: "Post receives before the peer sends, and count what may be in flight."},
	rdmap.TermUntaggedMSN: wrongBytes,
	rdmap.TermUntaggedMO:  wrongBytes,
	rdmap.TermUntaggedLength: {cause: "A SEND is longer than the receive buffer.",
		look: "Length of the SEND and of the receive.", remedy: "Post receives as long as the longest message."},
	rdmap.TermUntaggedVersion: wrongBytes,
	rdmap.TermMPAClosed: {cause: "TCP ended below the stream: the peer's process or host is gone, or a firewall cut the connection.",
		look: "Whether the peer runs; resets in a capture.", remedy: "Connect again."},
	rdmap.TermMPACRC: {cause: "The CRC-32C of an FPDU is wrong: data was damaged on the path, or one end leaves the CRC out and the other does not.",
		look: "Offloads of the interfaces, and verbs.Config.NoCRC.", remedy: "Use the CRC on both ends; replace what damages data."},
	rdmap.TermMPAMarker: {cause: "Markers and lengths of the FPDUs disagree: the ends have different ideas of the stream.",
		look: "Flags M and C of the start-up frames in a capture.", remedy: "Switch markers off on both ends."},
	rdmap.TermMPAFrame: {cause: "A start-up frame is not valid.",
		look: "The first bytes of the TCP connection in a capture.", remedy: "Connect to a port on which an iWARP program listens."},
	rdmap.TermMPALocal: localFailure,
	rdmap.TermMPAIRD: {cause: "The responder serves fewer READs in flight than the initiator requires.",
		look: "initiator_depth and responder_resources of both ends.", remedy: "Request fewer READs in flight, or let the peer serve more."},
	rdmap.TermMPARTR: {cause: "The ends offer no common kind of first message with which the initiator says that it is ready.",
		look: "The control flags in the start-up frames (RFC 6581 9).", remedy: "Allow a WRITE or READ of no bytes as first message on both ends."},
}
