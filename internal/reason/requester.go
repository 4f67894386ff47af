package reason

// The reasons of the requester and its completer.
const (
	RetryExceeded = requesterRoom*roomSize + iota
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
	NeverAnswered
	PeerReason
	PathProbePSN
	CongestionUninformed
)

const requesterRoom Reason = 3

var _ = register(requesterRoom, []row{
	{RetryExceeded, "RETRY_EXCEEDED", "peer did not answer: retry_cnt %d used up, %d timeouts"},
	{RNRRetryExceeded, "RNR_RETRY_EXCEEDED", "peer had no receive posted: rnr_retry %d used up, %d RNR NAKs"},
	{NAKInvalidRequest, "NAK_INVALID_REQUEST", "peer found the request invalid: message PSN %#06x, NAK at %#06x"},
	{NAKRemoteAccess, "NAK_REMOTE_ACCESS", "peer refused access to its memory: message PSN %#06x, NAK at %#06x"},
	{NAKRemoteOperational, "NAK_REMOTE_OPERATIONAL", "peer could not carry out the request: message PSN %#06x, NAK at %#06x"},
	{NAKReserved, "NAK_RESERVED", "NAK with a reserved code: message PSN %#06x, %v"},
	{ResponseLength, "RESPONSE_LENGTH", "READ response of the wrong length: expected %d, found %d"},
	{ResponseUnexpected, "RESPONSE_UNEXPECTED", "response does not match the oldest request: expected PSN %#06x, found %#06x"},
	{ResponseGhost, "RESPONSE_GHOST", "acknowledge of a packet that was never sent: next PSN %#06x, found %#06x"},
	{LocalKey, "LOCAL_KEY", "no local memory with this L_Key in the PD: PD %d, L_Key %#x"},
	{LocalBounds, "LOCAL_BOUNDS", "scatter/gather entry outside its memory region: region ends at %#x, entry ends at %#x"},
	{LocalAccess, "LOCAL_ACCESS", "local memory lacks the access right: needs %v, has %v"},
	{LocalLength, "LOCAL_LENGTH", "message too long: at most %d bytes, found %d"},
	{LocalOpcode, "LOCAL_OPCODE", "operation not supported by this queue pair: type %v, operation %v"},
	{LocalQPState, "LOCAL_QP_STATE", "queue pair in the wrong state: expected %v, found %v"},
	{BindRefused, "BIND_REFUSED", "memory window cannot be bound: window %#x, region %#x"},
	{Flushed, "FLUSHED", "flushed: the queue pair went to the error state (first error %v, status %v)"},
	{ResponseStale, "RESPONSE_STALE", "response to a request that is already answered: oldest outstanding PSN %#06x, found %#06x"},
	{ResponseGap, "RESPONSE_GAP", "READ or ATOMIC response lost, requested again: expected PSN %#06x, found %#06x"},
	{ResponseOpcode, "RESPONSE_OPCODE", "response does not fit its request: work request %v, response %v"},
	{NAKSequence, "NAK_SEQUENCE", "peer missed a packet, retransmitted: oldest outstanding PSN %#06x, NAK at %#06x"},
	{NAKNotReady, "NAK_NOT_READY", "peer had no receive posted, retransmitted later: rnr_retry %d, RNR NAK %d"},
	{AckTimeout, "ACK_TIMEOUT", "no acknowledge in time, retransmitted: retry_cnt %d, timeout %d"},
	{PacketRepeated, "PACKET_REPEATED", "lost packets retransmitted selectively: oldest outstanding PSN %#06x, retransmitted from %#06x"},
	{RepeatNeedless, "REPEAT_NEEDLESS", "spurious retransmission, the peer has received packets twice: %d before, %d more"},
	{TailProbe, "TAIL_PROBE", "no answer for a while, last packet retransmitted as a tail loss probe: waited %d µs, probe %d"},
	{PeerProbe, "PEER_PROBE", "keepalive probe sent to a silent peer: answer due within %d ms, probe %d"},
	{PeerSilent, "PEER_SILENT", "peer stopped answering: at most %d ms of silence allowed, found %d ms"},
	{CongestionNotified, "CONGESTION_NOTIFIED", "peer reported congestion, sending slowed down: window %d bytes, %d bytes per second"},
	{CongestionIgnored, "CONGESTION_IGNORED", "congestion notification for no queue pair that can slow down: expected a queue pair with control %v, found QPN %#06x"},
	{CongestionPSN, "CONGESTION_PSN", "congestion notification about a packet that was not sent recently: next PSN %#06x, found %#06x"},
	{HeldUnsent, "HELD_UNSENT", "peer buffers a request that was never sent and is told to drop it: next PSN %#06x, buffered %#06x"},
	{NeverAnswered, "NEVER_ANSWERED", "peer never answered: retry_cnt %d used up, %d timeouts"},
	{PeerReason, "PEER_REASON", "peer says why it refuses a request: %v, NAK at %#06x"},
	{PathProbePSN, "PATH_PROBE_PSN", "path probe with a PSN that the peer cannot have sent lately: next expected PSN %#06x, found %#06x"},
	{CongestionUninformed, "CONGESTION_UNINFORMED", "no switch told how full its link is, so the control hpcc is only a window: expected telemetry in %d bytes, found %d bytes acknowledged without any"},
}, kinds{
	PeerReason:        {NumCause, 0},
	NAKReserved:       {0, NumSyndrome},
	LocalAccess:       {NumAccess, NumAccess},
	LocalOpcode:       {NumQPType, NumOperation},
	LocalQPState:      {NumQPState, NumQPState},
	Flushed:           {NumCause, NumStatus},
	ResponseOpcode:    {NumOperation, NumOpcode},
	CongestionIgnored: {NumControl, 0},
})

// flushedInOrder is the sentence of Flushed without an error before.
const flushedInOrder = "flushed at an orderly end: this program, or a disconnect of either end, moved the queue pair to the error state; no error came before"
