package explain

import "softrdma/internal/reason"

// These texts explain what the responders of RC and UC refuse.
var _ = explain(map[reason.Reason]text{
	reason.SequenceAhead: {
		"A request's PSN is later than expected: earlier packets were lost or reordered. RC requests them again with a NAK.",
		"Counters of drops on both hosts: socket receive buffer, adapter rings, switches.",
		"Raise net.core.rmem_max, lower the number of bytes in flight, or repair the path.",
		"IBTA 9.7.4.1.1, 9.7.5.2"},
	reason.SequenceDuplicate: {
		"A request arrived that is already executed: the peer retransmitted it because an acknowledge was lost or late, or the network duplicated it.",
		"Whether acknowledges are lost, and whether the peer's timeout is shorter than the path's delay.",
		"Nothing if it is rare. Otherwise raise the peer's timeout attribute.",
		"IBTA 9.7.4.1.1, 9.7.5.1"},
	reason.SequenceDuplicateUnknown: {
		"The peer repeated a READ or ATOMIC that is too old to be answered again: the responder remembers only the last max_dest_rd_atomic of them.",
		"max_rd_atomic of the peer compared with max_dest_rd_atomic of this end.",
		"Do not let the peer's max_rd_atomic exceed this end's max_dest_rd_atomic.",
		"IBTA 9.7.4.1.1, 9.7.5.1"},
	reason.SequenceGap: {
		"Packets of an unreliable connection were lost. Their message is dropped without notifying the sender.",
		"Counters of drops on both hosts.",
		"Use RC if every message matters; raise receive buffers.",
		"IBTA 9.8.2.2"},
	reason.OpcodeSequence: {
		"A packet does not continue the current message: a Middle or Last without a First, or a First within a message.",
		"A capture: a fault of the sender, or two senders that use the same queue pair number.",
		"Update the peer's driver or firmware; look for a second sender.",
		"IBTA 9.7.4.1.2, 9.8.2.2"},
	reason.OpcodeUnsupported: {
		"The queue pair's transport or device does not offer this operation.",
		"The operation that the peer posted, and the capabilities of this device.",
		"Use an operation that both devices support.",
		"IBTA 9.7.4.1.3, 9.7.5.2"},
	reason.TooManyReads: {
		"The peer has more READs and ATOMICs in flight than this end agreed to serve.",
		"max_rd_atomic of the peer and max_dest_rd_atomic of this end.",
		"Set max_dest_rd_atomic to at least the peer's max_rd_atomic.",
		"IBTA 9.7.4.1.4, 9.4.4"},
	reason.NoReceive: {
		"A SEND, or a WRITE with immediate data, arrived while no receive was posted. RC asks the peer to wait (RNR NAK).",
		"How many receives are posted when the peer starts to send, and how fast the program posts new ones.",
		"Post receives before the connection is established, post more of them, or raise the peer's rnr_retry (7 means no limit) and this end's min_rnr_timer.",
		"IBTA 9.7.4.1.4, 9.7.5.2.8"},
	reason.ReceiveTooSmall: {
		"A message is longer than the receive buffer that it used.",
		"The length of the receive's scatter list and of the peer's message.",
		"Post receives as long as the longest message.",
		"IBTA 9.7.4.1.6, 11.4.1.2"},
	reason.ReceiveLocalKey: {
		"The receive's scatter list names memory with a wrong L_Key, outside its region, or without LOCAL_WRITE.",
		"lkey, address and length of each entry of the receive; whether the region was deregistered.",
		"Register receive memory with IBV_ACCESS_LOCAL_WRITE and keep it registered until the completion.",
		"IBTA 9.9.3, 10.6.3"},
	reason.LengthMTU: {
		"A packet carries more payload than the path MTU of this queue pair.",
		"path_mtu of both queue pairs.",
		"Set the same path_mtu on both ends.",
		"IBTA 9.7.4.1.6, C9-92"},
	reason.LengthShortSegment: {
		"A First or Middle packet is not exactly as long as the path MTU, or a Last has no payload.",
		"path_mtu of both queue pairs: the peer's is probably smaller or larger than this end's.",
		"Set the same path_mtu on both ends.",
		"IBTA 9.7.4.1.6, C9-92"},
	reason.LengthExceedsRETH: {
		"A WRITE carries more bytes than its RETH announced.",
		"A capture of the message: a fault of the sender.",
		"Update the peer's driver or firmware.",
		"IBTA 9.7.4.1.6"},
	reason.LengthBelowRETH: {
		"A WRITE ended with fewer bytes than its RETH announced.",
		"A capture of the message: a fault of the sender, or lost packets on an unreliable connection.",
		"Update the peer's driver or firmware.",
		"IBTA 9.7.4.1.6"},
	reason.LengthLimit: {
		"The RETH announces more than 2^31 bytes, the maximum length of a message, or the packets of a SEND have more.",
		"The length in the peer's work request.",
		"Split the transfer.",
		"IBTA 9.4.3, 9.7.4.1.6, C9-94"},
	reason.KeyUnknown: {
		"No memory of this device has the R_Key: the key is wrong, or the memory was deregistered.",
		"The R_Key that the peer received, its byte order, and when the region was deregistered.",
		"Send the key in a fixed byte order, and keep the memory registered as long as the peer may access it.",
		"IBTA 9.7.4.1.5, 10.6.3"},
	reason.KeyWrongPD: {
		"The memory of the R_Key belongs to another protection domain than the queue pair.",
		"The PDs in which the region and the queue pair were created.",
		"Create both in the same protection domain.",
		"IBTA 10.2.3, 10.6.3"},
	reason.KeyInvalid: {
		"The key was invalidated, or its window is not bound.",
		"The order of bind, use and invalidate on both ends.",
		"Give the peer the key after the bind has completed, and stop the peer from using it after the invalidate.",
		"IBTA 10.6.7.2"},
	reason.KeyBounds: {
		"The access begins before the region or ends after it.",
		"The address and length in the peer's work request compared with the region's; whether the region is zero-based.",
		"Send the peer the address exactly as registered, and check the sum of offset and length.",
		"IBTA 9.7.4.1.5, 10.6.3"},
	reason.KeyAccess: {
		"The memory was registered or bound without the right that the operation needs: 1 LOCAL_WRITE, 2 REMOTE_WRITE, 4 REMOTE_READ, 8 REMOTE_ATOMIC, 16 MW_BIND, 256 FLUSH_GLOBAL, 512 FLUSH_PERSISTENT.",
		"The access flags of ibv_reg_mr or of the bind.",
		"Register with the missing right; REMOTE_WRITE and REMOTE_ATOMIC also require LOCAL_WRITE.",
		"IBTA 9.7.4.1.5, 10.6.3"},
	reason.KeyQP: {
		"A type 2 memory window is bound to another queue pair than the one that received the access.",
		"The queue pair that posted the bind.",
		"Bind the window on the queue pair that is connected to the window's user.",
		"IBTA 10.6.7.2"},
	reason.QPAccess: {
		"The queue pair's own access flags do not allow this remote operation: 2 REMOTE_WRITE, 4 REMOTE_READ, 8 REMOTE_ATOMIC, 256 FLUSH_GLOBAL, 512 FLUSH_PERSISTENT.",
		"qp_access_flags in the modify to INIT.",
		"Set qp_access_flags to what peers may do; the region's flags alone are not enough.",
		"IBTA 9.7.4.1.3, 11.2.5.2"},
	reason.AtomicAlignment: {
		"The address of an atomic operation is not a multiple of 8.",
		"The remote address in the work request.",
		"Align the operand to 8 bytes.",
		"IBTA 9.4.5"},
	reason.XRCQueue: {
		"An XRC request names a shared receive queue that does not exist, or that belongs to another XRC domain than the target queue pair.",
		"RemoteSRQN of the peer's work request; SRQ.Number and the XRCD of the queue that it is meant for; whether that queue was destroyed.",
		"Tell the peer the number of an XRC shared receive queue in the domain of the target, and keep the queue while the peer sends to it.",
		"IBTA A14"},
	reason.XRCQueueChanged: {
		"The packets of one XRC message name different shared receive queues.",
		"A capture: a fault of the sender, or two senders that use the same queue pair number.",
		"Update the peer's driver or firmware; look for a second sender.",
		"IBTA A14"},
	reason.FlushType: {
		"A FLUSH asks for a placement or a selectivity that the standard reserves.",
		"type and level of ibv_wr_flush: type is IBV_FLUSH_GLOBAL, IBV_FLUSH_PERSISTENT or both, level is IBV_FLUSH_RANGE or IBV_FLUSH_MR.",
		"Ask for a placement and a level that are defined.",
		"IBTA A19"},
	reason.InvalidateRefused: {
		"A SEND with invalidate, or a local invalidate, names a key that is not a type 2 window of this queue pair.",
		"The key, the window's type, and the queue pair to which it is bound.",
		"Invalidate only type 2 windows, and only on the queue pair to which they are bound.",
		"IBTA 9.4.1, 10.6.7.2"},
	reason.SequenceHeld: {
		"A packet before this request was lost or reordered. As the peer is softrdma too, the request is buffered, and the peer retransmits only the lost packet.",
		"Counters of drops on the path and of this host's sockets (`netstat -su`).",
		"Nothing: each loss costs only one packet. Repair the path if there are many.",
		"IBTA 9.7.5.1, 9.7.5.2"},
	reason.ReceiveAwaited: {
		"The first message of a connection arrived before the program had posted a receive. It is buffered, so that a peer with an RNR retry count of 0 does not fail. If no receive is posted in time, the peer gets an RNR NAK.",
		"When the program posts its first receive: this is often done only after the event that the connection is established.",
		"Post receives before rdma_accept or rdma_connect, or in INIT before the transition to RTR.",
		"IBTA 9.7.5.2.8"},
	reason.HeldContradicted: {
		"Two requests with the same PSN but different content arrived while an earlier packet was missing. One of them may be forged, so neither is executed: all buffered requests are dropped, and the peer retransmits them.",
		"Whether the peer's program changed a buffer while it was being sent, or an attacker forges packets of this connection.",
		"Do not write to a buffer before its work request has completed. If packets are forged, find their sender, or use iWARP over TLS.",
		"IBTA 9.7.5.1"},
	reason.HeldDisowned: {
		"Requests were buffered while an earlier packet was missing, and the peer reports that it never sent them. They were forged, and were dropped without effect.",
		"An attacker forges packets of this connection with the correct address and port.",
		"Find the sender with `softrdma capture`. Such an attacker can forge other packets too: use iWARP over TLS on this network.",
		"IBTA 9.7.5.1"},
	reason.CongestionMarked: {
		"A router marked a packet (ECN) because its queue was long. The peer is notified and slows down.",
		"Queues of the switches on the path.",
		"Nothing: this is normal congestion management.",
		"annex A17.9.3, RFC 3168"},
})
