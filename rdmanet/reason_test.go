package rdmanet

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"softrdma/verbs"
)

// Calls that the program itself has ended fail with the error of package net and with
// a named reason.
func TestEndedCallsNameTheirReason(t *testing.T) {
	l, d := listen(t, ListenConfig{}), dialer(t)
	a, _ := dial(t, d, l)
	b := []byte("data")
	a.SetDeadline(time.Now().Add(-time.Second))
	_, late := a.Read(b)
	a.SetDeadline(time.Time{})
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_, shut := a.Write(b)
	buffer := a.SetReadBuffer(1 << 30)
	a.SetLinger(0)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	_, read := a.Read(b)
	_, write := a.Write(b)
	_, mapped := a.MapMemory(make([]byte, 4096), 0)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, dialEnded := d.DialContext(over, "rdma", l.Addr().String())
	slow := *d
	slow.Timeout = time.Nanosecond
	_, dialLate := slow.Dial("rdma", l.Addr().String())
	l.SetDeadline(time.Now().Add(-time.Second))
	_, acceptLate := l.Accept()
	l.SetDeadline(time.Time{})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, accept := l.Accept()
	for _, c := range []struct {
		what    string
		err     error
		is      error
		reason  string
		timeout bool
	}{
		{"read after the deadline", late, os.ErrDeadlineExceeded, "WAIT_ENDED", true},
		{"write after CloseWrite", shut, syscall.EPIPE, "SOCKET_SHUT", false},
		{"larger buffer", buffer, errors.ErrUnsupported, "UNSUPPORTED", false},
		{"read after Close", read, net.ErrClosed, "SOCKET_CLOSED", false},
		{"write after Close", write, net.ErrClosed, "SOCKET_CLOSED", false},
		{"map after Close", mapped, net.ErrClosed, "SOCKET_CLOSED", false},
		{"second Close", a.Close(), net.ErrClosed, "SOCKET_CLOSED", false},
		{"dial with an ended context", dialEnded, context.Canceled, "WAIT_ENDED", false},
		{"dial that takes too long", dialLate, context.DeadlineExceeded, "WAIT_ENDED", true},
		{"accept after the deadline", acceptLate, os.ErrDeadlineExceeded, "WAIT_ENDED", true},
		{"accept after Close", accept, net.ErrClosed, "SOCKET_CLOSED", false},
		{"second Close of the listener", l.Close(), net.ErrClosed, "SOCKET_CLOSED", false},
	} {
		var why verbs.ReasonError
		if !errors.Is(c.err, c.is) || !errors.As(c.err, &why) || why.Reason() != c.reason {
			t.Errorf("%s: found reason %v of %v, expected %s and %v", c.what, why, c.err, c.reason, c.is)
		}
		var n net.Error
		if !errors.As(c.err, &n) || n.Timeout() != c.timeout {
			t.Errorf("%s: %v is a timeout: expected %v", c.what, c.err, c.timeout)
		}
	}
}
