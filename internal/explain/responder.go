package explain

import "softrdma/internal/reason"

// responder explains what the responders of RC and UC refuse.
var responder = map[reason.Reason]text{
	reason.SequenceAhead: {
		"A request's PSN is later than expected: packets before it were lost or overtaken. RC asks for them again with a NAK.",
		"Counters of drops on both hosts: socket receive buffer, adapter rings, switches.",
		"Raise net.core.rmem_max, lower the number of bytes in flight, or mend the path.",
		"IBTA 9.7.4.1.1, 9.7.5.2"},
	reason.SequenceDuplicate: {
		"A request that was carried out already came again: the peer resent it because an acknowledge was lost or late, or the network doubled it.",
		"Whether acknowledges are lost, and whether the peer's timeout is shorter than the path's delay.",
		"Nothing when rare. Else raise the peer's timeout attribute.",
		"IBTA 9.7.4.1.1, 9.7.5.1"},
	reason.SequenceDuplicateUnknown: {
		"A READ or ATOMIC came again that is too old to be answered again: the responder keeps as many as max_dest_rd_atomic.",
		"max_rd_atomic of the peer against max_dest_rd_atomic of this end.",
		"Do not let the peer's max_rd_atomic exceed this end's max_dest_rd_atomic.",
		"IBTA 9.7.4.1.1, 9.7.5.1"},
	reason.SequenceGap: {
		"Packets of an unreliable connection were lost; the message that they belong to is dropped and nobody is told.",
		"Counters of drops on both hosts.",
		"Use RC where every message matters; raise receive buffers.",
		"IBTA 9.8.2.2"},
	reason.OpcodeSequence: {
		"A packet does not continue the message before it: a Middle or Last without a First, or a First within a message.",
		"A capture: a sender's fault, or two senders that use the same queue pair number.",
		"Update the peer's driver or firmware; look for a second sender.",
		"IBTA 9.7.4.1.2, 9.8.2.2"},
	reason.OpcodeUnsupported: {
		"The queue pair's transport or device does not offer this operation.",
		"The operation that the peer posted, and the capabilities of this device.",
		"Use an operation that both devices report.",
		"IBTA 9.7.4.1.3, 9.7.5.2"},
	reason.TooManyReads: {
		"The peer has more READs and ATOMICs in flight than this end agreed to hold.",
		"max_rd_atomic of the peer and max_dest_rd_atomic of this end.",
		"Set max_dest_rd_atomic to at least the peer's max_rd_atomic.",
		"IBTA 9.7.4.1.4, 9.4.4"},
	reason.NoReceive: {
		"A SEND, or a WRITE with immediate data, came and no receive was posted. RC asks the peer to wait (RNR NAK).",
		"How many receives are posted when the peer starts to send, and how fast they are posted again.",
		"Post receives before the connection comes up, post more of them, or raise the peer's rnr_retry (7 is for ever) and this end's min_rnr_timer.",
		"IBTA 9.7.4.1.4, 9.7.5.2.8"},
	reason.ReceiveTooSmall: {
		"A message is longer than the receive request that took it.",
		"The length of the receive's scatter list and of the peer's message.",
		"Post receives as long as the longest message.",
		"IBTA 9.7.4.1.6, 11.4.1.2"},
	reason.ReceiveLocalKey: {
		"The receive's scatter list names memory with a wrong L_Key, outside of its region, or without LOCAL_WRITE.",
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
		"A WRITE brings more bytes than its RETH announced.",
		"A capture of the message: a sender's fault.",
		"Update the peer's driver or firmware.",
		"IBTA 9.7.4.1.6"},
	reason.LengthBelowRETH: {
		"A WRITE ended with fewer bytes than its RETH announced.",
		"A capture of the message: a sender's fault, or lost packets on an unreliable connection.",
		"Update the peer's driver or firmware.",
		"IBTA 9.7.4.1.6"},
	reason.LengthLimit: {
		"The RETH names more than 2^31 bytes, the longest message that there is.",
		"The length in the peer's work request.",
		"Split the transfer.",
		"IBTA 9.7.4.1.6, C9-94"},
	reason.KeyUnknown: {
		"The R_Key names no memory of this device: it is wrong, or the memory was deregistered.",
		"The R_Key that the peer was told, its byte order, and when the region was deregistered.",
		"Send the key in a fixed byte order, and keep memory registered as long as the peer may reach it.",
		"IBTA 9.7.4.1.5, 10.6.3"},
	reason.KeyWrongPD: {
		"The R_Key's memory belongs to another protection domain than the queue pair.",
		"The PDs that the region and the queue pair were made in.",
		"Make both in the same protection domain.",
		"IBTA 10.2.3, 10.6.3"},
	reason.KeyInvalid: {
		"The key was invalidated, or its window is not bound.",
		"The order of bind, use and invalidate on both ends.",
		"Tell the peer the key after the bind has completed, and not to use it after the invalidate.",
		"IBTA 10.6.7.2"},
	reason.KeyBounds: {
		"The access begins before the memory or ends behind it.",
		"The address and length in the peer's work request against the region's; whether the region is zero based.",
		"Send the peer the address as registered, and check the sum of offset and length.",
		"IBTA 9.7.4.1.5, 10.6.3"},
	reason.KeyAccess: {
		"The memory was registered or bound without the right that the operation needs: 1 LOCAL_WRITE, 2 REMOTE_WRITE, 4 REMOTE_READ, 8 REMOTE_ATOMIC, 16 MW_BIND.",
		"The access flags of ibv_reg_mr or of the bind.",
		"Register with the right, and with IBV_ACCESS_LOCAL_WRITE for the remote writing ones.",
		"IBTA 9.7.4.1.5, 10.6.3"},
	reason.KeyQP: {
		"A type 2 memory window is bound to another queue pair than the one that the access came by.",
		"The queue pair that posted the bind.",
		"Bind the window on the queue pair that its user is connected to.",
		"IBTA 10.6.7.2"},
	reason.QPAccess: {
		"The queue pair's own access flags do not allow this remote operation: 2 REMOTE_WRITE, 4 REMOTE_READ, 8 REMOTE_ATOMIC.",
		"qp_access_flags in the modify to INIT.",
		"Set qp_access_flags to what peers may do; the region's flags alone are not enough.",
		"IBTA 9.7.4.1.3, 11.2.5.2"},
	reason.AtomicAlignment: {
		"An atomic's address is no multiple of 8.",
		"The remote address in the work request.",
		"Align the operand to 8 bytes.",
		"IBTA 9.4.5"},
	reason.InvalidateRefused: {
		"A SEND with invalidate, or a local invalidate, names a key that is not a type 2 window of this queue pair.",
		"The key, the window's type, and the queue pair it is bound on.",
		"Invalidate only type 2 windows, on the queue pair that they are bound to.",
		"IBTA 9.4.1, 10.6.7.2"},
	reason.SequenceHeld: {
		"A request came behind one that was lost on the way. The peer is softrdma too, so it is kept and only the lost one is sent again.",
		"Counters of drops on the path and of this host's sockets (`netstat -su`).",
		"Nothing: this costs one packet per loss. Mend the path where there are many.",
		"IBTA 9.7.5.1, 9.7.5.2"},
	reason.HeldContradicted: {
		"Two requests with the same PSN and different content came while one before them was missing. One of them may be forged, so neither is carried out: all that was held is dropped, and the peer sends it again.",
		"Somebody forges packets of this connection, or the program changed a buffer that was being sent.",
		"Do not write to a buffer before its work request has completed. Otherwise find who sends the packets, or use iWARP over TLS.",
		"IBTA 9.7.5.1"},
	reason.HeldDisowned: {
		"Requests were held behind a lost one, and the peer says that it never sent them. They were forged, and were dropped without effect.",
		"Somebody forges packets of this connection, from the right address and port.",
		"Find the sender with `softrdma capture`. An attacker who gets this far can forge more: use iWARP over TLS on this network.",
		"IBTA 9.7.5.1"},
	reason.CongestionMarked: {
		"A router marked a packet because its queue is long, instead of dropping it later; the peer is told to send slower.",
		"Queues of the switches on the path.",
		"Nothing: this is how congestion is managed.",
		"annex A17.9.3, RFC 3168"},
}
