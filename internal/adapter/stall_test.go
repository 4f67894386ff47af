package adapter

import (
	"io"
	"testing"
	"time"

	"softrdma/internal/iwarp"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// stalled returns an end that has read the first of two messages and has no receive. The second
// message is still in the socket.
func stalled(t *testing.T) *streamEnd {
	t.Helper()
	e := newStreamEnd(t)
	e.establish()
	e.receive(message(1))
	e.receive(message(2))
	if len(e.stream().in) == 0 || len(e.events) != 0 || e.dev.lanes[0].carrier.Next() == 0 {
		t.Fatalf("%d bytes are unread, heard %+v, next %v", len(e.stream().in), e.events, e.dev.lanes[0].carrier.Next())
	}
	return e
}

// pass advances the time to the device's next deadline.
func (e *streamEnd) pass() {
	if next := e.dev.lanes[0].carrier.Next(); next != machine.Never {
		e.now = max(e.now, next)
	}
	e.dev.Progress()
}

// A message that arrives before its receive is posted waits. Data after it waits in the socket.
func TestMessageWaitsForItsReceive(t *testing.T) {
	e := stalled(t)
	for range 20 {
		e.pass()
	}
	e.recv()
	e.pass()
	if list := e.completions(); len(list) != 1 || list[0].Status != queue.Success || list[0].ByteLen != 8 {
		t.Fatalf("completions %+v", list)
	}
	e.recv()
	e.pass()
	if list := e.completions(); len(list) != 1 || list[0].Status != queue.Success {
		t.Fatalf("completions %+v", list)
	}
	// The device continues to read: another message, and the peer's end.
	e.recv()
	e.receive(message(3))
	if list := e.completions(); len(list) != 1 || list[0].Status != queue.Success {
		t.Fatalf("completions %+v", list)
	}
	e.breaks(io.EOF)
	e.gone()
}

// The wait is bounded and ends with the connection.
func TestMessageWithoutReceiveEndsTheConnection(t *testing.T) {
	e := stalled(t)
	for len(e.events) == 0 && e.now < time.Minute {
		e.pass()
	}
	if len(e.events) != 1 || e.events[0].Kind != iwarp.Closed || e.events[0].Detail.Reason != reason.DDPNoBuffer || e.now > 2*time.Second {
		t.Fatalf("heard %+v at %v", e.events, e.now)
	}
	e.breaks(io.EOF)
	e.gone()
}

// A stream released while a message waits is read to its end and leaves nothing behind.
func TestReleaseWhileAMessageWaits(t *testing.T) {
	for name, end := range map[string]func(e *streamEnd, c *Stream){
		"released":  func(_ *streamEnd, c *Stream) { c.Release() },
		"destroyed": func(e *streamEnd, _ *Stream) { e.check(e.qp.Destroy()) },
	} {
		t.Run(name, func(t *testing.T) {
			e := stalled(t)
			end(e, e.stream().owner.(*Stream))
			e.dev.Progress()
			if len(e.stream().in) != 0 || !e.stream().halved {
				t.Errorf("%d bytes are unread, shut %t", len(e.stream().in), e.stream().halved)
			}
			e.stream().readErr = io.EOF
			e.tell(link.Readiness{Readable: true, Hangup: true})
			e.gone()
		})
	}
}
