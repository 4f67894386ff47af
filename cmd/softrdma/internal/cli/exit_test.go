package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"softrdma/verbs"
)

func TestExitCodeOfErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, ExitOK},
		{errors.New("x"), ExitFailed},
		{fmt.Errorf("y: %w", UsageErrorf("x")), ExitUsage},
		{errors.Join(errors.New("x"), PeerErrorf("y")), ExitPeer},
		{DataErrorf("x"), ExitData},
		{context.DeadlineExceeded, ExitPeer},
		{fmt.Errorf("x: %w", os.ErrDeadlineExceeded), ExitPeer},
		{&verbs.CompletionError{Status: verbs.RetryExcErr}, ExitPeer},
		{&verbs.CompletionError{Status: verbs.RNRRetryExcErr}, ExitPeer},
		{&verbs.CompletionError{Status: verbs.RemAccessErr}, ExitFailed},
	} {
		if got := ExitCode(c.err); got != c.code {
			t.Errorf("%v: code %d, expected %d", c.err, got, c.code)
		}
	}
}

func TestOneLineJoinsErrors(t *testing.T) {
	if got := OneLine(errors.Join(errors.New("a"), errors.New("b"))); got != "a; b" {
		t.Errorf("found %q", got)
	}
}

// Errors may have text of peers. A terminal must not take it for commands.
func TestOneLineEscapesWhatIsNotText(t *testing.T) {
	err := errors.New("x\x1b[2J\r\ny\u202e\xff z\tü")
	if got, want := OneLine(err), "x\\x1b[2J; y\\u202e\\xff z\tü"; got != want {
		t.Errorf("found %q, expected %q", got, want)
	}
}

// The line about a failure contains the name of its reason once.
func TestLineNamesTheReason(t *testing.T) {
	_, unknown := verbs.Open("no-such-device", verbs.Config{})
	var why verbs.ReasonError
	if !errors.As(unknown, &why) {
		t.Fatalf("%v has no named reason", unknown)
	}
	name := " (see: softrdma explain " + why.Reason() + ")"
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("x"), "x"},
		{unknown, unknown.Error() + name},
		{fmt.Errorf("%s: %w", why.Reason(), unknown), why.Reason() + ": " + unknown.Error()},
		{fmt.Errorf("daemon on x: CLIENT_USER: %w", unknown), "daemon on x: CLIENT_USER: " + unknown.Error()},
		{PeerErrorf("start it there first: %w", unknown), "start it there first: " + unknown.Error()},
		{UsageErrorf("-d: %w", unknown), "-d: " + unknown.Error()},
	} {
		if got := Line(c.err); got != c.want {
			t.Errorf("expected %q, found %q", c.want, got)
		}
	}
}
