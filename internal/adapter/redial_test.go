package adapter

import (
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/iwarp"
	"softrdma/internal/link"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// If a peer closes the connection after a request of revision 2, the request is repeated with
// revision 1 and the same private data. The program learns only the final outcome.
func TestDialRetriesWithRevision1(t *testing.T) {
	for name, end := range map[string]error{"closed": io.EOF, "reset": syscall.ECONNRESET} {
		t.Run(name, func(t *testing.T) {
			e := newStreamEnd(t)
			private := []byte("hello")
			c := e.dial(iwarp.Params{IRD: 3, ORD: 4, Private: private})
			copy(private, "XXXXX") // the program may reuse it after Dial returns
			if got := string(e.connect()); !strings.HasPrefix(got, "MPA ID Req Frame\x5c\x02\x00\x09") || !strings.HasSuffix(got, "hello") {
				t.Fatalf("sent %q", got)
			}
			first := e.stream()
			e.breaks(end)
			if len(e.link.dialed) != 2 || !first.closed || len(e.events) != 0 {
				t.Fatalf("dialled %d times, closed %t, heard %+v", len(e.link.dialed), first.closed, e.events)
			}
			if got := string(e.connect()); got != "MPA ID Req Frame\x4c\x01\x00\x05hello" {
				t.Fatalf("sent %q", got)
			}
			e.receive(replyOf("welcome"))
			if len(e.events) != 1 || e.events[0].Kind != iwarp.Established || e.events[0].On != c || string(e.events[0].Private) != "welcome" ||
				e.events[0].Agreement != (iwarp.Agreement{Revision: 1, CRC: true, IRD: 3, ORD: 4}) {
				t.Fatalf("heard %+v", e.events)
			}
			if c.Local() != e.stream().local || e.qp.Query().State != qp.RTS || e.dev.Trace.Counter(reason.MPAFallback) != 1 {
				t.Errorf("local %v, %v, told %d times", c.Local(), e.qp.Query().State, e.dev.Trace.Counter(reason.MPAFallback))
			}
			if len(e.sent()) == 0 {
				t.Error("the initiator's first FPDU was not sent")
			}
		})
	}
}

// The outcome of the second request is reported. If it does not reach the peer, that of the first
// is.
func TestDialRetriesOnce(t *testing.T) {
	for name, second := range map[string]func(e *streamEnd){
		"closed":  func(e *streamEnd) { e.connect(); e.breaks(io.EOF) },
		"refused": func(e *streamEnd) { e.stream().connects = syscall.ECONNREFUSED; e.tell(link.Readiness{Writable: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			e := newStreamEnd(t)
			e.dial(iwarp.Params{})
			e.connect()
			e.breaks(io.EOF)
			second(e)
			e.failed(2)
		})
	}
	t.Run("no connection", func(t *testing.T) {
		e := newStreamEnd(t)
		e.dial(iwarp.Params{})
		e.connect()
		e.link.refuse = syscall.EADDRINUSE
		e.breaks(io.EOF)
		e.failed(1)
	})
}

// failed checks that the set-up failed after the given number of connections and that nothing is
// left of it.
func (e *streamEnd) failed(dialed int) {
	e.t.Helper()
	if len(e.link.dialed) != dialed || len(e.events) != 1 || e.events[0].Kind != iwarp.Refused || e.events[0].Detail.Reason != reason.StreamClosed {
		e.t.Fatalf("dialled %d times, heard %+v", len(e.link.dialed), e.events)
	}
	e.gone()
	e.link.refuse = nil
	e.dial(iwarp.Params{})
	if n, _ := e.dev.StreamCount(); n != 1 { // so the queue pair is free
		e.t.Error("the queue pair cannot be connected")
	}
}

// gone checks that no stream is left.
func (e *streamEnd) gone() {
	e.t.Helper()
	for i, c := range e.link.dialed {
		if !c.closed {
			e.t.Errorf("connection %d is open", i)
		}
	}
	if n, _ := e.dev.StreamCount(); n != 0 || e.dev.lanes[0].tasks.Timers() != 0 {
		e.t.Errorf("%d streams, %d timers are left", n, e.dev.lanes[0].tasks.Timers())
	}
}

// A program that requires a revision gets no retry with another.
func TestDialWithARevisionDoesNotRetry(t *testing.T) {
	for revision := range uint8(2) {
		e := newStreamEnd(t)
		e.dial(iwarp.Params{Revision: 1 + revision})
		e.connect()
		e.breaks(io.EOF)
		e.failed(1)
	}
}

// A released stream is closed at once in any phase of its set-up, and there is no retry.
func TestReleaseInSetUpClosesAtOnce(t *testing.T) {
	for name, until := range map[string]func(e *streamEnd){
		"dialling":       func(*streamEnd) {},
		"asked":          func(e *streamEnd) { e.connect() },
		"dialling again": func(e *streamEnd) { e.connect(); e.breaks(io.EOF) },
		"asked again":    func(e *streamEnd) { e.connect(); e.breaks(io.EOF); e.connect() },
	} {
		t.Run(name, func(t *testing.T) {
			e := newStreamEnd(t)
			c := e.dial(iwarp.Params{})
			until(e)
			n := len(e.link.dialed)
			c.Release()
			e.gone()
			if e.breaks(io.EOF); len(e.link.dialed) != n || len(e.events) != 0 {
				t.Errorf("dialled %d times more, heard %+v", len(e.link.dialed)-n, e.events)
			}
		})
	}
}

// The same holds if its queue pair is destroyed.
func TestDestroyInSetUpClosesAtOnce(t *testing.T) {
	e := newStreamEnd(t)
	e.dial(iwarp.Params{})
	e.check(e.qp.Destroy())
	e.gone()
}

// A peer that does not accept the connection is reported differently from one that does not answer.
func TestDialThatDoesNotConnectTimesOut(t *testing.T) {
	e := newStreamEnd(t)
	e.dial(iwarp.Params{})
	for len(e.events) == 0 && e.now < time.Minute {
		e.pass()
	}
	want := reason.Detail{Reason: reason.ConnectFailed, Expected: uint64(stubPeer.Port()), Found: uint64(syscall.ETIMEDOUT)}
	if len(e.events) != 1 || e.events[0].Kind != iwarp.Refused || e.events[0].Detail != want {
		t.Fatalf("heard %+v, expected %v", e.events, want)
	}
	e.gone()
	if len(e.link.dialed) != 1 || e.qp.Query().State != qp.Init {
		t.Errorf("dialled %d times, %v", len(e.link.dialed), e.qp.Query().State)
	}
}
