package qp

import (
	"fmt"
	"softrdma/internal/reason"
)

// A transition is one legal state change of one service type, with its required and its
// optional attributes. MaskState is allowed with each and not listed.
type transition struct {
	from, to           State
	required, optional Mask
}

// Sets that recur in the tables.
const (
	initRC = MaskPKeyIndex | MaskPort | MaskAccess
	initUD = MaskPKeyIndex | MaskPort | MaskQKey
	rtrUC  = MaskAV | MaskPathMTU | MaskDestQPN | MaskRQPSN
	rtrRC  = rtrUC | MaskMaxDestRdAtomic | MaskMinRNRTimer
	rtsRC  = MaskSQPSN | MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskMaxRdAtomic
	apm    = MaskAltPath | MaskPathMigState
	liveUC = MaskCurState | MaskAccess | apm // may change while running
	liveRC = liveUC | MaskMinRNRTimer
	liveUD = MaskCurState | MaskQKey

	rtsTarget = MaskSQPSN | MaskTimeout
)

// The table of state transitions in IBTA 11.2.5.2, as Linux interprets it: the error state
// cannot be reached from RESET, and modifying in RTR requires the transition to RTS. Every
// state may go to RESET, and every one but RESET to ERR: see Allowed.
var (
	transitionsRC = []transition{
		{Reset, Init, initRC, 0},
		{Init, Init, 0, initRC},
		{Init, RTR, rtrRC, MaskAltPath | MaskAccess | MaskPKeyIndex},
		{RTR, RTS, rtsRC, liveRC},
		{RTS, RTS, 0, liveRC},
		{RTS, SQD, 0, MaskEnSQDAsyncNotify},
		{SQD, RTS, 0, liveRC},
		{SQD, SQD, 0, MaskPort | MaskAV | MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskMaxRdAtomic |
			MaskMaxDestRdAtomic | apm | MaskAccess | MaskPKeyIndex | MaskMinRNRTimer},
	}
	transitionsUC = []transition{
		{Reset, Init, initRC, 0},
		{Init, Init, 0, initRC},
		{Init, RTR, rtrUC, MaskAltPath | MaskAccess | MaskPKeyIndex},
		{RTR, RTS, MaskSQPSN, liveUC},
		{RTS, RTS, 0, liveUC},
		{RTS, SQD, 0, MaskEnSQDAsyncNotify},
		{SQD, RTS, 0, liveUC},
		{SQD, SQD, 0, MaskAV | apm | MaskAccess | MaskPKeyIndex},
		{SQE, RTS, 0, MaskCurState | MaskAccess},
	}
	transitionsXRCSend = []transition{
		{Reset, Init, initRC, 0},
		{Init, Init, 0, initRC},
		{Init, RTR, rtrUC, MaskAltPath | MaskAccess | MaskPKeyIndex},
		{RTR, RTS, rtsRC, liveUC},
		{RTS, RTS, 0, liveUC},
		{RTS, SQD, 0, MaskEnSQDAsyncNotify},
		{SQD, RTS, 0, liveUC},
		{SQD, SQD, 0, MaskPort | MaskAV | MaskTimeout | MaskRetryCnt | MaskRNRRetry | MaskMaxRdAtomic | apm | MaskAccess | MaskPKeyIndex},
	}
	transitionsXRCRecv = []transition{
		{Reset, Init, initRC, 0},
		{Init, Init, 0, initRC},
		{Init, RTR, rtrRC, MaskAltPath | MaskAccess | MaskPKeyIndex},
		{RTR, RTS, rtsTarget, liveRC},
		{RTS, RTS, 0, liveRC},
		{RTS, SQD, 0, MaskEnSQDAsyncNotify},
		{SQD, RTS, 0, liveRC},
		{SQD, SQD, 0, MaskPort | MaskAV | MaskTimeout | MaskMaxDestRdAtomic | apm | MaskAccess | MaskPKeyIndex | MaskMinRNRTimer},
	}
	transitionsUD = []transition{
		{Reset, Init, initUD, 0},
		{Init, Init, 0, initUD},
		{Init, RTR, 0, MaskPKeyIndex | MaskQKey},
		{RTR, RTS, MaskSQPSN, liveUD},
		{RTS, RTS, 0, liveUD},
		{RTS, SQD, 0, MaskEnSQDAsyncNotify},
		{SQD, RTS, 0, liveUD},
		{SQD, SQD, 0, MaskPKeyIndex | MaskQKey},
		{SQE, RTS, 0, liveUD},
	}
)

// Allowed returns the required and the allowed attributes of a transition, and whether it is
// legal. MaskState is always allowed.
func Allowed(t Type, from, to State) (required, optional Mask, legal bool) {
	var table []transition
	switch t {
	case RC:
		table = transitionsRC
	case UC:
		table = transitionsUC
	case UD:
		table = transitionsUD
	case XRCSend:
		table = transitionsXRCSend
	case XRCRecv:
		table = transitionsXRCRecv
	default:
		return 0, 0, false
	}
	if from > Err || from == SQE && t != UC && t != UD {
		return 0, 0, false // IBTA 10.3.1.6: a reliable connection has no SQE
	}
	if to == Reset || to == Err && from != Reset {
		return 0, 0, true
	}
	for i := range table {
		if table[i].from == from && table[i].to == to {
			return table[i].required, table[i].optional, true
		}
	}
	return 0, 0, false
}

// A TransitionError is a refused modification of a queue pair. Missing and Invalid are both
// empty if the transition itself is illegal.
type TransitionError struct {
	Type     Type
	From, To State
	Missing  Mask // required and not given
	Invalid  Mask // given and not allowed
}

// Error names both states, and each missing and invalid attribute.
func (e *TransitionError) Error() string {
	s := fmt.Sprintf("%v queue pair from %v to %v", e.Type, e.From, e.To)
	switch {
	case e.Missing == 0 && e.Invalid == 0:
		return s + ": illegal transition"
	case e.Invalid == 0:
		return fmt.Sprintf("%s: missing %v", s, e.Missing)
	case e.Missing == 0:
		return fmt.Sprintf("%s: invalid %v", s, e.Invalid)
	}
	return fmt.Sprintf("%s: missing %v; invalid %v", s, e.Missing, e.Invalid)
}

// Unwrap returns the named reason.
func (e *TransitionError) Unwrap() error {
	if e.Missing|e.Invalid == 0 {
		return reason.Detail{Reason: reason.QPTransition, Expected: uint64(e.From), Found: uint64(e.To)}.Err()
	}
	return reason.Detail{Reason: reason.QPAttributes, Expected: uint64(e.Missing), Found: uint64(e.Invalid)}.Err()
}

// Check checks that a queue pair of type t may go from one state to another, or stay in it,
// with these attributes. The error is a *TransitionError.
func Check(t Type, from, to State, mask Mask) error {
	required, optional, legal := Allowed(t, from, to)
	if !legal {
		return &TransitionError{Type: t, From: from, To: to}
	}
	e := &TransitionError{Type: t, From: from, To: to}
	e.Missing = required &^ mask
	e.Invalid = mask &^ (required | optional | MaskState)
	if e.Missing|e.Invalid != 0 {
		return e
	}
	return nil
}
