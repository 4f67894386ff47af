package explain

import "softrdma/internal/reason"

// packets explains why a packet was dropped before a queue pair took it.
var packets = map[reason.Reason]text{
	reason.PacketShort: {
		"The datagram ends before the headers that its opcode has, or before the ICRC.",
		"A capture of the packet: something else than RoCE v2 on the UDP port, or a box that cuts packets.",
		"Keep other traffic off UDP port 4791, and check the path for devices that rewrite packets.",
		"IBTA 9.6.1"},
	reason.PacketOpcode: {
		"The first byte of the base transport header is no opcode of RC, UC, UD or a congestion notification.",
		"A capture: the sender may use RD or XRC, a maker's own opcodes, or not be a RoCE device at all.",
		"Use RC, UC or UD queue pairs on the peer.",
		"IBTA 9.2.1, 9.6.1"},
	reason.PacketVersion: {
		"The transport header version is not 0, the only one that is defined.",
		"A capture: the packet was damaged, or is not RoCE v2.",
		"Keep other traffic off the UDP port.",
		"IBTA 9.2, 9.6.1"},
	reason.PacketPad: {
		"The packet's length is no multiple of 4, or it names more padding than there is payload.",
		"A capture: a sender that pads wrongly, or a box that cuts or extends packets.",
		"Update the peer's driver or firmware.",
		"IBTA 9.2, 9.6.1"},
	reason.PacketExtraPayload: {
		"Bytes follow an opcode that has no payload: an acknowledge, an atomic or a READ request.",
		"A capture of the packet and of the peer that sent it.",
		"Update the peer's driver or firmware.",
		"IBTA 9.4, table 38"},
	reason.PacketICRC: {
		"The invariant CRC does not fit the packet: it was damaged on the way, or a device changed a field that must not change (addresses, ports, IPv4 identification).",
		"Whether every packet fails (address translation, a tunnel or a firewall rewrites headers) or few do (damage on the path); `softrdma capture` shows the CRC expected and found.",
		"Let the two ends reach each other without address translation; replace a damaging cable, adapter or virtual switch; turn off offloads that rewrite the IPv4 identification.",
		"IBTA 7.8.1, annex A17.3.3"},
	reason.PacketPKey: {
		"The packet's partition key is not in the queue pair's table, or both ends are limited members.",
		"pkey_index of both queue pairs and the P_Key tables of both devices.",
		"Use pkey_index 0 (the default partition, 0xffff) on both ends.",
		"IBTA 9.6.1, 10.9.3"},
	reason.PacketQPN: {
		"No queue pair has this number: it was destroyed, never made, or the peer was told a wrong number.",
		"The QPNs that the two ends exchanged, and whether this end destroyed its queue pair while the peer still sent.",
		"Exchange the numbers after both queue pairs exist, and drain before destroying one.",
		"IBTA 9.6.1"},
	reason.PacketTransport: {
		"The opcode belongs to another transport than the queue pair: one end made RC, the other UC or UD.",
		"qp_type of both ends.",
		"Make both queue pairs of the same type.",
		"IBTA 9.6.1"},
	reason.PacketQPState: {
		"The queue pair is in RESET, INIT or ERR and takes no packets.",
		"Whether the peer began to send before this end reached RTR, and whether an error moved the queue pair to ERR.",
		"Bring this end to RTR before the peer sends; after an error, find the first completion that failed.",
		"IBTA 9.6.1, 10.3.1"},
	reason.PacketSource: {
		"A packet for a connected queue pair came from another address than that of its peer.",
		"The GIDs that were exchanged; a peer with several addresses may send from another one.",
		"Name the address that the peer sends from, or bind the peer to the one that was named.",
		"IBTA 9.6.1.2.3, annex A17.4.4.2"},
	reason.PacketSourcePort: {
		"A packet for a connected queue pair came from its peer's address, but from another UDP source port than the peer's packets, and its PSN is not the one due next.",
		"Somebody forges the peer's address, or an address translator on the path gave the connection another port (then it goes on by itself after a retry).",
		"Nothing for single ones. For many, find who sends them: `softrdma capture`, or filters against forged addresses (RFC 2827) on the network.",
		"annex A17.3.2.1"},
	reason.PacketMulticast: {
		"No queue pair of this device is attached to the multicast group.",
		"ibv_attach_mcast on this end, and the group's address on the sender.",
		"Attach a UD queue pair to the group before the sender sends.",
		"IBTA 10.5"},
	reason.PacketQKey: {
		"The datagram's Q_Key is not the queue pair's.",
		"qkey in the modify to INIT here, and remote_qkey in the sender's work request (a value with the highest bit set takes the sender's own).",
		"Use the same Q_Key on both ends.",
		"IBTA 9.6.1.4.1, 10.2.5"},
	reason.PacketNoReceive: {
		"A datagram came and no receive was posted: UD drops it and tells nobody.",
		"How many receives are posted and how fast they are posted again.",
		"Post more receives, and post them again before handling what came.",
		"IBTA 9.8.3"},
	reason.PacketTooLong: {
		"A datagram is longer than the receive request that took it.",
		"The length of the receive's scatter list: 40 bytes for the global route header count as well.",
		"Post receives of the path MTU and 40 bytes.",
		"IBTA 9.8.3, 11.4.1.2"},
	reason.PacketStray: {
		"The device has several lanes. The packet came to another lane than that of its queue pair, was to be handed over, and too many waited for that already.",
		"Whether many queue pairs of the peer share one source port, so that packets for several lanes are joined on their way; the counter beside the packets received.",
		"Nothing where it is rare: the packet is sent again. Otherwise open the device with one lane.",
		"IBTA 9.7.6.1.3"},
}
