package ucx

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"softrdma/msg"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// A UcsStatus is the result of an operation, or that it is in progress. The numbers are those
// of ucs_status_t.
type UcsStatus int

// The statuses.
const (
	UCS_OK         UcsStatus = 0
	UCS_INPROGRESS UcsStatus = 1

	UCS_ERR_NO_MESSAGE             UcsStatus = -1
	UCS_ERR_NO_RESOURCE            UcsStatus = -2
	UCS_ERR_IO_ERROR               UcsStatus = -3
	UCS_ERR_NO_MEMORY              UcsStatus = -4
	UCS_ERR_INVALID_PARAM          UcsStatus = -5
	UCS_ERR_UNREACHABLE            UcsStatus = -6
	UCS_ERR_INVALID_ADDR           UcsStatus = -7
	UCS_ERR_NOT_IMPLEMENTED        UcsStatus = -8
	UCS_ERR_MESSAGE_TRUNCATED      UcsStatus = -9
	UCS_ERR_NO_PROGRESS            UcsStatus = -10
	UCS_ERR_BUFFER_TOO_SMALL       UcsStatus = -11
	UCS_ERR_NO_ELEM                UcsStatus = -12
	UCS_ERR_SOME_CONNECTS_FAILED   UcsStatus = -13
	UCS_ERR_NO_DEVICE              UcsStatus = -14
	UCS_ERR_BUSY                   UcsStatus = -15
	UCS_ERR_CANCELED               UcsStatus = -16
	UCS_ERR_SHMEM_SEGMENT          UcsStatus = -17
	UCS_ERR_ALREADY_EXISTS         UcsStatus = -18
	UCS_ERR_OUT_OF_RANGE           UcsStatus = -19
	UCS_ERR_TIMED_OUT              UcsStatus = -20
	UCS_ERR_EXCEEDS_LIMIT          UcsStatus = -21
	UCS_ERR_UNSUPPORTED            UcsStatus = -22
	UCS_ERR_REJECTED               UcsStatus = -23
	UCS_ERR_NOT_CONNECTED          UcsStatus = -24
	UCS_ERR_CONNECTION_RESET       UcsStatus = -25
	UCS_ERR_FIRST_LINK_FAILURE     UcsStatus = -40
	UCS_ERR_LAST_LINK_FAILURE      UcsStatus = -59
	UCS_ERR_FIRST_ENDPOINT_FAILURE UcsStatus = -60
	UCS_ERR_ENDPOINT_TIMEOUT       UcsStatus = -80
	UCS_ERR_LAST_ENDPOINT_FAILURE  UcsStatus = -89
	UCS_ERR_LAST                   UcsStatus = -100
)

var statusTexts = map[UcsStatus]string{
	UCS_OK:                       "success",
	UCS_INPROGRESS:               "in progress",
	UCS_ERR_NO_MESSAGE:           "no message",
	UCS_ERR_NO_RESOURCE:          "out of resources",
	UCS_ERR_IO_ERROR:             "input or output failed",
	UCS_ERR_NO_MEMORY:            "out of memory",
	UCS_ERR_INVALID_PARAM:        "invalid parameter",
	UCS_ERR_UNREACHABLE:          "peer unreachable",
	UCS_ERR_INVALID_ADDR:         "invalid address",
	UCS_ERR_NOT_IMPLEMENTED:      "not implemented",
	UCS_ERR_MESSAGE_TRUNCATED:    "message truncated",
	UCS_ERR_NO_PROGRESS:          "no progress",
	UCS_ERR_BUFFER_TOO_SMALL:     "buffer too small",
	UCS_ERR_NO_ELEM:              "no such element",
	UCS_ERR_SOME_CONNECTS_FAILED: "some connections failed",
	UCS_ERR_NO_DEVICE:            "no device",
	UCS_ERR_BUSY:                 "busy",
	UCS_ERR_CANCELED:             "canceled",
	UCS_ERR_SHMEM_SEGMENT:        "shared memory failed",
	UCS_ERR_ALREADY_EXISTS:       "exists already",
	UCS_ERR_OUT_OF_RANGE:         "out of range",
	UCS_ERR_TIMED_OUT:            "timed out",
	UCS_ERR_EXCEEDS_LIMIT:        "limit exceeded",
	UCS_ERR_UNSUPPORTED:          "unsupported",
	UCS_ERR_REJECTED:             "rejected by the peer",
	UCS_ERR_NOT_CONNECTED:        "not connected",
	UCS_ERR_CONNECTION_RESET:     "connection ended by the peer",
	UCS_ERR_ENDPOINT_TIMEOUT:     "the peer does not answer",
}

