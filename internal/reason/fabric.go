package reason

// The reasons of InfiniBand fabrics.
const (
	// Packets that an InfiniBand fabric drops.
	FabricLength = beforeFabric + iota
	FabricVCRC
	FabricVersion
	FabricVL
	FabricManagementVL
	FabricDLID
	FabricPortState
	FabricManagementFull
	FabricOverrun
	FabricRaw
	FabricPKey
	FabricLinkPacket
	FabricMTU
	FabricLifeTime
	FabricStalled
	FabricHOQLife
	FabricRoute
	FabricLoop
	FabricLane
	FabricForeign

	// A program and the process of the fabric.
	FabricAddress
	FabricAbsent
	FabricRefused
	FabricNode
	FabricHeld
	FabricMessage
	FabricBatch
	FabricGone
	FabricFull

	// Refusals of trunks between fabrics.
	FabricTrunkPacket
	FabricTrunkVersion
	FabricTrunkSecret
	FabricTrunkSession
	FabricTrunkMessage
	FabricTrunkNode
	FabricTrunkSilent
	FabricTrunkClosed
	FabricTrunkOverrun

	// Refusals between a fabric and programs on other hosts.
	FabricRemotePacket
	FabricRemoteVersion
	FabricRemoteSecret
	FabricRemoteUnknown
	FabricRemoteSilent
	FabricRemoteClosed
	FabricRemoteFull

	Count // the number of reasons
)
