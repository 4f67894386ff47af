package reason

// An Error is a refusal as an error. It implements verbs.ReasonError, which
// programs look for with errors.As.
type Error struct {
	Detail Detail
	Cause  error // what Unwrap returns: errors.ErrUnsupported or another sentinel; nil for none
}

// Err returns the detail as an error, nil for None.
func (d Detail) Err() error {
	if d.Reason == None {
		return nil
	}
	return &Error{Detail: d}
}

// Error returns the sentence with both numbers.
func (e *Error) Error() string { return e.Detail.String() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Reason returns the name of the reason.
func (e *Error) Reason() string { return e.Detail.Reason.String() }

// Expected returns what was expected. What the number means depends on the
// reason.
func (e *Error) Expected() uint64 { return e.Detail.Expected }

// Found returns what was found.
func (e *Error) Found() uint64 { return e.Detail.Found }
