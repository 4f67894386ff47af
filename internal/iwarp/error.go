package iwarp

import (
	"errors"
	"fmt"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// An Error is a call that was refused. It wraps errors.ErrUnsupported if iWARP, or the
// peer, does not have what was asked for.
type Error struct{ Detail reason.Detail }

// Error returns the reason in words.
func (e *Error) Error() string { return fmt.Sprintf("iWARP: %v", e.Detail) }

// Unwrap returns errors.ErrUnsupported or nil.
func (e *Error) Unwrap() error {
	switch e.Detail.Reason {
	case reason.IWARPType, reason.RDMAPExtension:
		return errors.ErrUnsupported
	}
	return nil
}

// CheckType returns an error if iWARP has no queue pairs of a type: it has RC alone, and
// so neither datagrams nor multicast.
func CheckType(t qp.Type) error {
	if t == qp.RC {
		return nil
	}
	return &Error{reason.Detail{Reason: reason.IWARPType, Expected: uint64(qp.RC), Found: uint64(t)}}
}
