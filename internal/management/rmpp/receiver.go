package rmpp

import (
	"time"

	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/rmpp"
)

// A Receiver assembles the segments of a transfer. After the last it answers
// repetitions until its deadline, when the caller forgets it.
type Receiver struct {
	config   Config
	first    [mad.Len]byte // the first segment, for its headers
	data     []byte
	expected uint32 // segment
	window   uint32 // last segment of the window
	deadline time.Duration
	reply    rmpp.Header // to be sent unless its type is None
	status   rmpp.Status
	complete bool
	done     bool
}

// NewReceiver returns the receiver of a transfer that begins with a datagram,
// which the caller passes to Receive next.
func NewReceiver(c *Config, now time.Duration, d *[mad.Len]byte) *Receiver {
	return &Receiver{config: *c, first: *d, expected: 1, window: 1, deadline: now + c.Timeout}
}

// Data returns the data without the headers of the segments, and reports
// whether it is complete. The datagram has the headers of the first segment.
func (r *Receiver) Data() (d *[mad.Len]byte, data []byte, complete bool) {
	return &r.first, r.data, r.complete
}

// Done reports whether no more data arrives, and why.
func (r *Receiver) Done() (rmpp.Status, bool) { return r.status, r.done }

// Deadline returns when Expire ends the transfer.
func (r *Receiver) Deadline() time.Duration { return r.deadline }

// Expire ends the transfer at its deadline, and reports whether the caller may
// forget it after it sent what Next returns.
func (r *Receiver) Expire(now time.Duration) bool {
	if now < r.deadline {
		return false
	}
	if !r.done {
		r.fail(rmpp.Abort, rmpp.StatusTooLong)
	}
	return true
}

// Next writes the packet to send, and reports whether there is one.
func (r *Receiver) Next(d *[mad.Len]byte) bool {
	if r.reply.Type == rmpp.None {
		return false
	}
	*d = r.first
	clear(d[rmpp.At+rmpp.Len+r.config.HeaderLen:])
	d[3] ^= mad.ResponseBit // IBTA 13.6.2.4: an answer has the other direction
	d[4], d[5] = 0, 0
	r.reply.Version, r.reply.Flags = rmpp.Version, rmpp.Active
	r.reply.Put(d)
	r.reply = rmpp.Header{}
	return true
}

func (r *Receiver) fail(t rmpp.Type, s rmpp.Status) {
	r.reply = rmpp.Header{Type: t, Status: s}
	r.status, r.done, r.data = s, true, nil
}

// Receive handles a packet of the peer's sender (IBTA 13.6.6.3).
func (r *Receiver) Receive(now time.Duration, d *[mad.Len]byte) {
	var h rmpp.Header
	h.Parse(d)
	switch {
	case h.Type == rmpp.Stop || h.Type == rmpp.Abort:
		if !r.done {
			r.status, r.done, r.data = endStatus(&h), true, nil
		}
		return
	case r.done:
		if r.complete && h.Type == rmpp.Data { // the last ACK was lost
			r.ack()
		}
		return
	case h.Version != rmpp.Version:
		r.fail(rmpp.Abort, rmpp.StatusVersion)
	case h.Type != rmpp.Data:
		r.fail(rmpp.Abort, rmpp.StatusType)
	case h.Status != rmpp.StatusNormal:
		r.fail(rmpp.Abort, rmpp.StatusIllegal)
	case h.Segment == 0 || (h.Segment == 1) != (h.Flags&rmpp.First != 0):
		r.fail(rmpp.Abort, rmpp.StatusFirst)
	case h.Segment > r.window:
		r.fail(rmpp.Abort, rmpp.StatusSegment)
	case h.Segment != r.expected: // repeated, or after a lost one
		r.ack()
	default:
		r.deadline = now + r.config.Timeout
		r.take(&h, d)
	}
}

// take appends the expected segment.
func (r *Receiver) take(h *rmpp.Header, d *[mad.Len]byte) {
	length := segmentLen
	last := h.Flags&rmpp.Last != 0
	if last {
		length = int(min(h.Second, segmentLen+1))
		if length < r.config.HeaderLen || length > segmentLen {
			r.fail(rmpp.Abort, rmpp.StatusLength)
			return
		}
	}
	if h.Segment == 1 {
		r.first = *d
	}
	at := rmpp.At + rmpp.Len
	if len(r.data)+length-r.config.HeaderLen > r.config.MaxLen {
		r.fail(rmpp.Stop, rmpp.StatusResources)
		return
	}
	r.data = append(r.data, d[at+r.config.HeaderLen:at+length]...)
	r.expected++
	if last {
		r.complete, r.done = true, true
	}
	// IBTA 13.6.6.3: an ACK is due at the end of the window and of the transfer.
	if last || h.Segment == r.window {
		r.window = h.Segment + Window
		r.ack()
	}
}

func (r *Receiver) ack() {
	r.reply = rmpp.Header{Type: rmpp.ACK, Segment: r.expected - 1, Second: r.window, RespTime: rmpp.NoResponseTime}
}
