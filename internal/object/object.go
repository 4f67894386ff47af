// Package object defines what every device reports about its objects, whether
// the device is an adapter of this process or a daemon's: the sentinel errors
// and the numbers of objects.
//
// It owns these words and nothing else. It never holds an object, so that the
// client of a daemon needs nothing of the adapter.
package object

import (
	"errors"
	"fmt"

	"softrdma/internal/memory"
)

// Sentinels for errors.Is.
var (
	ErrBusy      = memory.ErrBusy                          // other objects use the object
	ErrClosed    = errors.New("device closed")             // the device is closed
	ErrDestroyed = errors.New("object destroyed")          // the object was destroyed
	ErrOverflow  = errors.New("completion queue overflow") // a completion queue had no room for a completion
)

// Overflowed returns the error of a completion queue of the given depth that
// overflowed. It wraps ErrOverflow.
func Overflowed(depth int) error {
	return fmt.Errorf("%w: it holds %d completions; poll more often or make it deeper", ErrOverflow, depth)
}

// Counts are the numbers of objects that exist, by kind.
type Counts struct {
	PD, CQ, QP, SRQ, MR, MW, AH, Channel int
}