// String describes the status.
func (m UcsStatus) String() string {
	if s, ok := statusTexts[m]; ok {
		return s
	}
	return fmt.Sprintf("status %d", int(m))
}

// A UcxError is the error with a status. It may wrap an error of package msg that says more.
type UcxError struct {
	status UcsStatus
	cause  error
}

// NewUcxError returns an error with a status.
func NewUcxError(status UcsStatus) error { return &UcxError{status: status} }

// Error describes the status, and the cause if it is known.
func (e *UcxError) Error() string {
	if e.cause != nil {
		return e.status.String() + ": " + e.cause.Error()
	}
	return e.status.String()
}

// GetStatus returns the status.
func (e *UcxError) GetStatus() UcsStatus { return e.status }

// Unwrap returns the cause, or nil.
func (e *UcxError) Unwrap() error { return e.cause }

// Is reports whether target has the same status, or is errors.ErrUnsupported and the status says so.
func (e *UcxError) Is(target error) bool {
	if x, ok := target.(*UcxError); ok {
		return x.status == e.status
	}
	return target == errors.ErrUnsupported && e.status == UCS_ERR_UNSUPPORTED
}

// failure returns the UcxError of an error, or nil.
func failure(err error) error {
	if err == nil {
		return nil
	}
	if x, ok := err.(*UcxError); ok {
		return x
	}
	return &UcxError{statusOf(err), err}
}

// statuses are the statuses of errors. The first that matches counts.
var statuses = []struct {
	err    error
	status UcsStatus
}{
	{msg.ErrTruncated, UCS_ERR_MESSAGE_TRUNCATED},
	{msg.ErrCanceled, UCS_ERR_CANCELED},
	{msg.ErrClosed, UCS_ERR_CANCELED}, // closed by this program; ErrPeer matches, too
	{context.Canceled, UCS_ERR_CANCELED},
	{msg.ErrNoListener, UCS_ERR_NOT_CONNECTED},
	{msg.ErrAddress, UCS_ERR_INVALID_ADDR},
	{msg.ErrVersion, UCS_ERR_UNREACHABLE},
	{msg.ErrStale, UCS_ERR_UNREACHABLE},
	{msg.ErrHandler, UCS_ERR_INVALID_PARAM},
	{msg.ErrTooLong, UCS_ERR_INVALID_PARAM},
	{msg.ErrReceived, UCS_ERR_INVALID_PARAM},
	{rdmacm.ErrDisconnected, UCS_ERR_CONNECTION_RESET},
	{msg.ErrPeer, UCS_ERR_ENDPOINT_TIMEOUT},
	{context.DeadlineExceeded, UCS_ERR_TIMED_OUT},
	{errors.ErrUnsupported, UCS_ERR_UNSUPPORTED},
	{rdmacm.ErrAddrInUse, UCS_ERR_BUSY},
	{rdmacm.ErrAddrNotAvail, UCS_ERR_BUSY},
	{syscall.EADDRINUSE, UCS_ERR_BUSY},
	{syscall.ENOMEM, UCS_ERR_NO_MEMORY},
	{verbs.ErrClosed, UCS_ERR_NO_DEVICE},
}

func statusOf(err error) UcsStatus {
	if err == nil {
		return UCS_OK
	}
	var rejected *msg.RejectedError
	if errors.As(err, &rejected) {
		return UCS_ERR_REJECTED
	}
	var data msg.Rejection // perhaps by a program that does not use this package
	if errors.As(err, &data) && data <= msg.Rejection(-UCS_ERR_LAST) {
		return -UcsStatus(data)
	}
	var resolve *rdmacm.ResolveError
	var unreachable *rdmacm.UnreachableError
	if errors.As(err, &resolve) || errors.As(err, &unreachable) {
		return UCS_ERR_UNREACHABLE
	}
	var known *UcxError
	if errors.As(err, &known) {
		return known.status
	}
	for _, x := range statuses {
		if errors.Is(err, x.err) {
			return x.status
		}
	}
	var refused *rdmacm.RejectedError // the peer is not a worker of this version
	if errors.As(err, &refused) {
		return UCS_ERR_REJECTED
	}
	return UCS_ERR_IO_ERROR
}
