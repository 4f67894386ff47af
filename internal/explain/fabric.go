package explain

import "softrdma/internal/reason"

// These texts explain why an InfiniBand fabric drops a packet.
var _ = explain(map[reason.Reason]text{
	reason.FabricLength: {
		"The packet is shorter than any packet, or its local route header gives another length than it has.",
		"The node that sent the packet, and whether bit errors are injected on the link.",
		"Update or repair the sender; on a link with injected errors this is expected.",
		"IBTA 7.4, 7.7.8"},
	reason.FabricVCRC: {
		"The packet or link packet was corrupted on the link that it arrived by. The next node would not have seen it.",
		"SymbolErrors and LocalPhysicalErrors of the port (`perfquery`), and the fault rules of the link.",
		"Replace the cable; on a link with injected errors this is expected.",
		"IBTA 7.3, 7.8.2"},
	reason.FabricVersion: {
		"The local route header has a version other than 0, the only defined one.",
		"The node that sent the packet.",
		"Update the sender.",
		"IBTA 7.4, 7.7"},
	reason.FabricVL: {
		"The packet is on a lane that this port has or uses no buffer for: the two ends of the link have different OperationalVLs, or a table maps the service level to a lane that the port does not have.",
		"OperationalVLs of both ends (`smpquery portinfo`), and the SL to VL tables (`smpquery sl2vl`).",
		"Let the subnet manager set the same number of lanes at both ends.",
		"IBTA 7.4, 7.6.3"},
	reason.FabricManagementVL: {
		"Lane 15 carries subnet management packets alone, which have no GRH and no multicast address.",
		"The node that sent the packet.",
		"Send other packets on a data lane.",
		"IBTA 7.6.4"},
	reason.FabricDLID: {
		"The destination LID is 0, which no port has.",
		"Whether a subnet manager has assigned LIDs, and the address that the sender used.",
		"Wait until the port is ACTIVE before sending.",
		"IBTA 4.1.3"},
	reason.FabricPortState: {
		"A port passes data packets when it is ACTIVE, and takes them when it is ARMED. A port in INIT passes subnet management packets alone, and a port that is down none.",
		"The states of both ends of the link (`iblinkinfo`), and whether a subnet manager runs (`sminfo`).",
		"Start a subnet manager, or enable the port (`ibportstate`).",
		"IBTA 7.2, 7.2.2"},
	reason.FabricManagementFull: {
		"Lane 15 has no flow control. Subnet management packets that arrive faster than they leave are dropped.",
		"VL15Dropped of the port, and the number of packets that the subnet manager has outstanding.",
		"Lower the manager's number of outstanding packets (opensm: max_wire_smps); it sends lost packets again.",
		"IBTA 7.9.1"},
	reason.FabricOverrun: {
		"The sender sent more than the port had granted, so that the lane's buffer is full.",
		"ExcessiveBufferOverruns of the port.",
		"Repair the sender's flow control.",
		"IBTA 7.9.4"},
	reason.FabricRaw: {
		"The subnet manager has told the port to drop packets without a base transport header.",
		"FilterRawInbound and FilterRawOutbound of the port (`smpquery portinfo`).",
		"Let the subnet manager clear the filter, or do not send raw packets.",
		"IBTA 14.2.5.6"},
	reason.FabricPKey: {
		"The switch enforces partitions on this port. The packet's partition is not in the port's table, or both are limited members.",
		"The partition table of the switch's port (`smpquery pkeys LID PORT`) and the P_Key of the queue pair.",
		"Add both ends to the partition in the subnet manager's configuration.",
		"IBTA 10.9.3"},
	reason.FabricLinkPacket: {
		"A link packet has an operation that is not defined.",
		"The node at the other end of the link.",
		"Update the node.",
		"IBTA 7.9.4"},
	reason.FabricMTU: {
		"The packet is longer than NeighborMTU of the port by which it would leave.",
		"The path MTU of the queue pair, and NeighborMTU along the path (`smpquery portinfo`).",
		"Use the MTU of the path record.",
		"IBTA 14.2.5.6"},
	reason.FabricLifeTime: {
		"The packet did not leave the switch within the LifeTimeValue that the subnet manager has set.",
		"XmitWait of the port by which it would leave, and what the neighbor does with its packets.",
		"Find the receiver that does not take its packets, or raise the switch's life time.",
		"IBTA 18.2.5.4"},
	reason.FabricStalled: {
		"So many packets in a row waited too long at the head of the lane that the switch discards all for a while.",
		"XmitDiscards and XmitWait of the port, and what the neighbor does with its packets.",
		"Find the receiver that does not take its packets, or a cycle of links that wait for each other.",
		"IBTA 18.2.5.4"},
	reason.FabricHOQLife: {
		"The neighbor granted no credit within HOQLife, so the switch discards the packet to let others pass.",
		"XmitDiscards and XmitWait of the port, and what the neighbor does with its packets.",
		"Find the receiver that does not take its packets, or a cycle of links that wait for each other.",
		"IBTA 18.2.5.4"},
	reason.FabricRoute: {
		"The switch's forwarding table has no port for the packet's destination.",
		"The table (`ibroute`), the path (`ibtracert`), and whether the destination has left the fabric.",
		"Wait for the subnet manager's sweep, or ask for a new path record.",
		"IBTA 14.2.5.10, 18.2.4.3"},
	reason.FabricLoop: {
		"Two neighbors each believe that the other is nearer to the destination, as happens while tables change.",
		"The forwarding tables of both (`ibroute`), and when the subnet manager swept last.",
		"Wait for the subnet manager to finish its sweep.",
		"IBTA 18.2.4.3"},
	reason.FabricLane: {
		"The SL to VL table maps the service level to lane 15, which means that such packets are discarded.",
		"The table of the two ports (`smpquery sl2vl`) and the service level of the path record.",
		"Use the service level of the path record.",
		"IBTA 7.6.6"},
	reason.FabricForeign: {
		"The packet arrived at an adapter's port that has another LID.",
		"The forwarding tables along the path (`ibtracert`), and the LIDs of the port (`ibstat`).",
		"Ask for a new path record: LIDs may have changed since the last one.",
		"IBTA 9.6.1"},
	reason.FabricAddress: {
		"The text does not name a port of a fabric as NAME/NODE or NAME/NODE:PORT.",
		"The name of the fabric and of the node (`softrdma fabric status`).",
		"Write the fabric's name, a slash, the node's name or GUID, and the port behind a colon if it is not 1.",
		localClause},
	reason.FabricAbsent: {
		"No process runs a fabric of this name, or it is another user's.",
		"SOFTRDMA_FABRIC_DIR, which is $XDG_RUNTIME_DIR/softrdma/fabric or /run/softrdma/fabric if it is not set.",
		"Start the fabric (`softrdma fabric up --name NAME`).",
		localClause},
	reason.FabricRefused: {
		"The process of the fabric did not do what was asked for.",
		"The text of the error, and the output of `softrdma fabric up`.",
		"Do what the text says.",
		localClause},
	reason.FabricNode: {
		"Programs attach to the ports of adapters. The node does not exist, is a switch, or has fewer ports.",
		"The nodes of the fabric (`softrdma fabric status`).",
		"Name an adapter of the fabric and one of its ports.",
		localClause},
	reason.FabricHeld: {
		"A port belongs to one program at a time, or to programs that share it by one daemon or one softrdma exec.",
		"The process that the error names.",
		"Use another port, or share the port between programs by `softrdma daemon -d ib:NAME/NODE`. Programs of a daemon or exec that has ended keep the port until they end.",
		localClause},
	reason.FabricMessage: {
		"A message on the fabric's socket has a wrong kind, length or content.",
		"Whether the program and the fabric are of the same version of softrdma.",
		"Start both from one version.",
		localClause},
	reason.FabricBatch: {
		"The rings between a program and the fabric hold something that is no packet.",
		"Whether the program and the fabric are of the same version of softrdma.",
		"Start both from one version.",
		localClause},
	reason.FabricGone: {
		"The process of the fabric has ended, or it closed the connection.",
		"Whether `softrdma fabric up` still runs.",
		"Start the fabric again: its ports come back by themselves.",
		localClause},
	reason.FabricFull: {
		"The port takes packets of this service level more slowly than the program sends them.",
		"XmitWait of the port (`perfquery`), and the state of the receiver.",
		"Find the receiver that does not take its packets.",
		"IBTA 7.9"},
	reason.FabricTrunkPacket: {
		"A packet came from the address of a trunk's other end that no end of a trunk sends.",
		"What else sends to this UDP port (`tcpdump`).",
		"Give the trunk a UDP port of its own.",
		localClause},
	reason.FabricTrunkVersion: {
		"The two fabrics run different versions of softrdma, whose trunks do not understand each other.",
		"`softrdma version` on both hosts.",
		"Run one version on both.",
		localClause},
	reason.FabricTrunkSecret: {
		"The code in the packet that opens a session is not that of the own secret. Another host may have sent it.",
		"The file of --trunk-secret on both hosts.",
		"Give both fabrics the same file.",
		localClause},
	reason.FabricTrunkSession: {
		"A packet does not belong to the present session: it was late, or a sender without the connection's number forged it.",
		"Whether one of the two fabrics was restarted at that moment.",
		"Nothing, if it was. Otherwise find out who sends to this UDP port.",
		localClause},
	reason.FabricTrunkMessage: {
		"The other end of the trunk sent something that makes no sense at this point. The session begins again.",
		"Whether both fabrics are of the same version of softrdma.",
		"Start both from one version.",
		localClause},
	reason.FabricTrunkNode: {
		"GUIDs are unique in a subnet. Generated fabrics of the same shape have the same GUIDs.",
		"The nodes of both fabrics (`softrdma fabric status`).",
		"Give each generated fabric a number of its own (`--topology star:4,part=1`), or change the GUIDs in the file.",
		"IBTA 4.1.1"},
	reason.FabricTrunkSilent: {
		"The process at the other end of the trunk has ended, its host is down, or the network between loses all packets.",
		"Whether the other fabric runs, and whether UDP packets pass between the hosts.",
		"Start the other fabric again: the link comes back by itself.",
		localClause},
	reason.FabricTrunkClosed: {
		"The fabric at the other end of the trunk ended, or it refused this one. The number found is that of its reason.",
		"The output of the other fabric.",
		"Start the other fabric again, or do what it says.",
		localClause},
	reason.FabricTrunkOverrun: {
		"The other end granted credits again and again without acknowledging what it got.",
		"Whether both fabrics are of the same version of softrdma.",
		"Start both from one version.",
		"IBTA 7.9"},
	reason.FabricTrunkNetwork: {
		"A trunk joins two InfiniBand fabrics, or two Ethernet fabrics. No trunk joins one kind to the other: their packets, addresses and flow control differ.",
		"Which of the two fabrics was built with --ethernet, and whether --trunk names the UDP port of --listen, not that of --attach.",
		"Build both fabrics with --ethernet, or both without. Programs reach the hosts of two fabrics by a device of each.",
		localClause},
	reason.FabricRemotePacket: {
		"The other host sent something that makes no sense at this point. The attachment ends, and begins again by itself.",
		"Whether softrdma is of the same version on both hosts (`softrdma version`).",
		"Run one version on both.",
		localClause},
	reason.FabricRemoteVersion: {
		"The fabric and the program are of versions of softrdma that do not understand each other.",
		"`softrdma version` on both hosts.",
		"Run one version on both.",
		localClause},
	reason.FabricRemoteSecret: {
		"The code in the packet that opens a session is not that of the own secret. Another host may have sent it.",
		"The file of --attach-secret at the fabric, and that of SOFTRDMA_FABRIC_SECRET at the program.",
		"Give both the same file.",
		localClause},
	reason.FabricRemoteUnknown: {
		"A datagram at the fabric's UDP port belongs to no session and opens none: it was late, or another program sent it.",
		"Whether a program or the fabric has ended at that moment.",
		"Nothing, if so. Otherwise find out who sends to this UDP port.",
		localClause},
	reason.FabricRemoteSilent: {
		"No fabric listens at the address, its process has ended, or the network between loses all packets.",
		"Whether `softrdma fabric up --attach` runs there, and whether UDP packets pass between the hosts.",
		"Start the fabric, or correct the address: a port that is open comes back by itself.",
		localClause},
	reason.FabricRemoteClosed: {
		"The program or the fabric at the other end closed the attachment. The number found is that of its reason.",
		"The output of the fabric.",
		"Nothing, if it ended on purpose. Otherwise do what its output says.",
		localClause},
	reason.FabricRemoteFull: {
		"Too many programs of other hosts are attached or ask for a port at once, or the fabric's process has no free descriptors.",
		"How many programs attach to this fabric, and its limit of open files (`ulimit -n`).",
		"Try again later, or raise the limit.",
		localClause},
	reason.FabricBufferFull: {
		"The fabric was made without flow control, and packets came faster than the node passed them on.",
		"The senders' rates, and the places where links of different speed or several senders meet.",
		"Make the fabric with credits, or let the senders slow down: transports send lost packets again.",
		"no clause: InfiniBand's links have flow control"},
})
