package reason

// The reasons of iWARP.
const (
	// iWARP: MPA, DDP and RDMAP.
	MPAKey = iwarpRoom*roomSize + iota
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

	// TLS under MPA.
	MPATLS
	TLSPlain
	TLSTrust
	TLSHandshake
	TLSLost

	StreamTimeout // TCP's own
)

const iwarpRoom Reason = 8

var _ = register(iwarpRoom, []row{
	{MPAKey, "MPA_KEY", "stream does not begin with an MPA start-up frame: expected %#08x, found %#08x"},
	{MPARevision, "MPA_REVISION", "unsupported MPA revision in the start-up frame: expected %d, found %d"},
	{MPAFallback, "MPA_FALLBACK", "peer does not support MPA revision %d: connecting with revision %d"},
	{MPAPrivate, "MPA_PRIVATE", "wrong private data length in the start-up frame: expected %d bytes, found %d"},
	{MPAEarly, "MPA_EARLY", "peer sent data before the set-up allowed it: expected %d bytes, found %d"},
	{MPARejected, "MPA_REJECTED", "peer rejected the connection: expected flags without %#02x, found %#02x"},
	{MPATimeout, "MPA_TIMEOUT", "peer did not send its start-up frame in time: waited %d ms, received %d bytes"},
	{MPASilent, "MPA_SILENT", "connection without a start-up frame closed to admit a newer one: at most %d such connections, this one waited %d ms"},
	{MPAEnhanced, "MPA_ENHANCED", "MPA reply lacks the enhanced set-up data: expected flags with %#02x, found %#02x"},
	{MPADepth, "MPA_DEPTH", "peer requests more concurrent READs and ATOMICs than this end serves: at most %d, found %d"},
	{MPAReady, "MPA_READY", "no ready-to-receive frame that both ends support: expected one of %#x, found %#x"},
	{MPAState, "MPA_STATE", "stream in the wrong state: expected %v, found %v"},
	{MPALength, "MPA_LENGTH", "ULPDU too short for its headers: expected at least %d bytes, found %d"},
	{MPAMarker, "MPA_MARKER", "marker does not point to the start of its FPDU: expected %d, found %d"},
	{MPACRC, "MPA_CRC", "wrong FPDU CRC: expected %#08x, found %#08x"},
	{DDPVersion, "DDP_VERSION", "wrong DDP version: expected %d, found %d"},
	{DDPQueue, "DDP_QUEUE", "message on the wrong DDP queue: expected %d, found %d"},
	{DDPSequence, "DDP_SEQUENCE", "message out of sequence: expected MSN %d, found %d"},
	{DDPOffset, "DDP_OFFSET", "segment out of sequence: expected message offset %d, found %d"},
	{DDPNoBuffer, "DDP_NO_BUFFER", "no receive posted in time: message %d, %d receives posted"},
	{DDPLength, "DDP_LENGTH", "message of the wrong length: expected %d bytes, found %d"},
	{RDMAPVersion, "RDMAP_VERSION", "wrong RDMAP version: expected %d, found %d"},
	{RDMAPOpcode, "RDMAP_OPCODE", "unexpected RDMAP message: expected one of %d opcodes, found %v"},
	{RDMAPSequence, "RDMAP_SEQUENCE", "RDMAP message out of sequence: after %v came %v"},
	{RDMAPResponse, "RDMAP_RESPONSE", "response does not match the oldest READ or ATOMIC: expected %#x, found %#x"},
	{RDMAPAtomic, "RDMAP_ATOMIC", "unsupported atomic operation: expected at most %d, found %d"},
	{RDMAPExtension, "RDMAP_EXTENSION", "operation needs the extensions of RFC 7306, which the peer lacks: type %v, operation %v"},
	{TermProtection, "TERM_PROTECTION", "peer refused access to its memory: message %d, Terminate %v"},
	{TermOperation, "TERM_OPERATION", "peer found a message invalid: message %d, Terminate %v"},
	{TermCatastrophic, "TERM_CATASTROPHIC", "peer reported a catastrophic error: message %d, Terminate %v"},
	{TermStream, "TERM_STREAM", "peer found the stream corrupted: message %d, Terminate %v"},
	{StreamClosed, "STREAM_CLOSED", "connection closed: %d requests outstanding, %d bytes of an FPDU received"},
	{StreamLost, "STREAM_LOST", "connection lost: %d requests outstanding, %d bytes of an FPDU received"},
	{IWARPType, "IWARP_TYPE", "iWARP supports reliable connections only: expected type %v, found %v"},
	{ConnectRefused, "CONNECT_REFUSED", "TCP connection refused by the peer's host: port %d, errno %v"},
	{ConnectFailed, "CONNECT_FAILED", "the operating system could not connect to the peer: port %d, errno %v"},

	{MPATLS, "MPA_TLS", "peer speaks TLS but this device does not: expected MPA's %#08x, found %#08x"},
	{TLSPlain, "TLS_PLAIN", "peer does not speak TLS but this device does: expected a record of type %d, found byte %d"},
	{TLSTrust, "TLS_TRUST", "peer's certificate is not trusted: expected at least %d trusted certificate, found %d untrusted"},
	{TLSHandshake, "TLS_HANDSHAKE", "TLS handshake failed, or the peer does not trust this end: %d bytes sent, %d received"},
	{TLSLost, "TLS_LOST", "TLS stream corrupted or cut off: %d bytes sent, %d received"},

	{StreamTimeout, "STREAM_TIMEOUT", "TCP's peer did not answer in time: %d requests outstanding, %d bytes of an FPDU received"},
}, kinds{
	MPAState:         {NumStreamState, NumStreamState},
	RDMAPOpcode:      {0, NumRDMAPOpcode},
	RDMAPSequence:    {NumRDMAPOpcode, NumRDMAPOpcode},
	RDMAPExtension:   {NumQPType, NumOperation},
	TermProtection:   {0, NumTerminate},
	TermOperation:    {0, NumTerminate},
	TermCatastrophic: {0, NumTerminate},
	TermStream:       {0, NumTerminate},
	IWARPType:        {NumQPType, NumQPType},
	ConnectRefused:   {0, NumErrno},
	ConnectFailed:    {0, NumErrno},
})
