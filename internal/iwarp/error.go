package iwarp

import (
	"errors"
	"fmt"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// An Error is a refused call. It wraps errors.ErrUnsupported if iWARP or the peer does not
// support the operation.
type Error struct{ Detail reason.Detail }

// Error returns the reason in words.
func (e *Error) Error() string { return fmt.Sprintf("iWARP: %v", e.Detail) }

// Unwrap returns the named reason, which wraps errors.ErrUnsupported if iWARP or the peer does
// not support the operation.
func (e *Error) Unwrap() error {
	x := &reason.Error{Detail: e.Detail}
	switch e.Detail.Reason {
	case reason.IWARPType, reason.RDMAPExtension:
		x.Cause = errors.ErrUnsupported
	}
	return x
}

// CheckType returns an error if iWARP has no queue pairs of a type. It only has RC, so neither
// datagrams nor multicast.
func CheckType(t qp.Type) error {
	if t == qp.RC {
		return nil
	}
	return &Error{reason.Detail{Reason: reason.IWARPType, Expected: uint64(qp.RC), Found: uint64(t)}}
}
