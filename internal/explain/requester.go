package explain

import "softrdma/internal/reason"

// These texts explain what fails or delays a request at the end that posted it.
var _ = explain(map[reason.Reason]text{
	reason.RetryExceeded: {
		"The peer no longer acknowledges, though it did before: it is gone, its queue pair does not accept packets, or packets or acknowledges do not arrive.",
		"Whether the peer's process runs and its queue pair is in RTR or RTS; dest_qp_num and the GID on both ends; firewalls on UDP port 4791; a capture on both hosts.",
		"Open UDP port 4791, exchange QPN, PSN and GID again, and raise timeout or retry_cnt if the path is slow.",
		"IBTA 9.7.6.1.3, 9.9.2"},
	reason.NeverAnswered: {
		"No answer of the peer has ever arrived on this connection: the address or the queue pair number is wrong, the peer's queue pair is not in RTR yet, or nothing gets through in one of the directions.",
		"dest_qp_num and the GID on both ends; whether the peer's queue pair is in RTR or RTS; firewalls on UDP port 4791; a capture on both hosts.",
		"Exchange QPN, PSN and GID before either end sends, and open UDP port 4791 in both directions.",
		"IBTA 9.7.6.1.3, 9.9.2"},
	reason.PeerReason: {
		"The peer, which is softrdma too, says why it is about to refuse a request, with the name of its own reason. The NAK follows, and the completion says both.",
		"The peer's reason: softrdma explain NAME.",
		"What the peer's reason asks for.",
		"no clause: between softrdma ends only"},
	reason.RNRRetryExceeded: {
		"The peer answered more often than rnr_retry allows that it has no receive posted.",
		"How the peer posts receives, and rnr_retry of this end.",
		"Let the peer post more receives; set rnr_retry to 7 to retry without limit.",
		"IBTA 9.7.5.2.8, 9.9.2"},
	reason.NAKInvalidRequest: {
		"The peer found the request invalid: an operation that its queue pair does not allow, a message longer than its receive, a wrong sequence or length.",
		"The peer's qp_access_flags, max_dest_rd_atomic, path_mtu and receive lengths; the peer's own reason if it is softrdma too.",
		"Allow the operation on the peer's queue pair, and make its receive buffers as long as the messages.",
		"IBTA 9.7.5.2, 9.9.2"},
	reason.NAKRemoteAccess: {
		"The peer refused access to its memory: the R_Key, the bounds or the rights are wrong.",
		"R_Key, remote address and length of this work request; registration and access flags on the peer; the peer's own reason if it is softrdma too.",
		"Register the memory with the remote access right, and send the address and key exactly as registered.",
		"IBTA 9.7.5.2.4, 9.9.2"},
	reason.NAKRemoteOperational: {
		"The peer had an error of its own; for example, it cannot write to the memory of its receive.",
		"The completions and the asynchronous events of the peer.",
		"Fix the peer's receives: L_Key, bounds and LOCAL_WRITE.",
		"IBTA 9.7.5.2, 9.9.2"},
	reason.NAKReserved: {
		"The peer answered with a NAK code that is reserved or belongs to RD.",
		"A capture of the acknowledge.",
		"Update the peer's driver or firmware.",
		"IBTA 9.7.5.2"},
	reason.ResponseLength: {
		"A READ response does not have the length that its place in the READ requires.",
		"path_mtu of both queue pairs.",
		"Set the same path_mtu on both ends.",
		"IBTA 9.7.6, 9.9.2"},
	reason.ResponseUnexpected: {
		"A READ response or ATOMIC acknowledge does not answer any outstanding request.",
		"A capture: a second peer with the same queue pair number, a peer that restarted, or a late duplicate.",
		"Use new random PSNs for each connection; update the peer if its answers are wrong.",
		"IBTA 9.7.6, 9.9.2"},
	reason.ResponseGhost: {
		"An acknowledge has a PSN that was never sent: it belongs to an earlier connection with the same queue pair numbers, or is forged.",
		"Whether the queue pair was reset and used again; sq_psn of both connections.",
		"Nothing: the packet is dropped. Use random PSNs.",
		"IBTA 9.7.6, 9.9.2"},
	reason.LocalKey: {
		"No memory in the queue pair's protection domain has the L_Key of a scatter/gather entry.",
		"lkey of each entry, the PDs of the region and the queue pair, and whether the region was deregistered.",
		"Register in the same PD and keep the region until the completion.",
		"IBTA 10.6.3, 9.9.2"},
	reason.LocalBounds: {
		"A scatter/gather entry extends beyond its region.",
		"Address and length of each entry compared with the region's.",
		"Register the whole buffer, or shorten the entry.",
		"IBTA 10.6.3, 9.9.2"},
	reason.LocalAccess: {
		"Local memory lacks an access right: READs and ATOMICs write to it and need LOCAL_WRITE (1), binds need MW_BIND (16).",
		"The access flags of the region with this lkey.",
		"Register with IBV_ACCESS_LOCAL_WRITE.",
		"IBTA 10.6.3, 9.9.2"},
	reason.LocalLength: {
		"The message is longer than the operation or the transport allows: 2^31 bytes, the path MTU for UD, 8 bytes for atomics, or the length of the scatter/gather list.",
		"The sum of the list's lengths, and the path MTU for UD.",
		"Split the message.",
		"IBTA C9-94, C10-93.1.1, 11.4.1.1"},
	reason.LocalOpcode: {
		"The queue pair's type does not offer this operation: UC has no READ and no ATOMIC, UD has SENDs only.",
		"opcode of the work request and qp_type.",
		"Use RC, or another operation.",
		"IBTA 9.4, 11.4.1.1"},
	reason.LocalQPState: {
		"The queue pair's state does not allow the work request or the transition.",
		"The states that the queue pair went through; an error may have moved it to ERR or SQE.",
		"Post sends in RTS, and receives in INIT or later; after an error start again from RESET.",
		"IBTA 10.3.1, 10.8.2"},
	reason.BindRefused: {
		"The window cannot be bound: it has the wrong type or PD, is already bound, is a type 2 window with length 0 or a zero-based window of type 1, or its new key has another index.",
		"The window's type, the region's PD, and the new R_Key (only its lowest 8 bits may change).",
		"Invalidate a type 2 window before binding it again, and make the new key with ibv_inc_rkey.",
		"IBTA 10.6.7.2"},
	reason.Flushed: {
		"The queue pair went to ERR before this work request completed. It may or may not have been executed.",
		"The first completion of this queue pair with a status other than flushed: it has the cause. If there is none, this was an orderly end: the program or the peer's disconnect moved the queue pair to ERR.",
		"After an orderly end, nothing: receives that are still posted are flushed then. Otherwise fix the cause of the first error; then RESET the queue pair and connect again.",
		"IBTA 10.3.1, 11.6.2"},
	reason.ResponseStale: {
		"A response answers a request that is already answered: it is a duplicate, or the answer to a retransmitted request.",
		"Whether requests are retransmitted often, and the peer's delay compared with timeout.",
		"Nothing if it is rare. Otherwise raise timeout.",
		"IBTA 9.7.6, 9.9.2"},
	reason.ResponseGap: {
		"A response to a READ or ATOMIC did not arrive but a later one did; the missing part is requested again.",
		"Counters of drops on this host: socket receive buffer and adapter rings.",
		"Raise net.core.rmem_max, or have fewer or shorter READs in flight.",
		"IBTA 9.7.6, 9.9.2"},
	reason.ResponseOpcode: {
		"The response's opcode does not match its request or its place in the response: a First in the middle, or an ATOMIC acknowledge of a READ.",
		"path_mtu of both queue pairs, and a capture.",
		"Set the same path_mtu on both ends; update the peer's driver or firmware.",
		"IBTA 9.7.6, 9.9.2"},
	reason.NAKSequence: {
		"The peer missed a packet and requests it again; all packets from that one on are retransmitted.",
		"Counters of drops on the peer's host and on the path.",
		"Raise net.core.rmem_max on the peer, lower the number of bytes in flight, or repair the path.",
		"IBTA 9.7.5.2, 9.9.2"},
	reason.NAKNotReady: {
		"The peer has no receive posted; the message is retransmitted after the delay that the peer requested.",
		"How the peer posts receives.",
		"Let the peer post more receives before it needs them.",
		"IBTA 9.7.5.2.8"},
	reason.AckTimeout: {
		"No acknowledge arrived within the local timeout; all unacknowledged packets are retransmitted.",
		"Whether the peer is busy or gone, and timeout (4.096 µs × 2^timeout) compared with the path's delay.",
		"Raise timeout; 14 means 67 ms. On a longer path it ends too soon once, until a round trip is measured.",
		"IBTA 9.7.6.1.3"},
	reason.PacketRepeated: {
		"The peer, which is softrdma too, reported which packets it misses, and only those are retransmitted.",
		"Counters of drops on the peer's host and on the path.",
		"Nothing: each loss costs only one packet. If there are many, repair the path or raise net.core.rmem_max on the peer.",
		"IBTA 9.7.5.1, 9.7.6"},
	reason.RepeatNeedless: {
		"The peer received packets twice: they were only late and not lost, their acknowledge was lost, or the network duplicated them.",
		"Whether the path reorders packets: several routes, or queues of a bonded interface.",
		"Nothing: the time allowed for late packets adapts to the path.",
		"RFC 8985"},
	reason.TailProbe: {
		"No answer arrived for about two round trips, so the last packet was retransmitted. The answer to it shows which packets were lost.",
		"Whether the peer is busy, and counters of drops on the path.",
		"Nothing: probes detect losses before the local timeout does.",
		"RFC 8985"},
	reason.PeerProbe: {
		"The peer has sent nothing for a while, or the network reported that it is unreachable. The probe is a duplicate request without payload that the peer must acknowledge; over iWARP it is a READ of 0 bytes.",
		"Nothing as long as the peer answers.",
		"Nothing: PeerTimeout enables these probes on idle connections.",
		"IBTA 9.7.5.1.1, C9-105, RFC 6581 9.2"},
	reason.PeerSilent: {
		"The peer sent nothing for PeerTimeout and did not answer three probes. Its process is stopped, its host is gone, or the path is interrupted.",
		"Whether the peer's process runs (a stopped process has state T in ps), its host and the network.",
		"Connect again; a longer PeerTimeout tolerates longer pauses.",
		"no clause: local to this end"},
	reason.CongestionNotified: {
		"The peer received packets that a router had marked for congestion, and notified this end.",
		"Queues of the switches on the path, and which other traffic uses them.",
		"Nothing: the rate recovers by itself.",
		"annex A17.9.3"},
	reason.HeldUnsent: {
		"The peer reports that it has buffered a request of this end, but this end never sent it. The request was forged; the next packet tells the peer to drop it.",
		"An attacker forges packets of this connection with the correct address and port.",
		"Find the sender with `softrdma capture` at the peer. Such an attacker can forge other packets too: use iWARP over TLS on this network.",
		"IBTA 9.7.5.1"},
	reason.CongestionPSN: {
		"A congestion notification from a softrdma peer names the marked packet, but this end has not sent that packet recently. The notification was ignored.",
		"Whether an attacker forges notifications, or this one is very late.",
		"Nothing for single notifications. For many, find the sender with `softrdma capture`.",
		"annex A17.9.3"},
	reason.PathProbePSN: {
		"A packet by which softrdma peers find out what their path carries had a PSN that the peer cannot have sent lately. It was ignored.",
		"Whether an attacker forges packets, or this one is very late.",
		"Nothing for single packets. For many, find the sender with `softrdma capture`.",
		"RFC 8899 9"},
	reason.CongestionUninformed: {
		"HPCC follows what the switches of the path say of their links. So far nothing came, so the queue pair has the control `window`, without a reaction to marks. It is HPCC as soon as telemetry comes.",
		"Whether both ends are softrdma with selective recovery, at hosts of one Ethernet fabric in software. Other networks give no telemetry, and it ends at trunks and at programs on other hosts: their ports count ETHERNET_TELEMETRY in `softrdma fabric counters`.",
		"Choose a control that needs nothing of switches (docs/congestion.md).",
		localClause},
	reason.CongestionIgnored: {
		"A congestion notification arrived for a queue pair that no longer exists or has no congestion control: a UD queue pair, or one configured without it.",
		"The congestion control of the queue pair that sent the packets; whether it was destroyed while packets were in flight.",
		"Nothing if the queue pair no longer exists. Otherwise choose a congestion control that responds to marks (docs/congestion.md), or disable marking of its packets.",
		"annex A17.9.3"},
})
