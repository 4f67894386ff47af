// Package rmpp has the machines of the reliable multi-packet protocol (IBTA
// 13.6): a Sender for one transfer that leaves, and a Receiver for one that
// arrives. They do no I/O and read no clock. The caller knows to which transfer
// a datagram belongs: by peer, class, and transaction.
package rmpp

import (
	"time"

	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/rmpp"
)

// Never is a deadline that does not come.
const Never time.Duration = 1<<63 - 1

// segmentLen is the payload of a full segment: the class's header and data.
const segmentLen = mad.Len - rmpp.At - rmpp.Len

// Window is how many segments a receiver lets the sender send before an ACK.
const Window = 32

// A Config has the limits of a transfer.
type Config struct {
	HeaderLen int           // of the class, after the RMPP header of each segment
	Timeout   time.Duration // of a sender for an ACK, of a receiver for the next segment
	Retries   int           // of a sender
	MaxLen    int           // of the data that a receiver takes
}

// A Sender sends data as segments.
type Sender struct {
	config   Config
	first    [mad.Len]byte // headers of every segment
	data     []byte
	segments uint32
	next     uint32 // segment to send
	sent     uint32 // last segment that was ever sent
	acked    uint32 // segments that arrived
	window   uint32 // last segment of the window
	retries  int
	deadline time.Duration
	abort    rmpp.Status // to be sent
	status   rmpp.Status
	done     bool
}

// NewSender returns a sender of data, which it keeps until the transfer ends.
// The datagram has the headers that every segment has: the common one and the
// class's.
func NewSender(c *Config, d *[mad.Len]byte, data []byte) *Sender {
	room := segmentLen - c.HeaderLen
	n := max((len(data)+room-1)/room, 1)
	return &Sender{config: *c, first: *d, data: data, segments: uint32(n), next: 1, window: 1, deadline: Never}
}

// Segments returns the number of segments of the transfer.
func (s *Sender) Segments() int { return int(s.segments) }

// Done reports whether the transfer has ended, and why.
func (s *Sender) Done() (rmpp.Status, bool) { return s.status, s.done && s.abort == 0 }

// Deadline returns when Next has something to send if no ACK comes.
func (s *Sender) Deadline() time.Duration { return s.deadline }

// Next writes the next packet to send, and reports whether there is one.
func (s *Sender) Next(now time.Duration, d *[mad.Len]byte) bool {
	if now >= s.deadline {
		s.expire()
	}
	if s.abort != 0 {
		*d = s.first
		h := rmpp.Header{Version: rmpp.Version, Type: rmpp.Abort, Flags: rmpp.Active, Status: s.abort}
		h.Put(d)
		s.abort = 0
		return true
	}
	if s.done || s.next > min(s.window, s.segments) {
		return false
	}
	s.segment(s.next, d)
	s.sent = max(s.sent, s.next)
	s.next++
	if s.next > min(s.window, s.segments) {
		s.deadline = now + s.config.Timeout
	}
	return true
}

// expire sends again from the first segment without an ACK, or gives up (IBTA
// 13.6.6.2).
func (s *Sender) expire() {
	s.deadline = Never
	if s.retries == s.config.Retries {
		s.fail(rmpp.StatusRetries)
		return
	}
	s.retries++
	s.next = s.acked + 1
}

// fail ends the transfer with an ABORT.
func (s *Sender) fail(status rmpp.Status) {
	s.abort, s.status, s.done, s.deadline = status, status, true, Never
}

// segment writes a segment (IBTA 13.6.2.3).
func (s *Sender) segment(n uint32, d *[mad.Len]byte) {
	room := segmentLen - s.config.HeaderLen
	*d = s.first
	at := mad.Len - room
	part := s.data[min(int(n-1)*room, len(s.data)):]
	clear(d[at+copy(d[at:], part):])
	h := rmpp.Header{Version: rmpp.Version, Type: rmpp.Data, RespTime: rmpp.NoResponseTime, Flags: rmpp.Active, Segment: n}
	if n == 1 {
		h.Flags |= rmpp.First
		h.Second = s.segments*uint32(s.config.HeaderLen) + uint32(len(s.data))
	}
	if n == s.segments {
		h.Flags |= rmpp.Last
		h.Second = uint32(s.config.HeaderLen + len(part))
	}
	h.Put(d)
}

// Receive handles a packet of the peer's receiver.
func (s *Sender) Receive(now time.Duration, h *rmpp.Header) {
	if s.done {
		return
	}
	switch {
	case h.Version != rmpp.Version:
		s.fail(rmpp.StatusVersion)
	case h.Type == rmpp.Stop || h.Type == rmpp.Abort:
		s.status, s.done, s.deadline = endStatus(h), true, Never
	case h.Type != rmpp.ACK:
		s.fail(rmpp.StatusType)
	case h.Status != rmpp.StatusNormal:
		s.fail(rmpp.StatusIllegal)
	default:
		s.ack(now, h)
	}
}

// endStatus returns the status of a STOP or ABORT, one that does not look like
// success.
func endStatus(h *rmpp.Header) rmpp.Status {
	if h.Status == rmpp.StatusNormal {
		return rmpp.StatusUnspecified
	}
	return h.Status
}

func (s *Sender) ack(now time.Duration, h *rmpp.Header) {
	switch {
	case h.Segment > s.sent:
		s.fail(rmpp.StatusSegment)
		return
	case h.Second < h.Segment:
		s.fail(rmpp.StatusWindowSmall)
		return
	case h.Segment < s.acked: // an old one
		return
	case h.Segment == s.segments:
		s.done, s.deadline = true, Never
		return
	}
	if h.Segment > s.acked {
		s.acked, s.retries = h.Segment, 0
		s.next = max(s.next, s.acked+1)
	}
	s.window = max(s.window, h.Second)
	if s.next <= min(s.window, s.segments) {
		s.deadline = Never
	} else {
		s.deadline = now + s.config.Timeout
	}
}
