package adapter

import (
	"errors"
	"fmt"
	"time"

	"softrdma/internal/adapter/stream"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// The streams of an iWARP device, see package stream.
type (
	Stream         = stream.Stream
	StreamEvent    = stream.Event
	StreamListener = stream.Listener
	DialConfig     = stream.DialConfig
)

// ErrPortTaken is wrapped if another socket of the system has a listener's port.
var ErrPortTaken = stream.ErrPortTaken

// A streamHost is a lane as the host of its streams.
type streamHost lane

var _ stream.Host = (*streamHost)(nil)

// Do implements stream.Host.
func (h *streamHost) Do(f func(now time.Duration) error) error {
	l := (*lane)(h)
	l.Lock()
	defer l.Unlock()
	if l.closed {
		return ErrClosed
	}
	now := l.dev.clock()
	err := f(now)
	l.Transmit(now)
	return err
}

// Received implements stream.Host.
func (h *streamHost) Received(n int) { h.Driver.Received(n) }

// Refuse implements stream.Host.
func (h *streamHost) Refuse(qpn uint32, d reason.Detail) { h.dev.Trace.Refuse(qpn, d) }

// StreamQP implements stream.Host.
func (h *streamHost) StreamQP(qpn uint32) *stream.QP {
	if q := h.qps[qpn]; q != nil {
		return q.m.(*stream.QP)
	}
	return nil
}

// IWARP reports whether the device's queue pairs are connected by streams, as iWARP has
// it.
func (d *Device) IWARP() bool { return d.lanes[0].streams != nil }

// streams returns the streams of an iWARP device.
func (d *Device) streams() (*stream.Set, error) {
	if s := d.lanes[0].streams; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("streams are iWARP's, this device speaks RoCE: %w", errors.ErrUnsupported)
}

// Dial connects a queue pair to a peer (see stream.Set.Dial).
func (d *Device) Dial(cfg *DialConfig, handler func(*StreamEvent)) (*Stream, error) {
	s, err := d.streams()
	if err != nil {
		return nil, err
	}
	return s.Dial(cfg, handler)
}

// ListenStream accepts streams on a port of the device's address (see
// stream.Set.Listen).
func (d *Device) ListenStream(port uint16, backlog int, handler func(*StreamEvent)) (*StreamListener, error) {
	s, err := d.streams()
	if err != nil {
		return nil, err
	}
	return s.Listen(port, backlog, handler)
}

// StreamCount returns how many streams and listeners exist, including streams that only
// wait for their peer's end.
func (d *Device) StreamCount() (streams, listeners int) {
	l := d.lanes[0]
	if l.streams == nil {
		return 0, 0
	}
	l.Lock()
	defer l.Unlock()
	return l.streams.Count()
}

// Supports returns an error that wraps errors.ErrUnsupported if an operation cannot be
// posted: the transport or the peer does not have it.
func (q *QP) Supports(op queue.Op) error {
	if q.lane.streams == nil {
		return nil
	}
	x := q.m.(*stream.QP)
	if x.Supported(op) {
		return nil
	}
	q.lane.Lock()
	defer q.lane.Unlock()
	return x.Supports(op)
}

// check checks a change from one state to another with the attributes of mask, and
// returns those that the queue pair has.
func (q *QP) check(from, to qp.State, mask qp.Mask) (qp.Mask, error) {
	if q.lane.streams != nil {
		return stream.CheckTransition(from, to, mask)
	}
	return mask, qp.Check(q.Type, from, to, mask)
}
