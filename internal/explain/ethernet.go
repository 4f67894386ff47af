package explain

import "softrdma/internal/reason"

// These texts explain why an Ethernet fabric drops a frame, and what the ends of a link disagree on.
var _ = explain(map[reason.Reason]text{
	reason.EthernetLength: {
		"The frame ends before its Ethernet, IP or UDP header does.",
		"The host that sent the frame.",
		"Repair the sender.",
		"802.3 3.2"},
	reason.EthernetLong: {
		"The frame is longer than the MTU of the port allows.",
		"The MTU of every port and host along the path.",
		"Set the same MTU everywhere, or lower that of the sender.",
		"802.3 3.2.7"},
	reason.EthernetVLAN: {
		"The port is not a member of the frame's VLAN, so it neither receives nor sends such frames.",
		"The VLANs of both ends of the link, and the tag of the frame.",
		"Add the VLAN to the port, or correct the sender's tag.",
		"802.1Q 8.6.2"},
	reason.EthernetReserved: {
		"Addresses from 01-80-C2-00-00-00 to 01-80-C2-00-00-0F are for the two ends of one link: pauses, LLDP and similar protocols.",
		"The protocol of the frame (its EtherType).",
		"Nothing: this is expected.",
		"802.1Q 8.6.3"},
	reason.EthernetLoop: {
		"The destination is behind the port at which the frame arrived, so no switch needs to forward it.",
		"Whether the address has moved, or two hosts have the same one.",
		"Nothing, if it happens once. Otherwise give each host its own address.",
		"802.1Q 8.6.1"},
	reason.EthernetRoute: {
		"The frame is for the switch's own address, and the switch has no route for the IP address in it.",
		"The routes of the switch, and the address that the sender used.",
		"Add a route, or correct the address.",
		"RFC 1812 5.2.4"},
	reason.EthernetHops: {
		"Each switch that routes a packet lowers its hop limit. At 0 the packet ends.",
		"Routes that lead in a circle, and the hop limit of the sender.",
		"Repair the routes, or raise the hop limit.",
		"RFC 1812 5.3.1"},
	reason.EthernetStorm: {
		"Storm control limits the rate of broadcast, multicast and unknown unicast frames of a port.",
		"A loop of links, a host that broadcasts much, or addresses that the switch has forgotten.",
		"Remove the loop, or raise the limit.",
		"no clause: switches have this in common"},
	reason.EthernetBufferFull: {
		"Lossy frames share a part of the switch's buffer. The more of it is in use, the less each port and priority may take.",
		"The senders' rates, queue peaks of the ports, and the dynamic threshold (alpha).",
		"Let senders slow down (ECN), raise alpha, or make the priority lossless at every hop.",
		"802.1Q 8.6.7"},
	reason.EthernetQueueFull: {
		"The queue of a lossy priority is longer than its share of the buffer.",
		"The queue's peak and the senders that meet at this port.",
		"Let senders slow down (ECN), raise alpha, or make the priority lossless at every hop.",
		"802.1Q 8.6.7"},
	reason.EthernetEarly: {
		"The queue is so long that frames are marked. This one cannot be marked, because its sender does not use ECN.",
		"The ECN bits of the sender's packets, and the thresholds of the queue.",
		"Let the sender use ECN, or give it a queue without early drops.",
		"RFC 3168 5"},
	reason.EthernetHeadroom: {
		"The port had paused the priority, and the frames that were still under way did not fit into its headroom.",
		"The length and speed of the cable, the MTU, and whether the neighbor has PFC for this priority.",
		"Give the port the headroom of its cable, or enable the priority's PFC at the neighbor.",
		"802.1Q 36.1"},
	reason.EthernetPauseStorm: {
		"The neighbor paused the priority without end. The watchdog of the port discards what waits, so that other frames pass.",
		"The neighbor: a host that receives nothing, or a cycle of links whose pauses wait for each other.",
		"Repair or restart the neighbor; break the cycle with other routes or priorities.",
		"no clause: switches have this in common"},
	reason.EthernetLinkDown: {
		"The link of the port is down, or went down while the frame was under way or waited.",
		"The state of the link, and whether the routes avoid it.",
		"Repair the link: transports send lost packets again.",
		"802.1Q 8.6.1"},
	reason.EthernetForeign: {
		"A switch that does not know where a host is floods its frames, so others receive them.",
		"Whether the host has sent anything, from which switches learn.",
		"Nothing: this is expected at times.",
		"802.1Q 8.8"},
	reason.EthernetLLDP: {
		"The frame of LLDP has elements that are missing, in the wrong order, or longer than the frame.",
		"The neighbor, and what it says about itself (`tshark -Y lldp -V`).",
		"Update or repair the neighbor.",
		"802.1AB 9.2.7.7"},
	reason.EthernetMismatchPFC: {
		"Neither end takes the other's setting. A priority that is lossless at one end only loses frames, or pauses a port that does not react.",
		"The PFC configuration of both ends, and which of them is willing.",
		"Set the same lossless priorities at both ends, or make one of them willing.",
		"802.1Q 38.4.2"},
	reason.EthernetMismatchETS: {
		"This end does not take what the neighbor recommends, so the link is shared differently in its two directions.",
		"The ETS configuration of both ends, and which of them is willing.",
		"Set the same shares at both ends, or make one of them willing.",
		"802.1Q 38.4.1"},
	reason.EthernetMismatchApplication: {
		"The two ends give frames of one application different priorities, of which perhaps only one is lossless.",
		"The application priorities of both ends, and which of them is willing.",
		"Set the same priority at both ends, or make one of them willing.",
		"802.1Q 38.4.1"},
	reason.EthernetDatagram: {
		"The port of a host has a network stack for RoCE v1, and for UDP and TCP without fragments and IP options, and a program sends only what its device does. This is something else.",
		"What sends it (`softrdma fabric counters`, a capture at the sender).",
		"Use RoCE or iWARP between the hosts of the fabric, or a host with a network stack of its own (`softrdma fabric tap`).",
		"annex A17.3.1.1, A17.3.2.2"},
	reason.EthernetNobody: {
		"The frame is for a host at whose port no program has the service (0: RoCE v2, 1: RoCE v1, 2: iWARP) and the address: it has ended, or has not begun.",
		"`softrdma devices`, which lists the hosts of the fabric with their programs.",
		"Open the device at that host (`-d eth:FABRIC/HOST`) before others send to it.",
		"no clause: an adapter that is off answers nothing"},
	reason.EthernetCheck: {
		"The cable has faults that `softrdma fabric faults` gave it: a bit of the frame flipped, or a rule lost the frame.",
		"`softrdma fabric faults`, which lists the cables with faults, and the errors of `softrdma fabric links`.",
		"End the faults with `softrdma fabric faults PORT --none`.",
		"802.3 3.2.9"},
	reason.EthernetPrefix: {
		"Switches route between the two fabrics by the prefixes of their hosts' addresses, so these must not overlap. Without `--network` each fabric has 10.0.0.0/8.",
		"The addresses of both fabrics (`softrdma fabric status`).",
		"Give each fabric a prefix of its own (`softrdma fabric up --ethernet --network 10.1.0.0/16`).",
		localClause},
	reason.EthernetTelemetry: {
		"HPCC needs to know of each link how fast it is and what waits in front of it. The network that a trunk uses, or that leads to a program on another host, tells neither. With the telemetry of the switches only, HPCC would fill that part of the path without end, so the packet continues without it.",
		"Which senders use the control `hpcc`: they count CONGESTION_UNINFORMED, and are a window on such paths.",
		"Choose `window`, `dcqcn` or `swift` for connections that leave the process of a fabric (docs/congestion.md).",
		localClause},
})
