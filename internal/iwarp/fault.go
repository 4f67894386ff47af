package iwarp

import (
	"softrdma/internal/machine"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/iwarp"
)

// A fault says how this end reports an error of its peer: by the status of the receive in use,
// or else by an event. Both are those of the RC responder for the same error.
type fault struct {
	d      reason.Detail
	status queue.Status
	event  machine.Event
}

// invalid returns a protocol violation.
func invalid(d reason.Detail) fault {
	return fault{d, queue.RemInvReqErr, machine.EventQPReqErr}
}

// denied returns a forbidden access.
func denied(d reason.Detail) fault {
	return fault{d, queue.RemAccessErr, machine.EventQPAccessErr}
}

// broken returns a corrupt stream.
func broken(d reason.Detail) fault {
	return fault{d, queue.GeneralErr, machine.EventQPFatal}
}

// taggedTerm returns the error of the Terminate for a refused WRITE (RFC 5041 7.2). DDP has none
// for access rights: an STag that allows no placement is not valid (7.1). RDMAP's error is
// only for READs and invalidation (RFC 5040 4.8).
func taggedTerm(d reason.Detail, wraps bool) iwarp.Term {
	switch d.Reason {
	case reason.KeyWrongPD, reason.KeyQP:
		return iwarp.TermTaggedStream
	case reason.KeyBounds:
		if wraps {
			return iwarp.TermTaggedWrap
		}
		return iwarp.TermTaggedBounds
	}
	return iwarp.TermTaggedSTag
}

// protectionTerm returns the error of the Terminate for a refused READ or atomic (RFC 5040
// 7.2).
func protectionTerm(d reason.Detail, wraps bool) iwarp.Term {
	switch d.Reason {
	case reason.KeyAccess, reason.QPAccess:
		return iwarp.TermProtectionAccess
	case reason.KeyWrongPD, reason.KeyQP:
		return iwarp.TermProtectionStream
	case reason.KeyBounds:
		if wraps {
			return iwarp.TermProtectionWrap
		}
		return iwarp.TermProtectionBounds
	}
	return iwarp.TermProtectionSTag
}

// terminateStatus returns the status of the request that the peer's Terminate names: that of the
// corresponding NAK on InfiniBand. Linux's siw flushes the request instead.
func terminateStatus(t iwarp.Term) (queue.Status, reason.Reason) {
	switch t.Layer() {
	case iwarp.LayerRDMAP:
		switch t.Type() {
		case 1:
			return queue.RemAccessErr, reason.TermProtection
		case 2:
			if t == iwarp.TermOperationStream || t == iwarp.TermOperationGlobal {
				return queue.RemOpErr, reason.TermCatastrophic
			}
			return queue.RemInvReqErr, reason.TermOperation
		}
	case iwarp.LayerDDP:
		switch t.Type() {
		case 1:
			if t == iwarp.TermTaggedVersion {
				return queue.RemInvReqErr, reason.TermOperation
			}
			return queue.RemAccessErr, reason.TermProtection
		case 2:
			return queue.RemInvReqErr, reason.TermOperation
		}
	case iwarp.LayerMPA:
		return queue.RemOpErr, reason.TermStream
	}
	return queue.RemOpErr, reason.TermCatastrophic
}
