package explain

import "softrdma/internal/reason"

// connections explains what the communication manager drops, rejects and gives
// up.
var connections = map[reason.Reason]text{
	reason.MADLength: {
		"A management datagram is not 256 bytes long.",
		"A capture of the packet to queue pair 1: something else than a communication manager sends there.",
		"Keep other traffic off queue pair 1.",
		"IBTA 13.4.2"},
	reason.MADVersion: {
		"The first byte of a management datagram is not 1, the only base version that InfiniBand defines.",
		"A capture: the datagram was damaged, or is Omni-Path's.",
		"Use a peer that speaks RoCE v2.",
		"IBTA 13.4.2"},
	reason.MADClass: {
		"A management datagram of another class than communication management (0x07), such as a query of counters.",
		"Which tool asks: perfquery, ibstat over the fabric and subnet managers have nobody to answer them here.",
		"Read counters with `softrdma` on the host itself.",
		"IBTA 13.4.4, 13.5.3"},
	reason.MADClassVersion: {
		"The peer's communication manager speaks another version of the messages than 2.",
		"The age of the peer's driver.",
		"Update the peer's driver.",
		"IBTA 12.6.1"},
	reason.MADMethod: {
		"A message of the communication manager with another method than Send.",
		"A capture of the packet and of the peer that sent it.",
		"Update the peer's driver.",
		"IBTA 12.6.1, 13.4.5"},
	reason.MADAttribute: {
		"A message of the communication manager that neither IBTA 1.3 nor Linux knows.",
		"A capture of the packet and of the peer that sent it.",
		"Update the peer's driver, or softrdma.",
		"IBTA 12.6.1"},
	reason.CMService: {
		"A peer asks for a service ID, that is a port of a port space, on which no program of this device listens.",
		"Whether the server runs, its port and its port space (TCP, UDP, IB), and the address that it bound.",
		"Start the server, or name its port.",
		"IBTA 12.6.7.2, 12.7.3"},
	reason.CMTransport: {
		"A peer asks for a reliable datagram or an XRC connection.",
		"The queue pair type that the peer's program uses.",
		"Use RC or UC.",
		"IBTA 12.6.5, 12.6.7.2"},
	reason.CMGID: {
		"The primary path of a connection request leads to another address than the device that received it.",
		"Address translation between the two ends, and the addresses of both devices.",
		"Let the two ends reach each other without address translation.",
		"IBTA 12.6.5, 12.6.7.2"},
	reason.CMPeerGID: {
		"The sender's own GID in a connection request is no unicast address, or of another family than the device's.",
		"The address that the peer's program bound.",
		"Let the peer bind an address of the same family as the device's.",
		"IBTA 12.6.5, annex A17.4.1.1"},
	reason.CMMTU: {
		"A peer asks for a longer path MTU than this device's interface carries, or for none at all.",
		"The MTU of the interfaces on both ends and of the path between them.",
		"Nothing where the peer is softrdma: it asks again with the MTU that the rejection names. Else set the same interface MTU on both ends, or ask for the smaller path MTU.",
		"IBTA 12.6.5, 12.6.7.2"},
	reason.CMPKey: {
		"A peer asks for a connection in another partition than the default one (0xffff).",
		"The P_Key that the peer's program bound.",
		"Use the default partition.",
		"IBTA 12.6.5, 10.9"},
	reason.CMBacklog: {
		"Requests come faster than the program accepts or rejects them; this one is dropped, and the peer sends it again later.",
		"The backlog that the program listens with, and what it does between requests.",
		"Listen with a longer backlog, and accept from a loop of its own.",
		"IBTA 12.9.8.3.1"},
	reason.CMChallenge: {
		"Requests come faster than their senders confirm connections, or some were forged. So this one waits, unknown to the program, until its sender has answered a message to the address that it came from, which takes one round trip.",
		"The counter over time, and a capture of messages to queue pair 1: from which addresses, and whether these exist.",
		"Nothing when rare. Many at a time are a burst of clients, which does no harm, or a flood: filter forged source addresses in the network.",
		"IBTA 12.6.10, 12.9.8"},
	reason.CMUnproven: {
		"The sender of a request did not answer a message to the address that the request came from, or more requests came meanwhile than are kept. Its address was forged, or the answer was lost.",
		"A capture of messages to queue pair 1: to which addresses DREQs go, and which of them answer by a DREP.",
		"Nothing where addresses are forged. A peer that never answers is admitted when it repeats its request.",
		"IBTA 12.6.10, 12.9.8"},
	reason.CMShare: {
		"A source (an IPv4 address, or the /64 of an IPv6 address) has as many connections that are being established as it may have, and a request of it waited in vain for one of them to be done.",
		"Whether the program accepts fast enough, and whether the clients of the source confirm: they, or somebody in their name, send requests only.",
		"Accept from a loop of its own; let many clients of one host connect over a longer time. The request is sent again.",
		"IBTA 12.9.8.3.1"},
	reason.CMEvicted: {
		"As many connections were being established as there may be, and the peer of this one, the oldest, had not confirmed the reply. It was rejected to make room.",
		"The counters CM_CHALLENGE and CM_SHARE: a flood of requests from addresses that exist.",
		"Filter the flood. A peer that was only slow connects again.",
		"IBTA 12.6.7.2, 12.9.8.7"},
	reason.CMAnswerRate: {
		"Messages of connections that do not exist come so fast that not all of them are answered: with forged sources the answers would hit somebody else.",
		"A capture of messages to queue pair 1: which ones, and from where.",
		"Nothing when rare: a peer that waits for the answer asks again. Otherwise find the sender.",
		"IBTA 12.6.7.2"},
	reason.CMCommID: {
		"A message names a connection that this end does not know: it ended, or this process is another than the one that it was made with.",
		"Whether the program restarted or closed the connection; whether messages arrive long after they were sent.",
		"Nothing when rare: the peer is told where the specification has an answer.",
		"IBTA 12.6.7.2, 12.9.8"},
	reason.CMSource: {
		"A message with a connection's communication IDs came from another address than its peer's: forged, or from a peer that changed its address.",
		"A capture of messages to queue pair 1, and the addresses of the peer's interface.",
		"Let the peer send from the address that it connected from.",
		"IBTA 12.9.8"},
	reason.CMState: {
		"A call or a message does not fit what the connection is doing, such as an accept of a request that the peer took back.",
		"The events of the connection before the call: a reject, a timeout or a disconnect may have come in between.",
		"Handle the events of a connection in their order, and end it when one says that it is over.",
		"IBTA 12.9.5, 12.9.6"},
	reason.CMDuplicate: {
		"A message arrived twice: the answer was lost or late, or the network doubled it.",
		"Whether the program answers in time: the peer sends again after its response timeout.",
		"Nothing when rare. Else answer sooner.",
		"IBTA 12.9.8.3.1"},
	reason.CMQPN: {
		"A disconnect names another queue pair than the connection's.",
		"A capture: a peer that restarted, or a forged message.",
		"Nothing: the message is dropped.",
		"IBTA 12.6.10"},
	reason.CMStale: {
		"The peer asks for a connection with a queue pair that this end holds another connection with: the peer's process ended without a disconnect. The new request is rejected, and the old connection is ended.",
		"Whether the peer's process was killed.",
		"Connect once more: the old connection is gone then.",
		"IBTA 12.4.1, 12.9.8.3.1"},
	reason.CMSimultaneous: {
		"Both ends sent a request for the same service at the same time; the end with the greater GUID, or else the greater QPN, stays the asking one.",
		"Nothing: this is how both learn their parts.",
		"Nothing: the connection comes about.",
		"IBTA 12.10.4"},
	reason.CMAlternatePath: {
		"A peer wants to load or to use a second path for a connection; RoCE has none.",
		"Whether the peer's program asks for automatic path migration.",
		"Do not use alternate paths over RoCE.",
		"IBTA 12.8, annex A16.7"},
	reason.CMReqTimeout: {
		"The peer's communication manager never answered the request: the host is off, takes no RoCE v2 packets, or its program never accepts.",
		"Whether the peer has an RDMA device on the address (`softrdma devices`, `rdma link` on Linux); firewalls on UDP port 4791; a capture on both hosts.",
		"Open UDP port 4791, and make the RDMA device on the peer.",
		"IBTA 12.9.8.3.1, 12.9.8.7"},
	reason.CMRepTimeout: {
		"This end accepted, and neither an RTU nor data came from the peer that asked: it ended in between, or answers do not reach it.",
		"Whether the peer's process lives; firewalls on UDP port 4791 in the direction to the peer.",
		"Let the peer connect again.",
		"IBTA 12.9.8.3.1, 12.9.8.7"},
	reason.CMDreqTimeout: {
		"The peer did not confirm the disconnect: its host or its process is gone. The connection ends all the same.",
		"Whether the peer's host is reachable.",
		"Nothing: the queue pair can be used again after the time wait.",
		"IBTA 12.9.8.3.1, 12.9.8.7"},
	reason.CMSIDRTimeout: {
		"The peer's communication manager never answered which queue pair serves the port.",
		"Whether the peer has an RDMA device on the address; firewalls on UDP port 4791; a capture on both hosts.",
		"Open UDP port 4791, and make the RDMA device on the peer.",
		"IBTA 12.11"},
	reason.CMRejected: {
		"The peer answered with a REJ; its reason is given in words with the error.",
		"The reason: 8 is no listener on the port, 28 the program on the peer, 10 a connection of an earlier process, 4 a peer that gave up.",
		"Mend what the reason names, on the peer.",
		"IBTA 12.6.7, 12.6.7.2"},
	reason.CMSIDRRefused: {
		"The peer answered the question for a queue pair with a status other than success.",
		"Whether a program on the peer listens on the port in the UDP port space.",
		"Start the server, or name its port.",
		"IBTA 12.11.2"},
	reason.CMPrivateData: {
		"The program gave more private data than the message has room for: 92 bytes in a REQ, of which the IP CM service takes 36, and 196 in a REP.",
		"The length of the private data in connect, accept or reject.",
		"Send long data over the connection.",
		"IBTA 12.6.5 to 12.6.11"},
	reason.CMServiceBusy: {
		"Another listener of this device has the service ID.",
		"Which program listens on the port in this port space.",
		"Use another port, or end the other listener.",
		"IBTA 12.7.3"},
	reason.CMParameter: {
		"A number in the parameters of a call does not fit its field: 24 bits for QPN and PSN, 5 for timeouts, 4 for retries of messages, 3 for retry counts.",
		"The parameters of the call that failed.",
		"Give a number in the range.",
		"IBTA 12.6.5, 12.6.8"},
	reason.CMIPHeader: {
		"The private data of a request for an IP port does not begin with addresses as annex A11 lays them out: another major version, or neither IPv4 nor IPv6.",
		"Which library the peer uses: one that calls the communication manager without rdma_cm sends no such header.",
		"Connect through librdmacm, rdma_cm or softrdma on both sides.",
		"IBTA A11.3.2"},
	reason.CMIPAddress: {
		"A request names an IP address that the listener does not have, or comes from one that nobody can have.",
		"The address that the server bound, that which the client connects to, and address translation between them: addresses stand in the request as well as in the packet.",
		"Bind the address that clients use, or the unspecified one; use no address translation.",
		"IBTA A11.3.2"},
	reason.CMServiceType: {
		"A peer asks for a connection of another type than the listener's, or for a look-up where it takes connections.",
		"Port space and queue pair type on both sides.",
		"Use the same port space and type.",
		"IBTA 12.6.5, A11.3.1"},
	reason.CMQKey: {
		"The queue pair of a datagram peer has a Q_Key that differs from the one that this id's queue pair got already.",
		"The Q_Keys that both programs give; by default both have that of the port space, 0x01234567.",
		"Use one Q_Key on both sides, or an id of its own for each peer with another one.",
		"IBTA 12.11.2"},
}
