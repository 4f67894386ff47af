// Package reason defines a name for every case in which softrdma drops a packet,
// sends a NAK, completes a work request with an error or refuses a call. Go
// errors, completions, traces and counters all use this name, and
// `softrdma explain NAME` explains it.
//
// The package owns the names and one sentence for each. It never decides, counts
// or prints: the code that refuses something does.
package reason

import "fmt"

// A Reason is a named refusal. Completions carry its number in their vendor_err
// field. A number may change with each version, a name never changes.
type Reason uint32

// A Detail is a reason with the value that was expected and the one that was
// found. The reason's sentence says what the two numbers mean.
type Detail struct {
	Reason          Reason
	Expected, Found uint64
}

// String returns the sentence with both numbers, or their names if they have any.
func (d Detail) String() string {
	if int(d.Reason) >= len(rows) || d.Reason == None {
		return d.Reason.String()
	}
	if d.Reason == Flushed && Reason(d.Expected) == None {
		return flushedInOrder
	}
	n := &named[d.Reason]
	return fmt.Sprintf(rows[d.Reason].format, n[0].argument(d.Expected), n[1].argument(d.Found))
}

// String returns the name.
func (r Reason) String() string {
	if int(r) < len(rows) {
		return rows[r].name
	}
	return fmt.Sprintf("reason %d", uint32(r))
}

// The reasons. Each has a row in rows. Those of fabrics are in fabric.go.
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
	PacketPath
	PacketMulticast
	PacketGRH
	PacketGRHLength
	PacketGID
	PacketLRH
	PacketLRHLength
	PacketLID
	PacketSLID
	PacketQKey
	PacketNoReceive
	PacketTooLong
	PacketStray
	PacketSlot

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
	FlushType
	XRCQueue
	XRCQueueChanged
	InvalidateRefused
	SequenceHeld
	ReceiveAwaited
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
	QPNumbers
	AddressUnreachable
	GIDIndex
	SendRefused
	AddressHandle
	MemoryUnmapped

	// Packets that could not be sent.
	SendFailed
	SendNeighbour
	SendUnreachable
	PathMTU
	InterfaceMTU
	SendWouldBlock
	SendPKey

	// Violations of the rsockets protocol.
	SocketVersion
	SocketConnData
	SocketTarget
	SocketNoCredit
	SocketOverrun
	SocketMessage
	SocketMapping
	SocketCut
	SocketClosed
	SocketShut

	// Refusals by the softrdma commands.
	FileName

	// The communication manager.
	MADLength
	MADVersion
	MADClass
	MADClassVersion
	MADMethod
	MADAttribute
	SMPPort
	SMPHops
	SMPManagementKey
	MADQueuePair
	MADAgentTaken
	MADAgents
	MADSendQueue
	MADReceiveQueue
	MADNoRequest
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

	// The subnet's administrator, asked for a path or for membership in a group.
	SANone
	SATimeout
	SAStatus
	SAAnswer
	SAGroup
	SAForgotten

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
	ClientStalled
	ClientDescriptors
	MemoryPrivate
	MemoryShared
	ServerDescriptors
	ServerReserve
	SlotUnshared
	SlotUser
	SlotNetwork
	SlotsTaken
	ProvidersMissing
	SlotConnections
	CommandHandle
	ObjectLimit
	CommandRefused

	// TLS under MPA.
	MPATLS
	TLSPlain
	TLSTrust
	TLSHandshake
	TLSLost

	// Calls that are refused before anything is sent.
	DeviceOpen
	DeviceClosed
	ObjectDestroyed
	Argument
	Unsupported
	QPTransition
	QPAttributes
	QPAttributeRange
	WaitFailed
	WaitEnded
	IDState
	IDPort
	Disconnected
	TLSMismatch

	// The memory path between processes of one host.
	HostOff
	HostUnsupported
	HostTransport
	HostFabric
	HostDirectory
	HostDirectoryOwner
	HostDirectoryMode
	HostPublish
	HostUnpublished
	HostStale
	HostRefused
	HostUser
	HostAddress
	HostNamespace
	HostAmbiguous
	HostTimeout
	HostVersion
	HostMessage
	HostArea
	HostMemory
	HostNonce
	HostSameProcess
	HostLimit
	HostResources
	HostClosed
	HostGone
	HostRing
	HostFull
	HostStalled
	HostRevoked
	HostReference

	beforeFabric // the next block goes on with this number
)
