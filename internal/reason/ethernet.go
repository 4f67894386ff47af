package reason

// The reasons of Ethernet fabrics.
const (
	// Frames that a switch or a host's port drops.
	EthernetLength = ethernetRoom*roomSize + iota
	EthernetLong
	EthernetVLAN
	EthernetReserved
	EthernetLoop
	EthernetRoute
	EthernetHops
	EthernetStorm
	EthernetBufferFull
	EthernetQueueFull
	EthernetEarly
	EthernetHeadroom
	EthernetPauseStorm
	EthernetLinkDown
	EthernetForeign

	// LLDP and DCBX.
	EthernetLLDP
	EthernetMismatchPFC
	EthernetMismatchETS
	EthernetMismatchApplication

	// Frames that a host's port drops in front of a program.
	EthernetDatagram
	EthernetNobody
	EthernetCheck

	// A refusal of trunks between fabrics.
	EthernetPrefix

	// What a frame loses on its way to another process.
	EthernetTelemetry
)

const ethernetRoom Reason = 14

var _ = register(ethernetRoom, []row{
	{EthernetLength, "ETHERNET_LENGTH", "frame shorter than its headers: expected at least %d bytes, found %d"},
	{EthernetLong, "ETHERNET_LONG", "frame longer than the port takes: expected at most %d bytes, found %d"},
	{EthernetVLAN, "ETHERNET_VLAN", "frame of a VLAN that the port does not have: port's own VLAN %d, found %d"},
	{EthernetReserved, "ETHERNET_RESERVED", "frame to an address that no bridge forwards: expected the last byte above %#02x, found %#02x"},
	{EthernetLoop, "ETHERNET_LOOP", "frame would leave by the port at which it arrived: port %d, address %#012x"},
	{EthernetRoute, "ETHERNET_ROUTE", "no route for this address: %d routes, address ends with %#08x"},
	{EthernetHops, "ETHERNET_HOPS", "hop limit reached: expected at least %d, found %d"},
	{EthernetStorm, "ETHERNET_STORM", "more flooded frames than the port's storm control allows: room for %d bytes, found %d"},
	{EthernetBufferFull, "ETHERNET_BUFFER_FULL", "the switch's shared buffer has no room for the lossy frame: room for %d bytes, %d needed"},
	{EthernetQueueFull, "ETHERNET_QUEUE_FULL", "queue of the port full: limit of %d bytes, %d needed"},
	{EthernetEarly, "ETHERNET_EARLY", "frame without ECN dropped early, before the queue is full: begins at %d bytes, queue of %d bytes"},
	{EthernetHeadroom, "ETHERNET_HEADROOM", "headroom of a lossless priority too small: %d bytes, %d needed"},
	{EthernetPauseStorm, "ETHERNET_PAUSE_STORM", "the neighbor paused the priority for too long, its frames are discarded: limit of %d ns, found %d ns"},
	{EthernetLinkDown, "ETHERNET_LINK_DOWN", "frame for a port whose link is down: port %d, priority %d"},
	{EthernetForeign, "ETHERNET_FOREIGN", "frame to another host's address: own address %#012x, found %#012x"},

	{EthernetLLDP, "ETHERNET_LLDP", "malformed LLDP frame: expected %d, found %d"},
	{EthernetMismatchPFC, "ETHERNET_MISMATCH_PFC", "the ends of the link have different lossless priorities: here the set %#02x, at the neighbor %#02x"},
	{EthernetMismatchETS, "ETHERNET_MISMATCH_ETS", "the ends of the link share it differently among priorities: here %d percent for priority %d's class"},
	{EthernetMismatchApplication, "ETHERNET_MISMATCH_APPLICATION", "the ends of the link give an application different priorities: here priority %d, at the neighbor %d"},
	{EthernetDatagram, "ETHERNET_DATAGRAM", "the program at a host's port takes only its own protocol: expected protocol %d, found %d"},
	{EthernetNobody, "ETHERNET_NOBODY", "no program at the host's port takes the frame: service %d, port %d of UDP or TCP"},
	{EthernetCheck, "ETHERNET_CHECK", "the cable's faults took the frame, or flipped one of its bits so that the check failed: %d bytes, priority %d"},
	{EthernetPrefix, "ETHERNET_PREFIX", "the fabrics at the ends of the trunk have hosts with the same addresses: own ones from %#08x on, found ones from %#08x on"},
	{EthernetTelemetry, "ETHERNET_TELEMETRY", "the packet continues to another process without what switches told of their links: telemetry of %d links, of which %d can leave"},
}, nil)
