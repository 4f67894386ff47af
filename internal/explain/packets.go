package explain

import "softrdma/internal/reason"

// These texts explain why a packet was dropped before a queue pair took it.
var _ = explain(map[reason.Reason]text{
	reason.PacketShort: {
		"The datagram ends before the headers that its opcode has, or before the ICRC.",
		"A capture of the packet: traffic other than RoCE v2 on the UDP port, or a middlebox that truncates packets.",
		"Keep other traffic off UDP port 4791, and check the path for devices that rewrite packets.",
		"IBTA 9.6.1"},
	reason.PacketOpcode: {
		"The first byte of the base transport header is not an opcode of RC, UC, UD or a congestion notification.",
		"A capture: the sender may use RD, XRC or vendor-specific opcodes, or may not be a RoCE device at all.",
		"Use RC, UC or UD queue pairs on the peer.",
		"IBTA 9.2.1, 9.6.1"},
	reason.PacketVersion: {
		"The transport header version is not 0, the only defined version.",
		"A capture: the packet was damaged, or is not RoCE v2.",
		"Keep other traffic off the UDP port.",
		"IBTA 9.2, 9.6.1"},
	reason.PacketPad: {
		"The packet's length is not a multiple of 4, or the packet claims more padding than it has payload.",
		"A capture: a sender that pads incorrectly, or a middlebox that truncates or extends packets.",
		"Update the peer's driver or firmware.",
		"IBTA 9.2, 9.6.1"},
	reason.PacketExtraPayload: {
		"Bytes follow an opcode that has no payload: an acknowledge, an atomic or a READ request.",
		"A capture of the packet and of the peer that sent it.",
		"Update the peer's driver or firmware.",
		"IBTA 9.4, table 38"},
	reason.PacketICRC: {
		"The invariant CRC does not match the packet: the packet was corrupted on the path, or a device changed a field that must not change (addresses, ports, IPv4 identification).",
		"Whether all packets fail (address translation, a tunnel or a firewall rewrites headers) or only a few (corruption on the path); `softrdma capture` shows the expected and the found CRC.",
		"Connect the two ends without address translation, or encrypt (--psk-file): encrypted packets pass it; replace a faulty cable, adapter or virtual switch; turn off offloads that rewrite the IPv4 identification.",
		"IBTA 7.8.1, annex A17.3.3"},
	reason.PacketPKey: {
		"The packet's partition key is not in the queue pair's table, or both ends are limited members.",
		"pkey_index of both queue pairs and the P_Key tables of both devices.",
		"Give both queue pairs the index of the same partition, of which at least one end is a full member. Ports of RoCE have only index 0 (the default partition, 0xffff).",
		"IBTA 9.6.1, 10.9.3"},
	reason.PacketQPN: {
		"No queue pair has this number: it was destroyed, never created, or the peer has a wrong number.",
		"The QPNs that the two ends exchanged, and whether this end destroyed its queue pair while the peer still sent.",
		"Exchange the numbers after both queue pairs exist, and drain a queue pair before destroying it.",
		"IBTA 9.6.1"},
	reason.PacketTransport: {
		"The opcode belongs to another transport than the queue pair's: for example one end uses RC and the other UC or UD.",
		"qp_type of both ends.",
		"Create both queue pairs with the same type.",
		"IBTA 9.6.1"},
	reason.PacketQPState: {
		"The queue pair is in RESET, INIT or ERR and accepts no packets.",
		"Whether the peer began to send before this end reached RTR, and whether an error moved the queue pair to ERR.",
		"Bring this end to RTR before the peer sends; after an error, find the first completion that failed.",
		"IBTA 9.6.1, 10.3.1"},
	reason.PacketSource: {
		"A packet for a connected queue pair came from an address other than its peer's.",
		"The GIDs that the two ends exchanged; a peer with several addresses may send from another one.",
		"Connect to the address that the peer sends from, or bind the peer to the address that you connect to.",
		"IBTA 9.6.1.2.3, annex A17.4.4.2"},
	reason.PacketPath: {
		"The connection's peer is on this host and sends through memory, but a packet for the connection came from the network. It is another sender's, or one that the peer sent before it changed to memory.",
		"Who on the peer's host sends RoCE v2 packets: `softrdma capture` shows their ports.",
		"Nothing for single packets. For many, find the program that sends them: it forges packets of the peer.",
		localClause},
	reason.PacketSourcePort: {
		"A packet for a connected queue pair came from its peer's address but from another UDP source port than the peer's earlier packets. Either its PSN is not the next expected one, or the peer, which is asked by a PEER_PROBE, has not answered from that port.",
		"Whether an attacker forges the peer's address, or an address translator on the path changed the connection's port (the connection then continues by itself after a retry).",
		"Nothing for single packets. For many, find the sender with `softrdma capture`, and filter forged addresses in the network (RFC 2827).",
		"annex A17.3.2.1"},
	reason.PacketMulticast: {
		"No queue pair of this device is attached to the multicast group.",
		"ibv_attach_mcast on this end, and the group's address on the sender.",
		"Attach a UD queue pair to the group before the sender sends.",
		"IBTA 10.5"},
	reason.PacketGRH: {
		"A RoCE v1 frame, or an InfiniBand packet of a global path, has a header that is not the GRH of a transport packet.",
		"The frame (`softrdma capture`, Wireshark): version 6 and next header 0x1b are right.",
		"Find out who sends it: its source MAC address or SLID tells.",
		"IBTA 8.3.1, 8.3.5, 9.6.1.2.1"},
	reason.PacketGRHLength: {
		"A RoCE v1 frame ends before the packet does whose length its GRH tells.",
		"Whether something on the way cut the frame: its MTU, a defective driver.",
		"Raise the MTU of all switches and interfaces on the way to that of the two ends.",
		"IBTA 8.3.4, annex A16"},
	reason.PacketGID: {
		"A RoCE v1 frame reached this device by its MAC address, but its GRH names another GID, or a source that is a group.",
		"The peer's DGID, and this device's GID (`softrdma devices`).",
		"Give the peer this device's GID: a device has one.",
		"IBTA 9.6.1.2.3, annex A16"},
	reason.PacketLRH: {
		"An InfiniBand packet is raw (without a BTH), or of a link version that is not known.",
		"The packet (`softrdma capture`, Wireshark): link version 0 and next header 2 (BTH) or 3 (GRH) are right.",
		"Find out who sends it: its SLID tells.",
		"IBTA 7.7.2, 7.7.5"},
	reason.PacketLRHLength: {
		"An InfiniBand packet is shorter or longer than its LRH says, or too short for a BTH.",
		"The packet (`softrdma capture`, Wireshark): the length in the LRH counts words of four bytes up to the ICRC.",
		"Find out who sends it: its SLID tells.",
		"IBTA 7.7.8"},
	reason.PacketLID: {
		"An InfiniBand packet reached this port, but its DLID is not the port's or a group's. The subnet manager has changed the port's LID, or a switch's tables do not fit.",
		"The port's LID (`ibstat`), and where the switches lead the DLID (`ibtracert`).",
		"Connect again, or let the subnet manager sweep again.",
		"IBTA 4.1.3, 9.6.1"},
	reason.PacketSLID: {
		"The SLID of an InfiniBand packet is 0 or a group's, which no port has.",
		"The packet (`softrdma capture`, Wireshark).",
		"Wait until the subnet manager has given the sender a LID.",
		"IBTA 4.1.3, 7.7.9"},
	reason.PacketQKey: {
		"The datagram's Q_Key is not the queue pair's.",
		"qkey in this end's modify to INIT, and remote_qkey in the sender's work request (if its highest bit is set, the Q_Key of the sender's queue pair is used).",
		"Use the same Q_Key on both ends.",
		"IBTA 9.6.1.4.1, 10.2.5"},
	reason.PacketNoReceive: {
		"A datagram arrived while no receive was posted. UD drops such a datagram without notifying the sender.",
		"How many receives are posted, and how fast the program posts new ones.",
		"Post more receives, and post new ones before processing the received data.",
		"IBTA 9.8.3"},
	reason.PacketTooLong: {
		"A datagram is longer than the receive buffer that it used.",
		"The length of the receive's scatter list, which must include 40 bytes for the global route header.",
		"Post receives of the path MTU plus 40 bytes.",
		"IBTA 9.8.3, 11.4.1.2"},
	reason.PacketStray: {
		"The device has several lanes, each with its own socket and worker. The packet arrived at another lane than its queue pair's, and could not be passed on because too many packets were already waiting there.",
		"Whether many queue pairs of the peer share one source port, so that the system delivers packets for several lanes together; the counter compared with the number of packets received.",
		"Nothing if it is rare: the peer retransmits the packet. Otherwise open the device with one lane.",
		"IBTA 9.7.6.1.3"},
	reason.FaultAnswer: {
		"A rule of faults with the action answer has made the responder refuse a request that it could have executed.",
		"The rules that were given to the responder's device.",
		"Nothing: open the device without rules if it is to work.",
		localClause},
	reason.FaultInjected: {
		"The device has rules of faults, and one of them has hit a packet, a call or an object. What follows from it is meant to happen.",
		"The rules that were given to the device, and its list of hits (Device.Faults).",
		"Nothing: open the device without rules if it is to work.",
		localClause},
	reason.PacketSlot: {
		"Several programs share the device's address, each with its own socket. The packet is for a queue pair of another program, and could not be handed over: no program has that part of the queue pair numbers, or the other program's daemon is of an older version.",
		"Whether the peer still sends to a program that has ended.",
		"Nothing if it is rare: the peer retransmits the packet, or its connection fails as with a host that has gone.",
		"IBTA 9.7.6.1.3"},
})
