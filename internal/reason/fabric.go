package reason

// The reasons of InfiniBand fabrics.
const (
	// Packets that an InfiniBand fabric drops.
	FabricLength = fabricRoom*roomSize + iota
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

	// A link without flow control.
	FabricBufferFull

	// A refusal of trunks between fabrics.
	FabricTrunkNetwork
)

const fabricRoom Reason = 12

var _ = register(fabricRoom, []row{
	{FabricLength, "FABRIC_LENGTH", "packet's length on the link is not that of its LRH: expected %d bytes, found %d"},
	{FabricVCRC, "FABRIC_VCRC", "wrong VCRC: expected %#04x, found %#04x"},
	{FabricVersion, "FABRIC_VERSION", "wrong link version: expected %d, found %d"},
	{FabricVL, "FABRIC_VL", "virtual lane not in operation: %d data lanes are, found lane %d"},
	{FabricManagementVL, "FABRIC_MANAGEMENT_VL", "not a subnet management packet on lane 15: expected next header %d, found %d"},
	{FabricDLID, "FABRIC_DLID", "reserved destination LID: expected at least %#04x, found %#04x"},
	{FabricPortState, "FABRIC_PORT_STATE", "port not in a state for this packet: expected %v, found %v"},
	{FabricManagementFull, "FABRIC_MANAGEMENT_FULL", "buffer of lane 15 full: room for %d packets, %d in it"},
	{FabricOverrun, "FABRIC_OVERRUN", "packet without credit: buffer of %d blocks, %d needed"},
	{FabricRaw, "FABRIC_RAW", "raw packet at a port that filters them: expected next header %d, found %d"},
	{FabricPKey, "FABRIC_PKEY", "P_Key not in the port's partition table: %d entries, found %#04x"},
	{FabricLinkPacket, "FABRIC_LINK_PACKET", "reserved link packet: expected an operation up to %d, found %d"},
	{FabricMTU, "FABRIC_MTU", "packet longer than the neighbor takes: expected at most %d bytes, found %d"},
	{FabricLifeTime, "FABRIC_LIFE_TIME", "packet too long in the switch: until %d ns, now %d ns"},
	{FabricStalled, "FABRIC_STALLED", "lane stalled, packet discarded: limit of %d discards in a row, found %d"},
	{FabricHOQLife, "FABRIC_HOQ_LIFE", "packet too long at the head of its lane: at most %d ns, found %d ns"},
	{FabricRoute, "FABRIC_ROUTE", "no port for this LID in the forwarding table: highest LID %#04x, found %#04x"},
	{FabricLoop, "FABRIC_LOOP", "packet would leave by the port at which it arrived: port %d, LID %#04x"},
	{FabricLane, "FABRIC_LANE", "service level has no lane here: expected a lane below %d, found service level %d"},
	{FabricForeign, "FABRIC_FOREIGN", "packet to a LID that is not the port's: expected LID %#04x, found %#04x"},

	{FabricAddress, "FABRIC_ADDRESS", "not the address of a fabric's port: expected %d, found %d"},
	{FabricAbsent, "FABRIC_ABSENT", "no such fabric runs: expected %d, found %d"},
	{FabricRefused, "FABRIC_REFUSED", "the fabric refused the request: expected %d, found %d"},
	{FabricNode, "FABRIC_NODE", "the fabric has no such port for programs: expected a port up to %d, found port %d"},
	{FabricHeld, "FABRIC_HELD", "another program is attached to the port: expected process %d, found process %d"},
	{FabricMessage, "FABRIC_MESSAGE", "malformed message between a program and its fabric: expected %d, found %d"},
	{FabricBatch, "FABRIC_BATCH", "malformed packets between a program and its fabric: expected %d bytes, found %d"},
	{FabricGone, "FABRIC_GONE", "the process of the fabric does not answer: expected %d, found %d"},
	{FabricFull, "FABRIC_FULL", "no room between the program and its port: service level %d, packets of %d bytes"},

	{FabricTrunkPacket, "FABRIC_TRUNK_PACKET", "malformed packet of a trunk: expected %d, found %d"},
	{FabricTrunkVersion, "FABRIC_TRUNK_VERSION", "the other end of the trunk has another version: expected %d, found %d"},
	{FabricTrunkSecret, "FABRIC_TRUNK_SECRET", "the other end of the trunk has another secret: expected a code of %d bytes, found a wrong one in a packet of %d bytes"},
	{FabricTrunkSession, "FABRIC_TRUNK_SESSION", "packet of another session of the trunk: expected connection %#x, found %#x"},
	{FabricTrunkMessage, "FABRIC_TRUNK_MESSAGE", "malformed message on a trunk: expected %d, found %d"},
	{FabricTrunkNode, "FABRIC_TRUNK_NODE", "both sides of the trunk have a node or port with the same GUID: expected %d such, found %#016x"},
	{FabricTrunkSilent, "FABRIC_TRUNK_SILENT", "the other end of the trunk fell silent or began again: expected a packet in %d ns, found none for %d ns"},
	{FabricTrunkClosed, "FABRIC_TRUNK_CLOSED", "the other end of the trunk closed it: expected %d, found reason %d"},
	{FabricTrunkOverrun, "FABRIC_TRUNK_OVERRUN", "more waits for the other end of the trunk than credits allow: expected at most %d segments, found %d"},

	{FabricRemotePacket, "FABRIC_REMOTE_PACKET", "malformed packet between a fabric and a program on another host: expected %d, found %d"},
	{FabricRemoteVersion, "FABRIC_REMOTE_VERSION", "the fabric and the program on another host have different versions: expected %d, found %d"},
	{FabricRemoteSecret, "FABRIC_REMOTE_SECRET", "the fabric and the program on another host have different secrets: expected a code of %d bytes, found a wrong one in a packet of %d bytes"},
	{FabricRemoteUnknown, "FABRIC_REMOTE_UNKNOWN", "packet of no session with a program on another host: expected %#x, found %#x"},
	{FabricRemoteSilent, "FABRIC_REMOTE_SILENT", "no answer from the other host: expected a packet in %d ns, found none for %d ns"},
	{FabricRemoteClosed, "FABRIC_REMOTE_CLOSED", "the other host ended the attachment: expected %d, found reason %d"},
	{FabricRemoteFull, "FABRIC_REMOTE_FULL", "the fabric takes no more programs of other hosts now: expected at most %d, found %d"},

	{FabricBufferFull, "FABRIC_BUFFER_FULL", "no room for a packet at the end of a link without flow control: buffer of %d blocks, %d needed"},
	{FabricTrunkNetwork, "FABRIC_TRUNK_NETWORK", "the other end of the trunk is of another kind of network: expected %v, found %v"},
}, kinds{
	FabricPortState:    {NumPortState, NumPortState},
	FabricTrunkNetwork: {NumTrunkUse, NumTrunkUse},
})
