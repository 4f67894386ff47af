package explain

import "softrdma/internal/reason"

// requester explains what ends or delays a request at the end that posted it.
var requester = map[reason.Reason]text{
	reason.RetryExceeded: {
		"The peer never acknowledged: it is gone, its queue pair does not take packets, or packets or acknowledges do not arrive.",
		"Whether the peer's process lives and its queue pair is in RTR or RTS; dest_qp_num and the GID on both ends; firewalls on UDP port 4791; a capture on both hosts.",
		"Open UDP port 4791, exchange QPN, PSN and GID again, and raise timeout or retry_cnt where the path is slow.",
		"IBTA 9.7.6.1.3, 9.9.2"},
	reason.RNRRetryExceeded: {
		"The peer answered that it has no receive posted, more often than rnr_retry allows.",
		"How the peer posts receives, and rnr_retry of this end.",
		"Let the peer post more receives; set rnr_retry to 7 to wait for ever.",
		"IBTA 9.7.5.2.8, 9.9.2"},
	reason.NAKInvalidRequest: {
		"The peer found the request invalid: an operation that its queue pair does not allow, a message longer than its receive, a wrong sequence or length.",
		"qp_access_flags, max_dest_rd_atomic, path_mtu and the length of receives on the peer; its own reason, when it is softrdma too.",
		"Allow the operation on the peer's queue pair, and make receives as long as messages.",
		"IBTA 9.7.5.2, 9.9.2"},
	reason.NAKRemoteAccess: {
		"The peer refused access to its memory: the R_Key, the bounds or the rights are wrong.",
		"R_Key, remote address and length of this work request; registration and access flags on the peer; its own reason, when it is softrdma too.",
		"Register the memory with the remote right, and send address and key as registered.",
		"IBTA 9.7.5.2.4, 9.9.2"},
	reason.NAKRemoteOperational: {
		"The peer could not carry out the request for a reason of its own, such as a receive whose scatter list it cannot write.",
		"The completions and the asynchronous events of the peer.",
		"Mend the peer's receives: L_Key, bounds and LOCAL_WRITE.",
		"IBTA 9.7.5.2, 9.9.2"},
	reason.NAKReserved: {
		"The peer answered with a NAK code that the specification reserves, or that belongs to RD.",
		"A capture of the acknowledge.",
		"Update the peer's driver or firmware.",
		"IBTA 9.7.5.2"},
	reason.ResponseLength: {
		"A READ response is not as long as its place in the READ wants.",
		"path_mtu of both queue pairs.",
		"Set the same path_mtu on both ends.",
		"IBTA 9.7.6, 9.9.2"},
	reason.ResponseUnexpected: {
		"A READ response or ATOMIC acknowledge does not answer a request that waits for it.",
		"A capture: a second peer with the same queue pair number, a peer that restarted, or a late double.",
		"Use new random PSNs for each connection; update the peer where it answers wrongly.",
		"IBTA 9.7.6, 9.9.2"},
	reason.ResponseGhost: {
		"An acknowledge names a PSN that was never sent: it is from an earlier connection of the same queue pair numbers, or forged.",
		"Whether the queue pair was reset and used again; sq_psn of both connections.",
		"Nothing: the packet is dropped. Use random PSNs.",
		"IBTA 9.7.6, 9.9.2"},
	reason.LocalKey: {
		"An entry of the gather or scatter list names no memory of the queue pair's protection domain.",
		"lkey of each entry, the PD of region and queue pair, and whether the region was deregistered.",
		"Register in the same PD and keep the region until the completion.",
		"IBTA 10.6.3, 9.9.2"},
	reason.LocalBounds: {
		"An entry of the gather or scatter list reaches outside of its region.",
		"Address and length of each entry against the region's.",
		"Register the whole buffer, or shorten the entry.",
		"IBTA 10.6.3, 9.9.2"},
	reason.LocalAccess: {
		"Local memory lacks a right: READs and ATOMICs write into it and need LOCAL_WRITE (1), binds need MW_BIND (16).",
		"The access flags of the region named by lkey.",
		"Register with IBV_ACCESS_LOCAL_WRITE.",
		"IBTA 10.6.3, 9.9.2"},
	reason.LocalLength: {
		"The message is longer than the operation or the transport allows: 2^31 bytes, the path MTU on UD, 8 bytes on atomics, or the list's own length.",
		"The sum of the list's lengths, and the path MTU on UD.",
		"Split the message.",
		"IBTA C9-94, C10-93.1.1, 11.4.1.1"},
	reason.LocalOpcode: {
		"The queue pair's type does not offer this operation: UC has no READ and no ATOMIC, UD has SENDs only.",
		"opcode of the work request and qp_type.",
		"Use RC, or another operation.",
		"IBTA 9.4, 11.4.1.1"},
	reason.LocalQPState: {
		"The work request was posted, or the transition asked for, in a state that does not take it.",
		"The states that the queue pair went through; an error may have moved it to ERR or SQE.",
		"Post sends in RTS and receives from INIT on; after an error go through RESET again.",
		"IBTA 10.3.1, 10.8.2"},
	reason.BindRefused: {
		"The window cannot be bound: wrong type or PD, bound already, a length of 0 on type 2, or a key of another index.",
		"The window's type, the region's PD, and the new R_Key (only its lowest 8 bits may change).",
		"Invalidate a type 2 window before binding it again, and make the new key with ibv_inc_rkey.",
		"IBTA 10.6.7.2"},
	reason.Flushed: {
		"The queue pair went to ERR before this work request was done; it was not carried out, or nobody knows.",
		"The first completion of this queue pair with another status than flushed: it holds the cause. Without one the program, or the peer's disconnect, moved it to ERR.",
		"Mend the cause of the first error; then RESET and connect again.",
		"IBTA 10.3.1, 11.6.2"},
	reason.ResponseStale: {
		"A response answers something that is answered already: a double, or the answer to a request that was sent again.",
		"Whether requests are sent again often, and the peer's delay against timeout.",
		"Nothing when rare. Else raise timeout.",
		"IBTA 9.7.6, 9.9.2"},
	reason.ResponseGap: {
		"A response to a READ or ATOMIC did not arrive while a later one did; the rest is asked for again.",
		"Counters of drops on this host: socket receive buffer and adapter rings.",
		"Raise net.core.rmem_max, or have fewer or shorter READs in flight.",
		"IBTA 9.7.6, 9.9.2"},
	reason.ResponseOpcode: {
		"The response's opcode does not fit its request or its place in it: a First in the middle, or an ATOMIC acknowledge of a READ.",
		"path_mtu of both queue pairs, and a capture.",
		"Set the same path_mtu on both ends; update the peer's driver or firmware.",
		"IBTA 9.7.6, 9.9.2"},
	reason.NAKSequence: {
		"The peer missed a packet and asks for it again; everything from it on is sent again.",
		"Counters of drops on the peer's host and on the path.",
		"Raise net.core.rmem_max on the peer, lower the number of bytes in flight, or mend the path.",
		"IBTA 9.7.5.2, 9.9.2"},
	reason.NAKNotReady: {
		"The peer has no receive posted; the message is sent again after the time that it asks for.",
		"How the peer posts receives.",
		"Let the peer post more receives before it needs them.",
		"IBTA 9.7.5.2.8"},
	reason.AckTimeout: {
		"No acknowledge came within the local timeout; what is unacknowledged is sent again.",
		"Whether the peer is busy or gone, and timeout (4.096 µs times 2 to its power) against the path's delay.",
		"Raise timeout; 14 is 67 ms.",
		"IBTA 9.7.6.1.3"},
	reason.PacketRepeated: {
		"The peer, which is softrdma too, told which packets it misses, and those alone are sent again.",
		"Counters of drops on the peer's host and on the path.",
		"Nothing: this costs one packet per loss. Mend the path, or raise net.core.rmem_max on the peer, where there are many.",
		"IBTA 9.7.5.1, 9.7.6"},
	reason.RepeatNeedless: {
		"The peer got packets twice: they were thought lost and were late, the acknowledge was lost, or the network doubled them.",
		"Whether the path reorders packets: several routes, or queues of a bonded interface.",
		"Nothing: the wait for late packets adapts itself.",
		"RFC 8985"},
	reason.TailProbe: {
		"No answer came for about two round trips, so the last packet was sent again: its answer tells what was lost.",
		"Whether the peer is busy, and counters of drops on the path.",
		"Nothing: this finds losses before the local timeout does.",
		"RFC 8985"},
	reason.PeerProbe: {
		"The peer has said nothing for a while, or the network says that it is gone. It is asked by an empty duplicate that it has to acknowledge, over iWARP by a READ of no bytes.",
		"Nothing while the peer answers.",
		"Nothing: idle connections with PeerTimeout are asked like this.",
		"IBTA 9.7.5.1.1, C9-105, RFC 6581 9.2"},
	reason.PeerSilent: {
		"The peer said nothing for as long as PeerTimeout allows, though it was asked three times. Its process is stopped, its host is gone, or the path is cut.",
		"Whether the peer's process runs (a stopped one has state T in ps), its host and the network.",
		"Connect again; a longer PeerTimeout bears longer pauses.",
		"no clause: local to this end"},
	reason.CongestionNotified: {
		"The peer got packets that a router had marked for congestion, and asks for less.",
		"Queues of the switches on the path; who else uses them.",
		"Nothing: the rate recovers by itself.",
		"annex A17.9.3"},
	reason.HeldUnsent: {
		"The peer says that it holds a request of this end behind a lost one, but this end never sent it. It was forged; the peer is told to drop it with the next packet.",
		"Somebody forges packets of this connection, from the right address and port.",
		"Find the sender with `softrdma capture` at the peer. An attacker who gets this far can forge more: use iWARP over TLS on this network.",
		"IBTA 9.7.5.1"},
	reason.CongestionPSN: {
		"A congestion notification of a softrdma peer names the marked packet, and this one names none that this end sent recently. It was ignored.",
		"Somebody forges notifications, or this one is very late.",
		"Nothing for single ones. For many, find who sends them with `softrdma capture`.",
		"annex A17.9.3"},
	reason.CongestionIgnored: {
		"A congestion notification came for a queue pair that is gone, or that has no congestion control: a datagram's, or one that chose none.",
		"The control of the queue pair that the packets came from; whether it was destroyed while packets were on their way.",
		"Nothing, if the queue pair is gone. Else choose a control that obeys marks (docs/congestion.md), or let nothing mark its packets.",
		"annex A17.9.3"},
}
