package reason

// The reasons of packets dropped before they reach a queue pair.
const (
	PacketShort = packetsRoom*roomSize + iota
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
	FaultInjected
	FaultAnswer
)

const packetsRoom Reason = 1

var _ = register(packetsRoom, []row{
	{PacketShort, "PACKET_SHORT", "packet too short: expected at least %d bytes, found %d"},
	{PacketOpcode, "PACKET_OPCODE", "unknown opcode: expected one of %d, found %#x"},
	{PacketVersion, "PACKET_VERSION", "wrong transport header version: expected %d, found %d"},
	{PacketPad, "PACKET_PAD", "wrong padding or length: expected a multiple of %d, found %d"},
	{PacketExtraPayload, "PACKET_EXTRA_PAYLOAD", "payload after an opcode that has none: expected %d bytes, found %d"},
	{PacketICRC, "PACKET_ICRC", "wrong ICRC: expected %#08x, found %#08x"},
	{PacketPKey, "PACKET_PKEY", "wrong P_Key: expected %#04x, found %#04x"},
	{PacketQPN, "PACKET_QPN", "no such queue pair: %d exist, found QPN %#06x"},
	{PacketTransport, "PACKET_TRANSPORT", "opcode of another transport than the queue pair's: expected %v, found %v"},
	{PacketQPState, "PACKET_QP_STATE", "queue pair not ready to receive: expected at least state %v, found %v"},
	{PacketSource, "PACKET_SOURCE", "packet not from the connection's peer: expected address ...%08x, found ...%08x"},
	{PacketSourcePort, "PACKET_SOURCE_PORT", "packet not from the peer's UDP source port: expected %d, found %d"},
	{PacketPath, "PACKET_PATH", "packet from the network for a connection whose peer sends through memory: expected %d such packets, found one from UDP port %d"},
	{PacketMulticast, "PACKET_MULTICAST", "no queue pair attached to the multicast group: %d groups have one, found group ...%08x"},
	{PacketGRH, "PACKET_GRH", "not the GRH of a transport packet: expected version and next header %#04x, found %#04x"},
	{PacketGRHLength, "PACKET_GRH_LENGTH", "frame shorter than its GRH says: expected %d bytes after the GRH, found %d"},
	{PacketGID, "PACKET_GID", "GRH of another device: expected GID ...%016x, found ...%016x"},
	{PacketLRH, "PACKET_LRH", "not the LRH of a transport packet: expected version and next header %#04x or one more, found %#04x"},
	{PacketLRHLength, "PACKET_LRH_LENGTH", "packet of another length than its LRH says: expected %d bytes, found %d"},
	{PacketLID, "PACKET_LID", "packet to another port: expected LID %d, found %d"},
	{PacketSLID, "PACKET_SLID", "packet from a LID that no port has: expected at most %d, found %d"},
	{PacketQKey, "PACKET_QKEY", "wrong Q_Key: queue pair has %#x, packet has %#x"},
	{PacketNoReceive, "PACKET_NO_RECEIVE", "no receive posted for a datagram: expected %d, found %d"},
	{PacketTooLong, "PACKET_TOO_LONG", "datagram longer than the receive buffer: room for %d bytes, found %d"},
	{PacketStray, "PACKET_STRAY", "packet arrived on another lane than its queue pair's, and the queue between lanes is full: limit %d bytes, packet of %d bytes"},
	{PacketSlot, "PACKET_SLOT", "packet for a queue pair of another program on this address could not be handed over: this program's share is %d, found QPN %#06x"},
	{FaultInjected, "FAULT_INJECTED", "rules of faults have hit, on purpose: %d of them, the first is rule %d"},
	{FaultAnswer, "FAULT_ANSWER", "request refused on purpose, by a rule of faults: expected %v, found %v"},
}, kinds{
	FaultAnswer:     {NumSyndrome, NumSyndrome},
	PacketTransport: {NumTransport, NumTransport},
	PacketQPState:   {NumQPState, NumQPState},
})
