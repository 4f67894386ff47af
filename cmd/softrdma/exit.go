package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"softrdma/verbs"
)

// The exit codes, which scripts may rely on; exitCodesText documents them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitPeer        = 3
	exitData        = 4
	exitInterrupted = 130
)

const exitCodesText = `softrdma ends with one of these codes:

    0   success
    1   the operation failed; the line on standard error says why
    2   the command line is wrong
    3   the peer could not be reached, went away or did not answer in time
    4   data arrived that differs from what was sent
  130   interrupted by SIGINT (Ctrl-C) or SIGTERM, which end softrdma daemon with 0

Every failure prints one line on standard error. Where it names a status or a
reason, "softrdma explain NAME" tells its cause and what usually mends it.
`

// An exitError is an error with the code that the command ends with.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usageErrorf makes an error of the command line.
func usageErrorf(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// peerErrorf makes an error of a peer that is not reached or does not answer.
func peerErrorf(format string, args ...any) error {
	return &exitError{exitPeer, fmt.Errorf(format, args...)}
}

// dataErrorf makes an error of data that differs from what was sent.
func dataErrorf(format string, args ...any) error {
	return &exitError{exitData, fmt.Errorf(format, args...)}
}

// exitCode is the code that a command ends with after err.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if e := (*exitError)(nil); errors.As(err, &e) {
		return e.code
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return exitPeer
	}
	if c := (*verbs.CompletionError)(nil); errors.As(err, &c) {
		switch c.Status {
		case verbs.RetryExcErr, verbs.RNRRetryExcErr, verbs.RespTimeoutErr:
			return exitPeer
		}
	}
	return exitFailed
}

// oneLine is the message of an error without line breaks.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}
