package explain

import "softrdma/internal/reason"

// These texts explain what the communication manager drops, rejects and
// abandons.
var _ = explain(map[reason.Reason]text{
	reason.CMService: {
		"A peer requests a service ID (a port in a port space) on which no program listens on this device.",
		"Whether the server runs, its port and its port space (TCP, UDP, IB), and the address that it is bound to.",
		"Start the server, or connect to its port.",
		"IBTA 12.6.7.2, 12.7.3"},
	reason.CMTransport: {
		"A peer requests a reliable datagram or an XRC connection.",
		"The queue pair type that the peer's program uses.",
		"Use RC or UC.",
		"IBTA 12.6.5, 12.6.7.2"},
	reason.CMGID: {
		"The primary path of a connection request has an address that the receiving device does not have.",
		"Address translation between the two ends, and the addresses of both devices.",
		"Connect the two ends without address translation, or encrypt (--psk-file).",
		"IBTA 12.6.5, 12.6.7.2"},
	reason.CMPeerGID: {
		"The sender's GID in a connection request is not a unicast address, or its address family differs from the device's.",
		"The address that the peer's program is bound to.",
		"Bind the peer to an address of the device's family.",
		"IBTA 12.6.5, annex A17.4.1.1"},
	reason.CMMTU: {
		"A peer requests a path MTU that is larger than this device's interface carries, or invalid.",
		"The MTU of the interfaces on both ends and of the path between them.",
		"Nothing if the peer is softrdma: it repeats the request with the MTU in the rejection. Otherwise set the same interface MTU on both ends, or request the smaller path MTU.",
		"IBTA 12.6.5, 12.6.7.2"},
	reason.CMPKey: {
		"A peer requests a connection in a partition of which this port is no member. A port of an InfiniBand fabric is a member of those in its table, other devices of the default partition (0xffff) alone.",
		"The P_Key that the peer's program uses. The table of a fabric's port: smpquery pkeys.",
		"Use the default partition, or make both ports members of the partition at the subnet manager.",
		"IBTA 12.6.5, 10.9"},
	reason.CMBacklog: {
		"Requests arrive faster than the program accepts or rejects them. This one is dropped, and the peer repeats it later.",
		"The backlog that the program listens with, and what it does between requests.",
		"Listen with a longer backlog, and accept in a dedicated loop.",
		"IBTA 12.9.8.3.1"},
	reason.CMChallenge: {
		"Requests arrive faster than their senders confirm connections, so some may be forged. Before the program sees this request, its sender has to answer a message to its address, which takes one round trip.",
		"The counter over time, and a capture of messages to queue pair 1: which addresses they come from, and whether these exist.",
		"Nothing if it is rare. Many at once are either a burst of clients, which is harmless, or a flood: filter forged source addresses in the network.",
		"IBTA 12.6.10, 12.9.8"},
	reason.CMUnproven: {
		"The sender of a request did not answer a message to its address: the address was forged, or the answer was lost. Or too many other requests arrived while this one waited.",
		"A capture of messages to queue pair 1: which addresses DREQs go to, and which of them answer with a DREP.",
		"Nothing if addresses are forged. A peer that never answers such messages is admitted when it repeats its request.",
		"IBTA 12.6.10, 12.9.8"},
	reason.CMShare: {
		"The source (an IPv4 address, or the /64 prefix of an IPv6 address) already has the maximum number of connections being established, and none of them was completed while this request waited.",
		"Whether the program accepts fast enough, and whether the source's clients confirm their connections or only send requests, which is a sign of an attack.",
		"Accept in a dedicated loop; spread the connections of many clients on one host over a longer time. The peer repeats the request.",
		"IBTA 12.9.8.3.1"},
	reason.CMEvicted: {
		"The maximum number of connections were being established. This one was the oldest whose peer had not confirmed the reply, so it was rejected to admit a new request.",
		"The counters CM_CHALLENGE and CM_SHARE, which show a flood of requests from existing addresses.",
		"Filter the flood. A peer that was only slow can connect again.",
		"IBTA 12.6.7.2, 12.9.8.7"},
	reason.CMAnswerRate: {
		"Messages for unknown connections arrive faster than the limit for answering them. The limit exists because the answers to forged messages would go to a victim.",
		"A capture of messages to queue pair 1: which messages, and from which addresses.",
		"Nothing if it is rare: a peer that waits for the answer repeats its message. Otherwise find the sender.",
		"IBTA 12.6.7.2"},
	reason.CMCommID: {
		"A message belongs to a connection that this end does not know: the connection has ended, or an earlier process established it.",
		"Whether the program restarted or closed the connection; whether messages arrive long after they were sent.",
		"Nothing if it is rare: the peer is informed if the specification defines an answer.",
		"IBTA 12.6.7.2, 12.9.8"},
	reason.CMSource: {
		"A message with a connection's communication IDs came from an address other than the peer's: it is forged, or the peer changed its address.",
		"A capture of messages to queue pair 1, and the addresses of the peer's interface.",
		"Make the peer send from the address that it connected from.",
		"IBTA 12.9.8"},
	reason.CMState: {
		"The connection's state does not allow the call or the message; for example, the program accepts a request that the peer has withdrawn.",
		"The events of the connection before the call: a reject, a timeout or a disconnect may have occurred.",
		"Handle the events of a connection in order, and stop using it after an event that ends it.",
		"IBTA 12.9.5, 12.9.6"},
	reason.CMDuplicate: {
		"A message arrived twice: the answer was lost or late, or the network duplicated the message.",
		"Whether the program answers in time: the peer repeats the message after its response timeout.",
		"Nothing if it is rare. Otherwise answer sooner.",
		"IBTA 12.9.8.3.1"},
	reason.CMQPN: {
		"A disconnect request has a queue pair number that is not the connection's.",
		"A capture: a peer that restarted, or a forged message.",
		"Nothing: the message is dropped.",
		"IBTA 12.6.10"},
	reason.CMStale: {
		"The peer requests a connection for a queue pair that, for this end, is still connected: the peer's process ended without a disconnect. The new request is rejected, and the old connection is closed.",
		"Whether the peer's process was killed.",
		"Connect once more: the old connection is closed by then.",
		"IBTA 12.4.1, 12.9.8.3.1"},
	reason.CMSimultaneous: {
		"Both ends sent a request for the same service at the same time; the end with the greater GUID, or at equal GUIDs the greater QPN, keeps the active role.",
		"Nothing: this is how the two ends agree on their roles.",
		"Nothing: the connection is established.",
		"IBTA 12.10.4"},
	reason.CMAlternatePath: {
		"A peer tries to load or use an alternate path for a connection; RoCE has no alternate paths.",
		"Whether the peer's program asks for automatic path migration.",
		"Do not use alternate paths over RoCE.",
		"IBTA 12.8, annex A16.7"},
	reason.CMReqTimeout: {
		"The peer's communication manager never answered the request: its host is off or receives no RoCE v2 packets, or its program never accepts.",
		"Whether the peer has an RDMA device on the address (`softrdma devices`, `rdma link` on Linux); firewalls on UDP port 4791; a capture on both hosts.",
		"Open UDP port 4791, and create the RDMA device on the peer.",
		"IBTA 12.9.8.3.1, 12.9.8.7"},
	reason.CMRepTimeout: {
		"This end accepted the request, but the peer sent neither an RTU nor data: the peer has ended, or does not receive the reply.",
		"Whether the peer's process runs; firewalls on UDP port 4791 in the direction to the peer.",
		"Connect again from the peer.",
		"IBTA 12.9.8.3.1, 12.9.8.7"},
	reason.CMDreqTimeout: {
		"The peer did not confirm the disconnect: its host or its process is gone. The connection ends nevertheless.",
		"Whether the peer's host is reachable.",
		"Nothing: the queue pair can be used again after the timewait period.",
		"IBTA 12.9.8.3.1, 12.9.8.7"},
	reason.CMSIDRTimeout: {
		"The peer's communication manager did not answer the request for the queue pair that serves the port.",
		"Whether the peer has an RDMA device on the address; firewalls on UDP port 4791; a capture on both hosts.",
		"Open UDP port 4791, and create the RDMA device on the peer.",
		"IBTA 12.11"},
	reason.CMReleased: {
		"A connection was released before it was made: the program of the end that gives this reason ended, closed its listener, or destroyed the request or response without an answer.",
		"That program's own messages, and whether it still runs.",
		"Connect again when the program runs; a program that refuses on purpose calls rdma_reject, whose private data may say why.",
		"IBTA 12.6.7.2, no clause for the reason: between softrdma ends only"},
	reason.CMEnded: {
		"The program at the end that gives this reason ended the connection: it called rdma_disconnect or closed its end. Its queue pair had not failed, as far as its device knows: that of a program of softrdma exec may have, in the program's process.",
		"That program's own messages: why it has finished.",
		"Nothing, if the program had finished; otherwise let it say in a message of its own why it leaves.",
		"IBTA 12.9.7, no clause for the reason: between softrdma ends only"},
	reason.CMAbandoned: {
		"The program at the end that gives this reason did not disconnect: it ended, was killed, or destroyed the id. The device disconnected for it.",
		"The exit status and the last messages of that program; the kernel's log if it was killed for its memory.",
		"Find out why the program ended; a program that ends on purpose calls rdma_disconnect.",
		"IBTA 12.9.7, no clause for the reason: between softrdma ends only"},
	reason.CMRejected: {
		"The peer answered with a REJ; the error contains its reason in words.",
		"The reason: 8 means no listener on the port, 28 a rejection by the peer's program, 10 a connection of an earlier process, 4 a timeout at the peer.",
		"Fix the cause that the reason names, on the peer.",
		"IBTA 12.6.7, 12.6.7.2"},
	reason.CMSIDRRefused: {
		"The peer answered the service ID resolution request with a status other than success.",
		"Whether a program on the peer listens on the port in the UDP port space.",
		"Start the server, or use its port.",
		"IBTA 12.11.2"},
	reason.CMPrivateData: {
		"The program passed more private data than the message has room for: 92 bytes in a REQ, of which the IP CM service uses 36, and 196 in a REP.",
		"The length of the private data in connect, accept or reject.",
		"Send long data over the connection instead.",
		"IBTA 12.6.5 to 12.6.11"},
	reason.CMServiceBusy: {
		"Another listener on this device already uses the service ID.",
		"Which program listens on the port in this port space.",
		"Use another port, or close the other listener.",
		"IBTA 12.7.3"},
	reason.CMParameter: {
		"A parameter of a call does not fit its field: 24 bits for QPN and PSN, 5 for timeouts, 4 for message retries, 3 for retry counts.",
		"The parameters of the call that failed.",
		"Pass a value in the valid range.",
		"IBTA 12.6.5, 12.6.8"},
	reason.CMIPHeader: {
		"The private data of a request for an IP port does not begin with the IP addresses header of annex A11: it has another major version, or neither IPv4 nor IPv6.",
		"Which library the peer uses: a program that calls the communication manager without rdma_cm sends no such header.",
		"Connect through librdmacm, rdma_cm or softrdma on both sides.",
		"IBTA A11.3.2"},
	reason.CMIPAddress: {
		"The destination IP address in a request is not the listener's, or the source IP address is not a unicast address.",
		"The address that the server is bound to, the address that the client connects to, and address translation between them: the request contains the addresses too, not only the packet's header.",
		"Bind the server to the address that clients use, or to the unspecified address; use no address translation.",
		"IBTA A11.3.2"},
	reason.CMServiceType: {
		"A peer requests a connection of another type than the listener's, or a service ID resolution from a listener for connections.",
		"Port space and queue pair type on both sides.",
		"Use the same port space and type.",
		"IBTA 12.6.5, A11.3.1"},
	reason.CMQKey: {
		"The Q_Key of a datagram peer's queue pair differs from the Q_Key that this id's queue pair already has.",
		"The Q_Keys that both programs pass; the default on both sides is the port space's, 0x01234567.",
		"Use the same Q_Key on both sides, or a separate id for each Q_Key.",
		"IBTA 12.11.2"},
})
