// Package reason names every place where softrdma drops a packet, answers
// with a NAK, completes with an error or refuses a call. The same name stands
// in the Go error, the completion, the trace and the counters, and
// `softrdma explain` knows them all.
//
// It owns the names and their sentences. It never decides, counts or prints:
// whoever refuses something does.
package reason

import "fmt"

// A Reason is one named refusal. It travels in the vendor_err field of
// completions; numbers are stable within a build only, names are for ever.
type Reason uint32

// A Detail is a reason with what was expected and what was found; what the two
// numbers are is told by the reason's row.
type Detail struct {
	Reason          Reason
	Expected, Found uint64
}

// String gives the sentence with both numbers, by name where they have names.
func (d Detail) String() string {
	if int(d.Reason) >= len(rows) || d.Reason == None {
		return d.Reason.String()
	}
	n := &named[d.Reason]
	return fmt.Sprintf(rows[d.Reason].format, n[0].argument(d.Expected), n[1].argument(d.Found))
}

// String gives the name.
func (r Reason) String() string {
	if int(r) < len(rows) {
		return rows[r].name
	}
	return fmt.Sprintf("reason %d", uint32(r))
}

// The reasons. Each has its row in rows.
const (
	None Reason = iota

	// Packets dropped before they reach a queue pair.
	PacketShort
	PacketOpcode
	PacketVersion
	PacketPad
	PacketExtraPayload
	PacketICRC
	PacketPKey
	PacketQPN
	PacketTransport
	PacketQPState
	PacketSource
	PacketSourcePort
	PacketMulticast
	PacketQKey
	PacketNoReceive
	PacketTooLong
	PacketStray

	// The RC and UC responders.
	SequenceAhead
	SequenceDuplicate
	SequenceDuplicateUnknown
	SequenceGap
	OpcodeSequence
	OpcodeUnsupported
	TooManyReads
	NoReceive
	ReceiveTooSmall
	ReceiveLocalKey
	LengthMTU
	LengthShortSegment
	LengthExceedsRETH
	LengthBelowRETH
	LengthLimit
	KeyUnknown
	KeyWrongPD
	KeyInvalid
	KeyBounds
	KeyAccess
	KeyQP
	QPAccess
	AtomicAlignment
	InvalidateRefused
	SequenceHeld
	HeldContradicted
	HeldDisowned
	CongestionMarked

	// The requester and its completer.
	RetryExceeded
	RNRRetryExceeded
	NAKInvalidRequest
	NAKRemoteAccess
	NAKRemoteOperational
	NAKReserved
	ResponseLength
	ResponseUnexpected
	ResponseGhost
	LocalKey
	LocalBounds
	LocalAccess
	LocalLength
	LocalOpcode
	LocalQPState
	BindRefused
	Flushed
	ResponseStale
	ResponseGap
	ResponseOpcode
	NAKSequence
	NAKNotReady
	AckTimeout
	PacketRepeated
	RepeatNeedless
	TailProbe
	PeerProbe
	PeerSilent
	CongestionNotified
	CongestionIgnored
	CongestionPSN
	HeldUnsent

	// Queues and objects.
	CQOverflow
	QueueFull
	TooManySGEs
	InlineTooLong
	ObjectBusy
	AddressUnreachable
	SendRefused
	AddressHandle
	MemoryUnmapped

	// Packets lost on the way out.
	SendFailed
	SendUnreachable
	PathMTU
	InterfaceMTU
	SendWouldBlock

	// Breaches of the rsockets protocol.
	SocketVersion
	SocketConnData
	SocketTarget
	SocketNoCredit
	SocketOverrun
	SocketMessage
	SocketMapping
	SocketCut

	// Refusals of the commands.
	FileName

	// The communication manager.
	MADLength
	MADVersion
	MADClass
	MADClassVersion
	MADMethod
	MADAttribute
	CMService
	CMTransport
	CMGID
	CMPeerGID
	CMMTU
	CMPKey
	CMBacklog
	CMChallenge
	CMUnproven
	CMShare
	CMEvicted
	CMAnswerRate
	CMCommID
	CMSource
	CMState
	CMDuplicate
	CMQPN
	CMStale
	CMSimultaneous
	CMAlternatePath
	CMReqTimeout
	CMRepTimeout
	CMDreqTimeout
	CMSIDRTimeout
	CMRejected
	CMSIDRRefused
	CMPrivateData
	CMServiceBusy
	CMParameter
	CMIPHeader
	CMIPAddress
	CMServiceType
	CMQKey

	// iWARP: MPA, DDP and RDMAP.
	MPAKey
	MPARevision
	MPAFallback
	MPAPrivate
	MPAEarly
	MPARejected
	MPATimeout
	MPASilent
	MPAEnhanced
	MPADepth
	MPAReady
	MPAState
	MPALength
	MPAMarker
	MPACRC
	DDPVersion
	DDPQueue
	DDPSequence
	DDPOffset
	DDPNoBuffer
	DDPLength
	RDMAPVersion
	RDMAPOpcode
	RDMAPSequence
	RDMAPResponse
	RDMAPAtomic
	RDMAPExtension
	TermProtection
	TermOperation
	TermCatastrophic
	TermStream
	StreamClosed
	StreamLost
	IWARPType
	ConnectRefused
	ConnectFailed

	// Programs that use a server's device (softrdma exec, softrdma daemon).
	ClientUser
	ClientMemory
	ClientProtocol
	ClientProcess
	ClientFile
	ClientLimit
	ClientDescriptors
	MemoryPrivate
	MemoryShared
	ServerDescriptors
	ServerReserve
	CommandHandle
	CommandRefused

	// TLS under MPA.
	MPATLS
	TLSPlain
	TLSTrust
	TLSHandshake
	TLSLost

	Count // how many there are
)

