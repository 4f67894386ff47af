package reason

import (
	"errors"
	"fmt"
)

// An Error is a refusal as an error. It implements verbs.ReasonError, which
// programs look for with errors.As.
type Error struct {
	Detail Detail
	Text   string // what Error returns; "" means the sentence of the detail
	Cause  error  // what Unwrap returns: a sentinel, or nil
}

// Err returns the detail as an error, nil if the reason is None.
func (d Detail) Err() error {
	if d.Reason == None {
		return nil
	}
	return &Error{Detail: d}
}

// Sentinel returns an error for errors.Is that has a reason. Both numbers are 0.
func Sentinel(r Reason, text string) error { return &Error{Detail: Detail{Reason: r}, Text: text} }

// BadArgument returns the refusal of an argument, with a text of its own. Limit
// is the highest value allowed, or 0.
func BadArgument(limit, found uint64, format string, args ...any) error {
	return &Error{Detail: Detail{Reason: Argument, Expected: limit, Found: found}, Text: fmt.Sprintf(format, args...)}
}

// NotSupported returns the refusal of what a device or transport does not have,
// with a text of its own. It wraps errors.ErrUnsupported.
func NotSupported(format string, args ...any) error {
	return &Error{Detail: Detail{Reason: Unsupported}, Text: fmt.Sprintf(format, args...), Cause: errors.ErrUnsupported}
}

// Error returns the text, or the sentence with both numbers.
func (e *Error) Error() string {
	if e.Text != "" {
		return e.Text
	}
	return e.Detail.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Reason returns the name of the reason.
func (e *Error) Reason() string { return e.Detail.Reason.String() }

// Expected returns what was expected. What the number means depends on the
// reason.
func (e *Error) Expected() uint64 { return e.Detail.Expected }

// Found returns what was found.
func (e *Error) Found() uint64 { return e.Detail.Found }
