package coll

import (
	"errors"
	"fmt"
)

// The errors of groups.
var (
	// ErrMember is matched by the errors of calls on a group of which a member has failed.
	ErrMember = errors.New("a member has failed")
	// ErrGone is matched by the error about a member whose process or device has ended.
	ErrGone = errors.New("member is gone")
	// ErrLeft is matched by the error about a member that has closed the group.
	ErrLeft = errors.New("member has closed the group")
	// ErrCall is matched by the error about members that call different operations, or use
	// different algorithms.
	ErrCall = errors.New("members call different operations")
	// ErrLength is matched by the error about slices whose lengths do not fit together.
	ErrLength = errors.New("lengths do not fit together")
	// ErrContext is matched by the error about a member whose context has ended in a call.
	ErrContext = errors.New("context has ended")
	// ErrAborted is matched by the error about a member that called Abort.
	ErrAborted = errors.New("member has aborted")
	// ErrBusy is matched by the error of a call on a group that executes another call.
	ErrBusy = errors.New("the group is in another call")
	// ErrClosed is matched by the error of a call on a closed group.
	ErrClosed = errors.New("the group is closed")
	// ErrElement is matched by the error of a call on elements that contain pointers.
	ErrElement = errors.New("elements contain pointers")
)

// A MemberError says which member of a group has failed, and why. It matches ErrMember.
type MemberError struct {
	Rank int   // in the group
	Err  error // matches one of ErrGone, ErrLeft, ErrCall, ErrLength, ErrContext, ErrAborted, ErrElement
}

func (e *MemberError) Error() string { return fmt.Sprintf("coll: rank %d: %v", e.Rank, e.Err) }

// Unwrap returns ErrMember and the cause.
func (e *MemberError) Unwrap() []error { return []error{ErrMember, e.Err} }

// causes are the errors that members tell each other, by number.
var causes = []error{ErrGone, ErrLeft, ErrCall, ErrLength, ErrContext, ErrAborted, ErrElement}

// maxText is the length of the longest text of an error that members tell each other, in bytes.
const maxText = 240

// notice returns the message about a failure.
//
//	number of the cause (1 byte) | rank (2 bytes) | text
func notice(e *MemberError) []byte {
	n := 0
	for i, cause := range causes {
		if errors.Is(e.Err, cause) {
			n = i
		}
	}
	text := e.Err.Error()
	return append([]byte{byte(n), byte(e.Rank >> 8), byte(e.Rank)}, text[:min(len(text), maxText)]...)
}

// A told error is that of another member.
type told struct {
	cause error
	text  string
}

func (t *told) Error() string { return t.text }
func (t *told) Unwrap() error { return t.cause }

// parseNotice reads the message about a failure in a group of n members, which sender sent. A
// message that no member sends is the sender's failure.
func parseNotice(b []byte, n, sender int) *MemberError {
	if len(b) < 3 || int(b[0]) >= len(causes) || len(b) > 3+maxText || int(b[1])<<8|int(b[2]) >= n {
		return &MemberError{sender, fmt.Errorf("%w: it sent a notice that is not understood", ErrGone)}
	}
	return &MemberError{int(b[1])<<8 | int(b[2]), &told{causes[b[0]], string(b[3:])}}
}

func errRoot(rank, n int) error {
	return fmt.Errorf("%w: root %d, expected 0 to %d", ErrCall, rank, n-1)
}
