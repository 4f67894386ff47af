package reason

// The reasons of the RC and UC responders.
const (
	SequenceAhead = responderRoom*roomSize + iota
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
	FlushType
	XRCQueue
	XRCQueueChanged
	InvalidateRefused
	SequenceHeld
	ReceiveAwaited
	HeldContradicted
	HeldDisowned
	CongestionMarked
)

const responderRoom Reason = 2

var _ = register(responderRoom, []row{
	{SequenceAhead, "SEQUENCE_AHEAD", "PSN sequence error: expected %#06x, found %#06x"},
	{SequenceDuplicate, "SEQUENCE_DUPLICATE", "duplicate request: expected PSN %#06x, found %#06x"},
	{SequenceDuplicateUnknown, "SEQUENCE_DUPLICATE_UNKNOWN", "duplicate READ or ATOMIC too old to be answered again: expected PSN %#06x, found %#06x"},
	{SequenceGap, "SEQUENCE_GAP", "packets lost on an unreliable connection: expected PSN %#06x, found %#06x"},
	{OpcodeSequence, "OPCODE_SEQUENCE", "opcode out of sequence: after %v came %v"},
	{OpcodeUnsupported, "OPCODE_UNSUPPORTED", "request not supported by this queue pair: transport %v, opcode %v"},
	{TooManyReads, "TOO_MANY_READS", "more READs and ATOMICs in flight than max_dest_rd_atomic %d: found %d"},
	{NoReceive, "NO_RECEIVE", "receiver not ready: no receive posted (min_rnr_timer field %d, message %d)"},
	{ReceiveTooSmall, "RECEIVE_TOO_SMALL", "message longer than the receive buffer: room for %d bytes, found %d"},
	{ReceiveLocalKey, "RECEIVE_LOCAL_KEY", "receive buffer not writable: L_Key %#x, address %#x"},
	{LengthMTU, "LENGTH_MTU", "packet longer than the path MTU: expected at most %d, found %d"},
	{LengthShortSegment, "LENGTH_SHORT_SEGMENT", "First or Middle packet shorter or longer than the path MTU: expected %d bytes, found %d"},
	{LengthExceedsRETH, "LENGTH_EXCEEDS_RETH", "more payload than the RETH announced: %d bytes left, found %d"},
	{LengthBelowRETH, "LENGTH_BELOW_RETH", "message ends before the length that the RETH announced: %d bytes left, found %d"},
	{LengthLimit, "LENGTH_LIMIT", "message over 2^31 bytes: expected at most %d, found %d"},
	{KeyUnknown, "KEY_UNKNOWN", "no memory has this key: %d keys exist, found %#x"},
	{KeyWrongPD, "KEY_WRONG_PD", "key of another protection domain: expected PD %d, found PD %d"},
	{KeyInvalid, "KEY_INVALID", "key is invalidated or not yet bound: expected %v, found %v"},
	{KeyBounds, "KEY_BOUNDS", "access outside the memory region: region ends at %#x, access ends at %#x"},
	{KeyAccess, "KEY_ACCESS", "memory lacks the access right: needs %v, has %v"},
	{KeyQP, "KEY_QP", "memory window bound to another queue pair: expected %#06x, found %#06x"},
	{QPAccess, "QP_ACCESS", "queue pair does not allow this remote operation: needs %v, has %v"},
	{AtomicAlignment, "ATOMIC_ALIGNMENT", "atomic operand not aligned: expected a multiple of %d, found address %#x"},
	{FlushType, "FLUSH_TYPE", "FLUSH of a reserved placement or selectivity: expected only bits of %#x, found %#x"},
	{XRCQueue, "XRC_QUEUE", "XRC request to a shared receive queue of no use here: expected one of the %d of the queue pair's XRC domain, found number %#06x"},
	{XRCQueueChanged, "XRC_QUEUE_CHANGED", "packet of an XRC message names another shared receive queue than the message's first: expected %#06x, found %#06x"},
	{InvalidateRefused, "INVALIDATE_REFUSED", "the peer may not invalidate this key: expected a type 2 window of queue pair %#x, found key %#x"},
	{SequenceHeld, "SEQUENCE_HELD", "request arrived before an earlier one and is buffered: expected PSN %#06x, found %#06x"},
	{ReceiveAwaited, "RECEIVE_AWAITED", "first message of the connection waits for a receive: expected one within %d ms, found none for PSN %#06x"},
	{HeldContradicted, "HELD_CONTRADICTED", "two buffered requests have the same PSN but different content, all buffered requests dropped: expected PSN %#06x, conflict at %#06x"},
	{HeldDisowned, "HELD_DISOWNED", "peer never sent the buffered requests, dropped: from PSN %#06x, %d requests"},
	{CongestionMarked, "CONGESTION_MARKED", "router marked a packet for congestion, peer notified: expected ECN field %d, found %d"},
}, kinds{
	OpcodeSequence:    {NumOpcode, NumOpcode},
	OpcodeUnsupported: {NumTransport, NumOpcode},
	KeyInvalid:        {NumKeyState, NumKeyState},
	KeyAccess:         {NumAccess, NumAccess},
	QPAccess:          {NumAccess, NumAccess},
})
