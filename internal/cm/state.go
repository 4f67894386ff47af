package cm

import (
	"fmt"
	"strings"

	"softrdma/internal/reason"
)

// A State is the state of a connection (IBTA 12.9.5 and 12.9.6); the numbers are those of
// Linux's ib_cm_state.
type State uint8

// The states. Listening and service ID resolution have separate types.
const (
	Idle           State = 0 // finished: rejected, timed out or destroyed
	ReqSent        State = 2
	ReqReceived    State = 3
	MRAReqSent     State = 4 // an MRA to the REQ was sent, or will be to its duplicate
	MRAReqReceived State = 5
	RepSent        State = 6
	RepReceived    State = 7
	MRARepSent     State = 8
	MRARepReceived State = 9
	Established    State = 10
	DreqSent       State = 11
	DreqReceived   State = 12
	Timewait       State = 13
)

var states = [...]string{
	Idle:           "idle",
	ReqSent:        "REQ sent",
	ReqReceived:    "REQ received",
	MRAReqSent:     "MRA(REQ) sent",
	MRAReqReceived: "MRA(REQ) received",
	RepSent:        "REP sent",
	RepReceived:    "REP received",
	MRARepSent:     "MRA(REP) sent",
	MRARepReceived: "MRA(REP) received",
	Established:    "established",
	DreqSent:       "DREQ sent",
	DreqReceived:   "DREQ received",
	Timewait:       "time wait",
}

// String returns the specification's name.
func (s State) String() string {
	if int(s) < len(states) && states[s] != "" {
		return states[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// A StateError is a call that the connection's state does not allow.
type StateError struct {
	Op       string // the call
	Expected []State
	Found    State
}

// Error names the call, the allowed states and the actual one.
func (e *StateError) Error() string {
	names := make([]string, len(e.Expected))
	for i, s := range e.Expected {
		names[i] = s.String()
	}
	return fmt.Sprintf("cm: %s: connection in the wrong state: expected %s, found %v", e.Op, strings.Join(names, " or "), e.Found)
}

// Detail returns the error as a named reason.
func (e *StateError) Detail() reason.Detail {
	return reason.Detail{Reason: reason.CMState, Expected: uint64(e.Expected[0]), Found: uint64(e.Found)}
}

// Unwrap returns the named reason.
func (e *StateError) Unwrap() error { return e.Detail().Err() }

// An Error is a call that was refused for a reason other than the state.
type Error struct {
	Op     string // the call
	Field  string // of its parameters, if one is wrong
	Reason reason.Detail
}

// Error names the call, the parameter and the reason.
func (e *Error) Error() string {
	if e.Field != "" {
		return fmt.Sprintf("cm: %s: %s: %v", e.Op, e.Field, e.Reason)
	}
	return fmt.Sprintf("cm: %s: %v", e.Op, e.Reason)
}

// Detail returns the named reason.
func (e *Error) Detail() reason.Detail { return e.Reason }

// Unwrap returns the named reason.
func (e *Error) Unwrap() error { return e.Reason.Err() }