type row struct {
	name   string
	format string // takes expected, then found
}

var rows = [Count]row{
	None:               {"NONE", ""},
	PacketShort:        {"PACKET_SHORT", "packet too short: expected at least %d bytes, found %d"},
	PacketOpcode:       {"PACKET_OPCODE", "unknown opcode: expected one of the table's %d, found %#x"},
	PacketVersion:      {"PACKET_VERSION", "transport header version: expected %d, found %d"},
	PacketPad:          {"PACKET_PAD", "padding or length: expected a multiple of %d, found %d"},
	PacketExtraPayload: {"PACKET_EXTRA_PAYLOAD", "payload behind an opcode without one: expected %d bytes, found %d"},
	PacketICRC:         {"PACKET_ICRC", "wrong ICRC: expected %#08x, found %#08x"},
	PacketPKey:         {"PACKET_PKEY", "wrong P_Key: expected %#04x, found %#04x"},
	PacketQPN:          {"PACKET_QPN", "no such queue pair: one of %d expected, found QPN %#06x"},
	PacketTransport:    {"PACKET_TRANSPORT", "opcode of another transport: expected %v, found %v"},
	PacketQPState:      {"PACKET_QP_STATE", "queue pair not ready to receive: expected at least state %v, found %v"},
	PacketSource:       {"PACKET_SOURCE", "packet from another address than the connection's peer: expected ...%08x, found ...%08x"},
	PacketSourcePort:   {"PACKET_SOURCE_PORT", "packet from another UDP source port than the connection's peer uses: expected %d, found %d"},
	PacketMulticast:    {"PACKET_MULTICAST", "no queue pair attached to the group: expected one of %d, found group ...%08x"},
	PacketQKey:         {"PACKET_QKEY", "wrong Q_Key: QP wants %#x, packet has %#x"},
	PacketNoReceive:    {"PACKET_NO_RECEIVE", "no receive posted for a datagram: expected %d, found %d"},
	PacketTooLong:      {"PACKET_TOO_LONG", "datagram longer than the receive buffer: room for %d, found %d"},
	PacketStray:        {"PACKET_STRAY", "packet came to another lane than its queue pair's, whose room was used up: %d bytes expected at most, found %d more"},

	SequenceAhead:            {"SEQUENCE_AHEAD", "PSN sequence error: expected %#06x, found %#06x"},
	SequenceDuplicate:        {"SEQUENCE_DUPLICATE", "duplicate request: expected PSN %#06x, found %#06x"},
	SequenceDuplicateUnknown: {"SEQUENCE_DUPLICATE_UNKNOWN", "duplicate READ or ATOMIC no longer held: expected PSN %#06x, found %#06x"},
	SequenceGap:              {"SEQUENCE_GAP", "packets lost on an unreliable connection: expected PSN %#06x, found %#06x"},
	OpcodeSequence:           {"OPCODE_SEQUENCE", "opcode out of sequence: behind %v came %v"},
	OpcodeUnsupported:        {"OPCODE_UNSUPPORTED", "request not supported by this queue pair: transport %v, opcode %v"},
	TooManyReads:             {"TOO_MANY_READS", "more READs and ATOMICs in flight than max_dest_rd_atomic %d: found %d"},
	NoReceive:                {"NO_RECEIVE", "receiver not ready: no receive posted (min_rnr_timer field %d, message %d)"},
	ReceiveTooSmall:          {"RECEIVE_TOO_SMALL", "message longer than the receive buffer: room for %d bytes, found %d"},
	ReceiveLocalKey:          {"RECEIVE_LOCAL_KEY", "receive buffer not writable through its L_Key %#x: at address %#x"},
	LengthMTU:                {"LENGTH_MTU", "packet longer than the path MTU: expected at most %d, found %d"},
	LengthShortSegment:       {"LENGTH_SHORT_SEGMENT", "First or Middle packet not of the path MTU: expected %d, found %d"},
	LengthExceedsRETH:        {"LENGTH_EXCEEDS_RETH", "more payload than the RETH's length: expected %d more, found %d"},
	LengthBelowRETH:          {"LENGTH_BELOW_RETH", "message ends short of the RETH's length: expected %d more, found %d"},
	LengthLimit:              {"LENGTH_LIMIT", "message over 2^31 bytes: expected at most %d, found %d"},
	KeyUnknown:               {"KEY_UNKNOWN", "no memory with this key: one of %d keys expected, found %#x"},
	KeyWrongPD:               {"KEY_WRONG_PD", "key of another protection domain: expected PD %d, found PD %d"},
	KeyInvalid:               {"KEY_INVALID", "key invalidated or not yet bound: expected %v, found %v"},
	KeyBounds:                {"KEY_BOUNDS", "access outside of the memory: ends at %#x, access ends at %#x"},
	KeyAccess:                {"KEY_ACCESS", "memory lacks the access right: needs %v, has %v"},
	KeyQP:                    {"KEY_QP", "memory window bound to another queue pair: expected %#06x, found %#06x"},
	QPAccess:                 {"QP_ACCESS", "queue pair does not allow this remote operation: needs %v, has %v"},
	AtomicAlignment:          {"ATOMIC_ALIGNMENT", "atomic address not aligned: expected a multiple of %d, found %#x"},
	InvalidateRefused:        {"INVALIDATE_REFUSED", "key cannot be invalidated by the peer: expected a type 2 window of this queue pair (%#x), found key %#x"},
	SequenceHeld:             {"SEQUENCE_HELD", "request behind a lost one, kept until that comes: expected PSN %#06x, found %#06x"},
	HeldContradicted:         {"HELD_CONTRADICTED", "two requests with one PSN and different content, all that was held is dropped: expected PSN %#06x, contradiction at %#06x"},
	HeldDisowned:             {"HELD_DISOWNED", "the peer never sent the requests that were held in its name, dropped: from PSN %#06x on, %d of them"},
	CongestionMarked:         {"CONGESTION_MARKED", "router marked a packet, peer notified: expected ECN field %d, found %d"},

	RetryExceeded:        {"RETRY_EXCEEDED", "peer did not answer: retry_cnt %d used up, %d timeouts"},
	RNRRetryExceeded:     {"RNR_RETRY_EXCEEDED", "peer had no receive posted: rnr_retry %d used up, %d RNR NAKs"},
	NAKInvalidRequest:    {"NAK_INVALID_REQUEST", "peer found the request invalid: message PSN %#06x, NAK at %#06x"},
	NAKRemoteAccess:      {"NAK_REMOTE_ACCESS", "peer refused access to its memory: message PSN %#06x, NAK at %#06x"},
	NAKRemoteOperational: {"NAK_REMOTE_OPERATIONAL", "peer could not carry out the request: message PSN %#06x, NAK at %#06x"},
	NAKReserved:          {"NAK_RESERVED", "NAK with a reserved code: message PSN %#06x, %v"},
	ResponseLength:       {"RESPONSE_LENGTH", "READ response of the wrong length: expected %d, found %d"},
	ResponseUnexpected:   {"RESPONSE_UNEXPECTED", "response does not match the oldest request: expected PSN %#06x, found %#06x"},
	ResponseGhost:        {"RESPONSE_GHOST", "acknowledge of something never sent: next PSN %#06x, found %#06x"},
	LocalKey:             {"LOCAL_KEY", "no local memory with this L_Key in the PD: PD %d, L_Key %#x"},
	LocalBounds:          {"LOCAL_BOUNDS", "scatter/gather entry outside of its memory: ends at %#x, entry ends at %#x"},
	LocalAccess:          {"LOCAL_ACCESS", "local memory lacks the access right: needs %v, has %v"},
	LocalLength:          {"LOCAL_LENGTH", "message length: at most %d, found %d"},
	LocalOpcode:          {"LOCAL_OPCODE", "operation not supported by this queue pair: type %v, operation %v"},
	LocalQPState:         {"LOCAL_QP_STATE", "queue pair in the wrong state: expected %v, found %v"},
	BindRefused:          {"BIND_REFUSED", "memory window cannot be bound: window %#x, region %#x"},
	Flushed:              {"FLUSHED", "flushed: the queue pair went to the error state (first error %v, status %v)"},
	ResponseStale:        {"RESPONSE_STALE", "response to something already answered: oldest outstanding PSN %#06x, found %#06x"},
	ResponseGap:          {"RESPONSE_GAP", "response to a READ or ATOMIC lost, asked again: expected PSN %#06x, found %#06x"},
	ResponseOpcode:       {"RESPONSE_OPCODE", "response does not fit its request: work request %v, response %v"},
	NAKSequence:          {"NAK_SEQUENCE", "peer missed a packet, sent again: oldest outstanding PSN %#06x, NAK at %#06x"},
	NAKNotReady:          {"NAK_NOT_READY", "peer had no receive posted, sent again later: rnr_retry %d, RNR NAK %d"},
	AckTimeout:           {"ACK_TIMEOUT", "no acknowledge in time, sent again: retry_cnt %d, timeout %d"},
	PacketRepeated:       {"PACKET_REPEATED", "packets lost on the way, sent again alone: oldest outstanding PSN %#06x, repeated from %#06x"},
	RepeatNeedless:       {"REPEAT_NEEDLESS", "packets came to the peer twice: %d so far, %d more"},
	TailProbe:            {"TAIL_PROBE", "no answer for a while, last packet sent again to ask: waited %d µs, probe %d"},
	PeerProbe:            {"PEER_PROBE", "peer asked whether it is still there: an answer is due within %d ms, probe %d"},
	PeerSilent:           {"PEER_SILENT", "peer does not answer any more: it may be silent for %d ms, and was for %d ms"},
	CongestionNotified:   {"CONGESTION_NOTIFIED", "peer saw marks of congestion, sending slowed down: window %d bytes, %d bytes per second"},
	CongestionIgnored:    {"CONGESTION_IGNORED", "congestion notification that slows nobody down: expected a queue pair with control %v, found QPN %#06x"},
	CongestionPSN:        {"CONGESTION_PSN", "congestion notification about a packet that was not sent lately: next PSN %#06x, found %#06x"},
	HeldUnsent:           {"HELD_UNSENT", "peer holds a request that was never sent, and is told to drop it: next PSN %#06x, held %#06x"},

	CQOverflow:         {"CQ_OVERFLOW", "completion queue overflow: room for %d, found %d"},
	QueueFull:          {"QUEUE_FULL", "work queue full: room for %d, %d outstanding"},
	TooManySGEs:        {"TOO_MANY_SGES", "too many scatter/gather entries: at most %d, found %d"},
	InlineTooLong:      {"INLINE_TOO_LONG", "inline data too long: at most %d bytes, found %d"},
	ObjectBusy:         {"OBJECT_BUSY", "object in use: expected %d users, found %d"},
	AddressUnreachable: {"ADDRESS_UNREACHABLE", "no route to the address: address family %v wanted, found %v"},
	SendRefused:        {"SEND_REFUSED", "peer's host answers that nobody listens on the UDP port: sent %d bytes, found errno %v"},
	AddressHandle:      {"ADDRESS_HANDLE", "no such address handle: one of PD %d expected, found %d"},
	MemoryUnmapped:     {"MEMORY_UNMAPPED", "the program's memory cannot be reached: %d bytes wanted at its address %#x"},

	SendFailed:      {"SEND_FAILED", "the system refused to send: wanted %d bytes, errno %v"},
	SendUnreachable: {"SEND_UNREACHABLE", "network answers that the peer's host cannot be reached: sent %d bytes, found errno %v"},
	PathMTU:         {"PATH_MTU", "packets are longer than the path to the peer carries: expected at most %d bytes, found %d"},
	InterfaceMTU:    {"INTERFACE_MTU", "network interface carries packets that are too short for RoCE v2: expected at least %d bytes, found %d"},
	SendWouldBlock:  {"SEND_WOULD_BLOCK", "socket buffer full: wanted %d bytes, %d ms waited"},

	SocketVersion:  {"SOCKET_VERSION", "version of the connection data: expected %d, found %d"},
	SocketConnData: {"SOCKET_CONN_DATA", "connection data too short: expected %d bytes, found %d"},
	SocketTarget:   {"SOCKET_TARGET", "buffer told that cannot be used: %d bytes of the one before are left, the new one has %d"},
	SocketNoCredit: {"SOCKET_NO_CREDIT", "data sent without credit: at most %d messages expected, found one more to make %d"},
	SocketOverrun:  {"SOCKET_OVERRUN", "data sent without room: %d bytes expected at most, found %d"},
	SocketMessage:  {"SOCKET_MESSAGE", "message that has no meaning: expected operation %d or another that is known, found %d"},
	SocketMapping:  {"SOCKET_MAPPING", "mapped memory told in an entry that does not exist: one of %d expected, found number %d"},
	FileName:       {"FILE_NAME", "control character in a file name: expected characters from %#02x on, found %#02x"},
	SocketCut:      {"SOCKET_CUT", "stream cut: expected a message of the peer that ends it (operation %d), found the connection over after %d bytes"},

	MADLength:       {"MAD_LENGTH", "management datagram of the wrong length: expected %d bytes, found %d"},
	MADVersion:      {"MAD_VERSION", "management datagram of another base version: expected %d, found %d"},
	MADClass:        {"MAD_CLASS", "management class that is not served: expected %#02x, found %#02x"},
	MADClassVersion: {"MAD_CLASS_VERSION", "another version of the communication manager's messages: expected %d, found %d"},
	MADMethod:       {"MAD_METHOD", "method that the communication manager does not have: expected %#02x, found %#02x"},
	MADAttribute:    {"MAD_ATTRIBUTE", "unknown message of the communication manager: expected one of %d, found %v"},
	CMService:       {"CM_SERVICE", "no listener for the service ID: one of %d expected, found %#016x"},
	CMTransport:     {"CM_TRANSPORT", "connection request for another transport than RC and UC: expected at most %v, found %v"},
	CMGID:           {"CM_GID", "connection request for another address than the device's: expected ...%08x, found ...%08x"},
	CMPeerGID:       {"CM_PEER_GID", "connection request whose sender names no address that it can be reached at: sent from ...%08x, names ...%08x"},
	CMMTU:           {"CM_MTU", "connection request with a path MTU that the device does not have: expected at most %d, found %d"},
	CMPKey:          {"CM_PKEY", "connection request for another partition: expected %#04x, found %#04x"},
	CMBacklog:       {"CM_BACKLOG", "more connection requests than the listener's backlog: room for %d, found %d"},
	CMChallenge:     {"CM_CHALLENGE", "request waits until its sender has shown that it is at its address: %d senders are trusted at a time, sender ...%08x"},
	CMUnproven:      {"CM_UNPROVEN", "request dropped, whose sender did not show that it is at its address: within %d ms, kept for %d ms"},
	CMShare:         {"CM_SHARE", "request dropped, there is no room for more requests of its sender: room for %d, found %d"},
	CMEvicted:       {"CM_EVICTED", "connection given up for another one, as the peer did not confirm it: expected within %d ms, found none after %d ms"},
	CMAnswerRate:    {"CM_ANSWER_RATE", "message of no connection not answered, as there are too many: expected at most %d a second, sender ...%08x"},
	CMCommID:        {"CM_COMM_ID", "no connection with these communication IDs: local %#08x, remote %#08x"},
	CMSource:        {"CM_SOURCE", "message of a connection from another address than its peer's: expected ...%08x, found ...%08x"},
	CMState:         {"CM_STATE", "connection in the wrong state: expected %v, found %v"},
	CMDuplicate:     {"CM_DUPLICATE", "message that was received before: %v, in state %v"},
	CMQPN:           {"CM_QPN", "disconnect of another queue pair: expected QPN %#06x, found %#06x"},
	CMStale:         {"CM_STALE", "peer forgot the connection and uses its queue pair again: communication ID %#08x, QPN %#06x"},
	CMSimultaneous:  {"CM_SIMULTANEOUS", "both ends ask for the same connection, and this end's request counts: own QPN %#06x, peer's %#06x"},
	CMAlternatePath: {"CM_ALTERNATE_PATH", "alternate paths are not supported: expected %d, found attribute %#04x"},
	CMReqTimeout:    {"CM_REQ_TIMEOUT", "peer did not answer the connection request: %d retries used up, last wait %d ms"},
	CMRepTimeout:    {"CM_REP_TIMEOUT", "peer did not confirm the connection that it asked for: %d retries used up, last wait %d ms"},
	CMDreqTimeout:   {"CM_DREQ_TIMEOUT", "peer did not confirm the disconnect: %d retries used up, last wait %d ms"},
	CMSIDRTimeout:   {"CM_SIDR_TIMEOUT", "peer did not answer the question for a service ID: %d retries used up, last wait %d ms"},
	CMRejected:      {"CM_REJECTED", "peer rejected the connection: in state %v, reason %v"},
	CMSIDRRefused:   {"CM_SIDR_REFUSED", "peer does not serve the service ID by datagrams: expected status %v, found %v"},
	CMPrivateData:   {"CM_PRIVATE_DATA", "private data too long for the message: at most %d bytes, found %d"},
	CMServiceBusy:   {"CM_SERVICE_BUSY", "service ID has a listener already: expected %d, found service ID %#016x"},
	CMParameter:     {"CM_PARAMETER", "parameter of a connection out of range: at most %d, found %d"},
	CMIPHeader:      {"CM_IP_HEADER", "connection request whose IP header is of another version: expected version %d with IP version 4 or 6, found %#04x"},
	CMIPAddress:     {"CM_IP_ADDRESS", "connection request with an IP address that does not fit: expected ...%08x, found ...%08x"},
	CMServiceType:   {"CM_SERVICE_TYPE", "connection request for another service type than the listener's: expected %v, found %v"},
	CMQKey:          {"CM_QKEY", "datagram peer with another Q_Key than its id has: expected %#08x, found %#08x"},

	MPAKey:           {"MPA_KEY", "stream does not begin with the start-up frame of MPA: expected %#08x, found %#08x"},
	MPARevision:      {"MPA_REVISION", "start-up frame of another revision of MPA: expected %d, found %d"},
	MPAFallback:      {"MPA_FALLBACK", "peer did not answer a start-up frame of revision %d in kind: going on with revision %d"},
	MPAPrivate:       {"MPA_PRIVATE", "start-up frame with a wrong length of private data: expected %d bytes, found %d"},
	MPAEarly:         {"MPA_EARLY", "peer sent data before it was allowed to: expected %d bytes, found %d"},
	MPARejected:      {"MPA_REJECTED", "peer rejected the connection: expected flags without %#02x, found %#02x"},
	MPATimeout:       {"MPA_TIMEOUT", "peer did not send its start-up frame in time: waited %d ms, %d bytes came"},
	MPASilent:        {"MPA_SILENT", "peer that has not sent its start-up frame made room for another one: at most %d such peers, this one waited %d ms"},
	MPAEnhanced:      {"MPA_ENHANCED", "reply without the data of the enhanced set-up: expected flags with %#02x, found %#02x"},
	MPADepth:         {"MPA_DEPTH", "peer wants more READs and ATOMICs served than this end can: at most %d, found %d"},
	MPAReady:         {"MPA_READY", "no ready-to-receive frame that both ends have: expected one of %#x, found %#x"},
	MPAState:         {"MPA_STATE", "stream in the wrong state: expected %v, found %v"},
	MPALength:        {"MPA_LENGTH", "ULPDU too short for its headers: expected at least %d bytes, found %d"},
	MPAMarker:        {"MPA_MARKER", "marker does not point at its FPDU: expected %d, found %d"},
	MPACRC:           {"MPA_CRC", "wrong CRC of an FPDU: expected %#08x, found %#08x"},
	DDPVersion:       {"DDP_VERSION", "version of DDP: expected %d, found %d"},
	DDPQueue:         {"DDP_QUEUE", "queue number that the message does not belong to: expected %d, found %d"},
	DDPSequence:      {"DDP_SEQUENCE", "message out of sequence: expected MSN %d, found %d"},
	DDPOffset:        {"DDP_OFFSET", "segment out of sequence: expected message offset %d, found %d"},
	DDPNoBuffer:      {"DDP_NO_BUFFER", "no receive posted, for longer than iWARP waits: message %d, %d posted"},
	DDPLength:        {"DDP_LENGTH", "message of the wrong length: expected %d bytes, found %d"},
	RDMAPVersion:     {"RDMAP_VERSION", "version of RDMAP: expected %d, found %d"},
	RDMAPOpcode:      {"RDMAP_OPCODE", "unexpected RDMAP message: expected one of %d opcodes, found %v"},
	RDMAPSequence:    {"RDMAP_SEQUENCE", "RDMAP message out of sequence: behind %v came %v"},
	RDMAPResponse:    {"RDMAP_RESPONSE", "response does not fit the oldest READ or ATOMIC: expected %#x, found %#x"},
	RDMAPAtomic:      {"RDMAP_ATOMIC", "atomic operation that the verbs do not have: expected at most %d, found %d"},
	RDMAPExtension:   {"RDMAP_EXTENSION", "operation needs the extensions of RFC 7306, which the peer lacks: type %v, operation %v"},
	TermProtection:   {"TERM_PROTECTION", "peer refused access to its memory: message %d, Terminate %v"},
	TermOperation:    {"TERM_OPERATION", "peer found a message invalid: message %d, Terminate %v"},
	TermCatastrophic: {"TERM_CATASTROPHIC", "peer could not go on: message %d, Terminate %v"},
	TermStream:       {"TERM_STREAM", "peer found the stream broken: message %d, Terminate %v"},
	StreamClosed:     {"STREAM_CLOSED", "connection closed: %d requests outstanding, %d bytes of an FPDU received"},
	StreamLost:       {"STREAM_LOST", "connection lost: %d requests outstanding, %d bytes of an FPDU received"},
	IWARPType:        {"IWARP_TYPE", "iWARP has reliable connections alone: expected type %v, found %v"},
	ConnectRefused:   {"CONNECT_REFUSED", "TCP connection refused by the peer's host: port %d, errno %v"},
	ConnectFailed:    {"CONNECT_FAILED", "the system could not connect to the peer: port %d, errno %v"},

	ClientUser:        {"CLIENT_USER", "program's user is not allowed: the server's user is %d, the program's %d"},
	ClientMemory:      {"CLIENT_MEMORY", "program's memory cannot be reached: process %d, errno %v"},
	ClientProtocol:    {"CLIENT_PROTOCOL", "message of another version of softrdma: expected version %d, found %d"},
	ClientProcess:     {"CLIENT_PROCESS", "connection used by another process than made it: expected process %d, found %d"},
	ClientFile:        {"CLIENT_FILE", "device file used by another user than opened it: expected user %d, found %d"},
	ClientLimit:       {"CLIENT_LIMIT", "the programs of one user hold too much of the server: at most %d, found %d"},
	ClientDescriptors: {"CLIENT_DESCRIPTORS", "message brought more descriptors than any command takes: expected %d at most, found %d or more"},
	MemoryPrivate:     {"MEMORY_PRIVATE", "the program does not share memory of a region, which is copied twice: %d bytes, cause %v"},
	MemoryShared:      {"MEMORY_SHARED", "memory handed in to be shared is not a sealed memfd that has the region: expected %#x, found %#x"},
	ServerDescriptors: {"SERVER_DESCRIPTORS", "the server is out of descriptors: at most %d, errno %v"},
	ServerReserve:     {"SERVER_RESERVE", "the programs of all users hold what the server has for them: at most %d, found %d"},
	CommandHandle:     {"COMMAND_HANDLE", "no such object of this device file: %d objects, handle %d"},
	CommandRefused:    {"COMMAND_REFUSED", "call on a device file refused: number %#x, errno %v"},

	MPATLS:       {"MPA_TLS", "peer speaks TLS, this device does not: expected MPA's %#08x, found %#08x"},
	TLSPlain:     {"TLS_PLAIN", "peer does not speak TLS, this device does: expected a record of type %d, found byte %d"},
	TLSTrust:     {"TLS_TRUST", "peer not trusted: expected at least %d certificate that this end trusts, found %d that it does not"},
	TLSHandshake: {"TLS_HANDSHAKE", "TLS handshake failed, or the peer does not trust this end: %d bytes sent, %d received"},
	TLSLost:      {"TLS_LOST", "TLS stream broken or cut off: %d bytes sent, %d received"},
}
