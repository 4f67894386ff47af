// Package object defines what every device reports about its objects: the sentinel
// errors and the numbers of objects.
//
// It only owns these definitions. It never holds an object.
package object

import (
	"fmt"

	"softrdma/internal/memory"
	"softrdma/internal/reason"
)

// Sentinels for errors.Is.
var (
	ErrBusy      = memory.ErrBusy                                                  // other objects use the object
	ErrClosed    = reason.Sentinel(reason.DeviceClosed, "device closed")           // the device is closed
	ErrDestroyed = reason.Sentinel(reason.ObjectDestroyed, "object destroyed")     // the object was destroyed
	ErrOverflow  = reason.Sentinel(reason.CQOverflow, "completion queue overflow") // a completion queue had no room for a completion
)

// Overflowed returns the error of a completion queue of the given depth that
// overflowed. It wraps ErrOverflow.
func Overflowed(depth int) error {
	d := reason.Detail{Reason: reason.CQOverflow, Expected: uint64(depth), Found: uint64(depth) + 1}
	return &reason.Error{Detail: d, Cause: ErrOverflow}
}

// Busy returns the refusal to destroy an object that n others use. It wraps
// ErrBusy.
func Busy(what string, n int) error {
	return &reason.Error{
		Detail: reason.Detail{Reason: reason.ObjectBusy, Found: uint64(n)},
		Text:   fmt.Sprintf("%v: %d other objects use the %s", ErrBusy, n, what),
		Cause:  ErrBusy,
	}
}

// Counts holds the numbers of existing objects, by kind.
type Counts struct {
	PD, CQ, QP, SRQ, MR, MW, AH, Channel int
}

// Add adds other numbers.
func (n *Counts) Add(x Counts) {
	n.PD, n.CQ, n.QP, n.SRQ = n.PD+x.PD, n.CQ+x.CQ, n.QP+x.QP, n.SRQ+x.SRQ
	n.MR, n.MW, n.AH, n.Channel = n.MR+x.MR, n.MW+x.MW, n.AH+x.AH, n.Channel+x.Channel
}
