package explain

import (
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

type statusText struct {
	meaning string
	text
	see []reason.Reason
}

const rdOnly = "Nothing: softrdma never reports it."

func unused(meaning string) statusText {
	return statusText{meaning, text{"It belongs to the reliable datagram service, which neither softrdma nor current adapters have.",
		"The device that reported it.", rdOnly, "IBTA 11.6.2"}, nil}
}

// statusTexts explains the statuses of completions (IBTA 11.6.2).
var statusTexts = [queue.Statuses]statusText{
	queue.Success: {"The operation completed.", text{
		"Nothing went wrong.", "Nothing.", "Nothing.", "IBTA 11.6.2"}, nil},
	queue.LocLenErr: {"Local length error: a message is longer than its buffer or than the transport allows.", text{
		"On a receive: the message is longer than the posted buffer. On a send: over 2^31 bytes, or over the path MTU on UD.",
		"The length of the work request's scatter/gather list and of the peer's message.",
		"Post receives as long as the longest message; split sends.",
		"IBTA 11.6.2, 9.9.2"}, []reason.Reason{reason.ReceiveTooSmall, reason.PacketTooLong, reason.LocalLength, reason.LengthMTU}},
	queue.LocQPOpErr: {"Local QP operation error: the queue pair cannot carry out the request as posted.", text{
		"An operation that the queue pair's type does not have, or an inconsistent work request.",
		"opcode of the work request and qp_type.",
		"Use an operation that the type offers.",
		"IBTA 11.6.2, 9.9.2"}, []reason.Reason{reason.LocalOpcode, reason.TooManySGEs, reason.AddressHandle}},
	queue.LocEECOpErr: unused("Local EE context operation error."),
	queue.LocProtErr: {"Local protection error: the work request may not access its own buffers.", text{
		"A wrong L_Key, an address outside the region, a region of another PD, or a region without LOCAL_WRITE that receives data.",
		"lkey, address and length of each entry; whether the region was deregistered too early.",
		"Register the buffer in the queue pair's PD with IBV_ACCESS_LOCAL_WRITE, and keep it registered until the completion.",
		"IBTA 11.6.2, 10.6.3"}, []reason.Reason{reason.LocalKey, reason.LocalBounds, reason.LocalAccess, reason.ReceiveLocalKey}},
	queue.WRFlushErr: {"Work request flushed: the queue pair went to the error state before the request was complete.", text{
		"An earlier error on this queue pair, a modify to ERR, or a disconnect. The flush itself is never the cause.",
		"The first completion with another status on either queue of the queue pair. If there is none, what moved the queue pair to ERR.",
		"Fix the cause of the first error; then RESET the queue pair and connect again.",
		"IBTA 11.6.2, 10.3.1"}, []reason.Reason{reason.Flushed}},
	queue.MWBindErr: {"Memory window bind error: a bind or a local invalidate was refused.", text{
		"The region lacks MW_BIND; or the window belongs to another PD, is already bound, or extends beyond the region; or the key to invalidate is not a type 2 window of this queue pair.",
		"Access flags and PD of the region, and the window's state.",
		"Register the region with IBV_ACCESS_MW_BIND, and invalidate a type 2 window before binding it again.",
		"IBTA 11.6.2, 10.6.7.2"}, []reason.Reason{reason.BindRefused, reason.KeyAccess, reason.KeyBounds, reason.InvalidateRefused}},
	queue.BadRespErr: {"Bad response: a response does not match its request.", text{
		"The peer answered with an unexpected opcode, length or syndrome. Usually the two ends have different path_mtu.",
		"path_mtu on both ends, and a capture.",
		"Set the same path_mtu on both ends; update the peer's driver or firmware.",
		"IBTA 11.6.2, 9.9.2"}, []reason.Reason{reason.ResponseLength, reason.ResponseOpcode, reason.ResponseUnexpected, reason.NAKReserved}},
	queue.LocAccessErr: {"Local access error: a peer's operation that uses a receive tried to access memory that it may not.", text{
		"A WRITE with immediate data has a wrong key, address range or access right.",
		"The R_Key, address and length that the peer used, and the region's access flags on this end.",
		"Register the region with the remote access right, and give the peer the key of that registration.",
		"IBTA 11.6.2, 9.9.3"}, []reason.Reason{reason.KeyAccess, reason.KeyBounds, reason.KeyUnknown}},
	queue.RemInvReqErr: {"Remote invalid request: the peer's queue pair found the request invalid.", text{
		"The peer's qp_access_flags do not allow the operation, the message is longer than the peer's receive, or too many READs are in flight.",
		"The peer's qp_access_flags, max_dest_rd_atomic, path_mtu and receive buffers.",
		"Allow the operation on the peer's queue pair, and make its receive buffers as long as the messages.",
		"IBTA 11.6.2, 9.7.5.2"}, []reason.Reason{reason.NAKInvalidRequest, reason.QPAccess, reason.ReceiveTooSmall, reason.TooManyReads}},
	queue.RemAccessErr: {"Remote access error: the peer refused access to its memory.", text{
		"The R_Key, the address range or the access rights are wrong, or the memory was deregistered.",
		"R_Key, remote address and length of the work request; registration and flags on the peer.",
		"Register with IBV_ACCESS_REMOTE_READ, _WRITE or _ATOMIC, and send the peer's address and key exactly as registered.",
		"IBTA 11.6.2, 9.7.5.2.4"}, []reason.Reason{reason.NAKRemoteAccess, reason.KeyUnknown, reason.KeyBounds, reason.KeyAccess, reason.KeyWrongPD}},
	queue.RemOpErr: {"Remote operational error: the peer could not complete the request.", text{
		"The peer had an error of its own. Usually it cannot write to the memory of its receive.",
		"The completions and asynchronous events of the peer.",
		"Fix the peer's receives: L_Key, bounds and LOCAL_WRITE.",
		"IBTA 11.6.2, 9.7.5.2"}, []reason.Reason{reason.NAKRemoteOperational, reason.ReceiveLocalKey}},
	queue.RetryExcErr: {"Transport retry counter exceeded: the peer did not answer.", text{
		"The peer is gone, its queue pair does not exist or is not in RTR, or packets do not reach it (firewall, wrong address, wrong MTU).",
		"The peer's state, dest_qp_num, GIDs and path_mtu on both ends, UDP port 4791 in firewalls, captures on both hosts.",
		"Open UDP port 4791, exchange QPN, PSN and GID again, and raise timeout and retry_cnt if the path is slow.",
		"IBTA 11.6.2, 9.7.6.1.3"}, []reason.Reason{reason.RetryExceeded, reason.AckTimeout, reason.PacketQPState, reason.PacketQPN}},
	queue.RNRRetryExcErr: {"RNR retry counter exceeded: the peer had no receive posted for too long.", text{
		"The peer posts too few receives or too late, and rnr_retry is not 7.",
		"How the peer posts receives; its min_rnr_timer, and rnr_retry here.",
		"Let the peer post more receives; set rnr_retry to 7 to retry without limit.",
		"IBTA 11.6.2, 9.7.5.2.8"}, []reason.Reason{reason.RNRRetryExceeded, reason.NoReceive}},
	queue.LocRDDViolErr:  unused("Local RDD violation."),
	queue.RemInvRDReqErr: unused("Remote invalid RD request."),
	queue.RemAbortErr: {"Remote aborted: the peer ended the operation.", text{
		"The reliable datagram service, or an abort specific to the vendor.",
		"The device that reported it, and the peer's log.", rdOnly, "IBTA 11.6.2"}, nil},
	queue.InvEECNErr:     unused("Invalid EE context number."),
	queue.InvEECStateErr: unused("Invalid EE context state."),
	queue.FatalErr: {"Fatal error: the queue pair is no longer usable.", text{
		"The device reported an error that does not belong to one request.",
		"Asynchronous events of the device, and its log.",
		"Close the device and open it again; if the device is softrdma, report a bug.",
		"IBTA 11.6.2"}, nil},
	queue.RespTimeoutErr: {"Response timeout: no answer came in time.", text{
		"Some vendors' adapters report this status for a late answer; softrdma reports IBV_WC_RETRY_EXC_ERR.",
		"See IBV_WC_RETRY_EXC_ERR.",
		"See IBV_WC_RETRY_EXC_ERR.",
		"libibverbs, ibv_poll_cq(3)"}, []reason.Reason{reason.RetryExceeded}},
	queue.GeneralErr: {"General error: none of the other statuses fits.", text{
		"The device reported an error that has no status of its own; vendor_err may say more.",
		"vendor_err of the completion.",
		"Look up vendor_err in the vendor's documentation.",
		"libibverbs, ibv_poll_cq(3)"}, nil},
}

func makeStatuses() (all []Entry) {
	for s, t := range statusTexts {
		e := Entry{Kind: Status, Name: queue.Status(s).String(), Number: s, Meaning: t.meaning,
			Cause: t.cause, Look: t.look, Remedy: t.remedy, Clause: t.clause}
		for _, r := range t.see {
			e.See = append(e.See, r.String())
		}
		all = append(all, e)
	}
	return all
}
