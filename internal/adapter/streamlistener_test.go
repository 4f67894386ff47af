package adapter

import (
	"io"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/adapter/stream"
	"softrdma/internal/iwarp"
	"softrdma/internal/link"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	wire "softrdma/internal/wire/iwarp"
)

// arrive connects n peers to the listener.
func (e *streamEnd) arrive(n int) {
	e.link.listen.come += n
	e.link.ready = append(e.link.ready, link.Readiness{Owner: e.link.listen.owner, Readable: true})
	e.dev.Progress()
}

// request returns a request of revision 1.
func request() []byte {
	f := wire.Frame{Flags: wire.FlagCRC, Revision: 1}
	b := make([]byte, wire.FrameLen)
	f.Put(b)
	return b
}

// asked listens and returns the stream of a request.
func (e *streamEnd) asked() *Stream {
	e.t.Helper()
	if e.link.listen == nil {
		if _, err := e.dev.ListenStream(7, 4, e.handle); err != nil {
			e.t.Fatal(err)
		}
	}
	e.arrive(1)
	e.receive(request())
	if len(e.events) == 0 || e.events[len(e.events)-1].Kind != iwarp.Requested {
		e.t.Fatalf("heard %+v", e.events)
	}
	return e.events[len(e.events)-1].On
}

// If a request cannot be accepted with a queue pair, the queue pair and its connection are
// unchanged.
func TestAcceptWithAConnectedQueuePairIsRefused(t *testing.T) {
	e := newStreamEnd(t)
	e.establish()
	first := e.stream()
	c := e.asked()
	if err := c.Accept(e.qp.QPN, &iwarp.Params{}); err == nil {
		t.Fatal("accepted")
	}
	e.post(1, queue.Write)
	if len(first.out) == 0 || e.qp.Query().State != qp.RTS {
		t.Errorf("sent %d bytes in %v", len(first.out), e.qp.Query().State)
	}
	if err := c.Reject(nil); err != nil {
		t.Errorf("rejecting it then: %v", err)
	}
	e.check(e.qp.Destroy())
	if !first.halved {
		t.Error("the connection does not end with its queue pair")
	}
}

// If the system had no descriptor for a peer, the next free descriptor goes to that peer, even if
// no other peer connects.
func TestListenerTriesAgainWhenAStreamEnds(t *testing.T) {
	e := newStreamEnd(t)
	e.establish()
	first := e.stream()
	if _, err := e.dev.ListenStream(7, 4, e.handle); err != nil {
		t.Fatal(err)
	}
	e.link.listen.err = syscall.EMFILE
	e.arrive(1)
	if e.stream() != first {
		t.Fatal("accepted")
	}
	e.link.listen.err = nil
	e.breaks(io.EOF)
	if !first.closed || e.stream() == first {
		t.Fatalf("closed %t, accepted %t", first.closed, e.stream() != first)
	}
	e.receive(request())
	if e.events[len(e.events)-1].Kind != iwarp.Requested {
		t.Errorf("heard %+v", e.events)
	}
}

// Peers that close in the middle of their request leave nothing behind and free their place.
func TestPeersThatCloseDuringTheirRequestLeaveNothing(t *testing.T) {
	for name, c := range map[string]struct {
		sent []byte
		end  error
	}{
		"nothing, end":    {nil, io.EOF},
		"nothing, reset":  {nil, syscall.ECONNRESET},
		"a part, end":     {request()[:11], io.EOF},
		"a part, reset":   {request()[:19], syscall.ECONNRESET},
		"request, end":    {request(), io.EOF},
		"request, reset":  {request(), syscall.ECONNRESET},
		"more than it":    {append(request(), 1), nil},
		"something else":  {[]byte("GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n"), nil},
		"a wrong version": {[]byte("MPA ID Req Frame\x00\x03\x00\x00"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := newStreamEnd(t)
			x, err := e.dev.ListenStream(7, 1, e.handle)
			e.check(err)
			for range 3 {
				e.arrive(1)
				e.receive(c.sent)
				if c.end != nil {
					e.breaks(c.end)
				}
			}
			if len(e.link.dialed) != 3 || x.Waiting() != 0 {
				t.Errorf("%d accepted, %d waiting", len(e.link.dialed), x.Waiting())
			}
			e.gone()
		})
	}
}

// A host with many silent peers displaces its own, however slow those of others are.
func TestListenerEvictsNoOtherHostsPeer(t *testing.T) {
	e := newStreamEnd(t)
	e.asked()
	e.link.listen.from = netip.MustParseAddr("198.51.100.7")
	e.arrive(1)
	slow := e.link.dialed[len(e.link.dialed)-1]
	e.link.listen.from = netip.Addr{}
	e.arrive(3 * stream.MaxSilent)
	if slow.closed {
		t.Error("the peer of another host was evicted")
	}
	if n := e.dev.Trace.Counter(reason.MPASilent); n != 2*stream.MaxSilent+1 {
		t.Errorf("MPA_SILENT counted %d times, expected %d", n, 2*stream.MaxSilent+1)
	}
}

// Silent peers cannot block the listener: beyond its limit each new peer evicts the oldest silent
// one. Peers that have sent a request stay.
func TestListenerEvictsTheOldestSilentPeer(t *testing.T) {
	const more = 7
	e := newStreamEnd(t)
	first := e.asked()
	e.arrive(stream.MaxSilent)
	for i, c := range e.link.dialed {
		if c.closed {
			t.Fatalf("peer %d of %d was closed", i, len(e.link.dialed))
		}
	}
	e.now += 20 * time.Millisecond
	e.arrive(more)
	for i, c := range e.link.dialed {
		if evicted := i >= 1 && i <= more; c.reset != evicted {
			t.Fatalf("peer %d of %d: reset %t, expected %t", i, len(e.link.dialed), c.reset, evicted)
		}
	}
	if n := e.dev.Trace.Counter(reason.MPASilent); n != more {
		t.Errorf("MPA_SILENT counted %d times, expected %d", n, more)
	}
	e.receive(request()) // from the last peer
	if last := e.events[len(e.events)-1]; last.Kind != iwarp.Requested || last.On == first {
		t.Errorf("heard %+v", last)
	}
	if err := first.Reject(nil); err != nil {
		t.Errorf("the one that asked before: %v", err)
	}
}
