package explain

import (
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

type syndromeText struct {
	syndrome ib.Syndrome
	name     string
	meaning  string
	text
	see reason.Reason
}

// syndromeTexts explains the syndromes of acknowledges (IBTA 9.7.5.2, tables
// 44 to 46).
var syndromeTexts = []syndromeText{
	{ib.ACK, "ACK", "Positive acknowledge: all requests up to the PSN were executed. The low five bits are credits for further messages; 0x1f means that credits are not used.", text{
		"The request was valid.", "Nothing.", "Nothing.", "IBTA 9.7.5.2, 9.7.7.2"}, reason.None},
	{ib.RNRNAK, "NAK_RNR", "Receiver not ready: no receive was posted. The low five bits (syndromes 0x20 to 0x3f) say how long to wait before sending again.", text{
		"The peer posts too few receives, or too late.",
		"How the peer posts receives, and its min_rnr_timer.",
		"Let the peer post more receives; raise rnr_retry.",
		"IBTA 9.7.5.2.8, table 45"}, reason.NAKNotReady},
	{ib.NAKSequence, "NAK_PSN_SEQUENCE_ERROR", "The responder expected the PSN of the NAK and received a later one: packets were lost, and the responder asks for them again.", text{
		"A drop on the path or in a full receive buffer.",
		"Counters of drops on the responder's host and on the path.",
		"Raise receive buffers, or lower the number of bytes in flight.",
		"IBTA 9.7.5.2"}, reason.NAKSequence},
	{ib.NAKInvalidRequest, "NAK_INVALID_REQUEST_SYNDROME", "The responder found the request invalid. The error is final: the requester's queue pair goes to ERR.", text{
		"An operation that the responder's queue pair does not allow, a message that is too long, a wrong sequence or length.",
		"The responder's qp_access_flags, max_dest_rd_atomic, path_mtu and receive buffers.",
		"Allow the operation, and make the receive buffers as long as the messages.",
		"IBTA 9.7.5.2"}, reason.NAKInvalidRequest},
	{ib.NAKRemoteAccess, "NAK_REMOTE_ACCESS_ERROR", "The responder refused access to its memory. The error is final: the requester's queue pair goes to ERR.", text{
		"A wrong R_Key, an address out of bounds, or a missing right.",
		"R_Key, address and length in the request; registration on the responder.",
		"Register with the remote access right, and use the address and key exactly as registered.",
		"IBTA 9.7.5.2.4"}, reason.NAKRemoteAccess},
	{ib.NAKRemoteOperational, "NAK_REMOTE_OPERATIONAL_ERROR", "The responder could not execute the request. The error is final: the requester's queue pair goes to ERR.", text{
		"The responder had an error of its own; for example, it cannot write to the memory of its receive.",
		"The responder's completions and asynchronous events.",
		"Fix the responder's receives.",
		"IBTA 9.7.5.2"}, reason.NAKRemoteOperational},
	{ib.NAKInvalidRDRequest, "NAK_INVALID_RD_REQUEST", "The responder found a request of the reliable datagram service invalid.", text{
		"The peer uses RD, which neither softrdma nor current adapters have.",
		"A capture.", "Use RC, UC or UD.", "IBTA 9.7.5.2"}, reason.NAKReserved},
}

func makeSyndromes() (all []Entry) {
	for _, t := range syndromeTexts {
		e := Entry{Kind: Syndrome, Name: t.name, Number: int(t.syndrome), Meaning: t.meaning,
			Cause: t.cause, Look: t.look, Remedy: t.remedy, Clause: t.clause}
		if t.see != reason.None {
			e.See = []string{t.see.String()}
		}
		all = append(all, e)
	}
	return all
}

// syndrome returns the name of the entry for a syndrome byte.
func syndrome(s ib.Syndrome) (name string) {
	switch {
	case s.IsACK():
		s = ib.ACK
	case s.IsRNR():
		s = ib.RNRNAK
	}
	for _, t := range syndromeTexts {
		if t.syndrome == s {
			return t.name
		}
	}
	return ""
}
