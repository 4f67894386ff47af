package adapter

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"softrdma/faults"
	"softrdma/internal/adapter/stream"
	"softrdma/internal/iwarp"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/steering"
	"softrdma/internal/trace"
)

// The streams of an iWARP device, see package stream.
type (
	Stream         = stream.Stream
	StreamEvent    = stream.Event
	StreamListener = stream.Listener
	StreamAway     = stream.Away
	DialConfig     = stream.DialConfig
)

// ErrPortTaken is wrapped if another socket of the system has a listener's port.
var ErrPortTaken = stream.ErrPortTaken

// A streamLane is a lane whose link carries streams, which get what arrives.
type streamLane struct {
	lane
	streams *stream.Set
	own     trace.Traffic
}

var _ carrier = (*streamLane)(nil)

func newStreamLane(d *Device) *streamLane {
	l := &streamLane{lane: lane{dev: d, link: d.cfg.Streams}}
	l.streams = stream.New(stream.Config{
		Host: (*streamHost)(l), Link: d.cfg.Streams, Tasks: &l.tasks, NoCRC: d.cfg.NoCRC, Markers: d.cfg.Markers,
	})
	l.traffic = d.cfg.traffic(&l.own)
	l.init(l, l.link, false)
	return l
}

// machine implements carrier.
func (l *streamLane) machine(q *QP) machine.Machine {
	q.Traffic = l.traffic
	return stream.NewQP(&q.Port, q.Recv, &q.entry)
}

// turn implements carrier: the queue pair's stream sends.
func (*streamLane) turn(now time.Duration, q *QP) (packets int, more bool) {
	return stream.Packets, q.m.Next(now, nil)
}

// Memory and traces of packets are not the streams'.
func (*streamLane) flush()             {}
func (*streamLane) watchChanged()      {}
func (*streamLane) end(*memory.Region) {}
func (*streamLane) endBindings()       {}

// close implements carrier.
func (l *streamLane) close(now time.Duration) { l.streams.Close(now) }

// Serve implements drive.Port.
func (l *streamLane) Serve() bool {
	if !l.Bell.Rung() {
		return false
	}
	l.Bell.Lock()
	defer l.Bell.Unlock()
	l.takeBells()
	l.Bell.Answer()
	return true
}

// Receive implements drive.Port.
func (l *streamLane) Receive(now time.Duration) (after time.Duration, ok bool) {
	if l.closed {
		return now, false
	}
	l.gather.polledAgain()
	l.drained = !l.streams.Receive(now)
	return now, !l.drained
}

// Act implements drive.Port.
func (l *streamLane) Act(now time.Duration) bool {
	if l.closed {
		return false
	}
	l.expire(now)
	busy := l.Transmit(now)
	return busy || l.streams.Pending() // what expired may be readable
}

// Next implements drive.Port.
func (l *streamLane) Next() time.Duration {
	if !l.closed && l.streams.Pending() {
		return 0
	}
	return l.nextDue()
}

// A streamHost is a lane as the host of its streams.
type streamHost streamLane

var _ stream.Host = (*streamHost)(nil)

// Do implements stream.Host.
func (h *streamHost) Do(f func(now time.Duration) error) error {
	l := (*streamLane)(h)
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
func (h *streamHost) Refuse(qpn uint32, d reason.Detail) {
	h.dev.cfg.Sanitizer.Refused(qpn, d)
	h.dev.Trace.Refuse(qpn, d)
}

// Faults implements stream.Host.
func (h *streamHost) Faults() *faults.Injector { return h.dev.cfg.Faults }

// Injected implements stream.Host.
func (h *streamHost) Injected(qpn uint32, v *faults.Verdict) {
	e := hitEvent(qpn, v.Hits, v.Rule)
	if h.dev.Trace.On() {
		e.Fault = v.Where()
	}
	h.dev.Trace.Inject(&e)
}

// StreamQP implements stream.Host.
func (h *streamHost) StreamQP(qpn uint32) *stream.QP {
	if q := h.qps[qpn]; q != nil {
		return q.m.(*stream.QP)
	}
	return nil
}

// IWARP reports whether the device's queue pairs are connected by streams, as iWARP has
// it.
func (d *Device) IWARP() bool { return d.cfg.Streams != nil }

// streamSet returns the streams of an iWARP device.
func (a *laneList) streamSet() (*stream.Set, error) {
	if a.streams != nil {
		return a.streams.streams, nil
	}
	return nil, fmt.Errorf("streams are iWARP's, this device speaks RoCE: %w", errors.ErrUnsupported)
}

// Dial connects a queue pair to a peer (see stream.Set.Dial).
func (a *laneList) Dial(cfg *DialConfig, handler func(*StreamEvent)) (*Stream, error) {
	s, err := a.streamSet()
	if err != nil {
		return nil, err
	}
	return s.Dial(cfg, handler)
}

// ListenStream accepts streams on a port of the device's address (see
// stream.Set.Listen).
func (a *laneList) ListenStream(port uint16, backlog int, handler func(*StreamEvent)) (*StreamListener, error) {
	s, err := a.streamSet()
	if err != nil {
		return nil, err
	}
	return s.Listen(port, backlog, handler)
}

// ShareStreams lets other processes drive the streams of their queue pairs: those of the lanes of
// the address for which away returns a process.
func ShareStreams(d *Device, away func(lane int) StreamAway) error {
	s, err := d.streamSet()
	if err != nil {
		return err
	}
	return s.SetAway(func(qpn uint32) StreamAway {
		if _, own := d.share.Lane(qpn); own {
			return nil
		}
		return away(steering.LaneOf(qpn, d.share.Of))
	})
}

// RelayStream connects a stream of another process that adopts its streams (see link.Relayer).
func RelayStream(d *Device, fd int, port uint16, dst netip.AddrPort, tos uint8, hold link.Hold) error {
	r, ok := d.cfg.Streams.(link.Relayer)
	if !ok {
		return fmt.Errorf("a device that relays streams: expected one of iWARP with TLS: %w", errors.ErrUnsupported)
	}
	r.Relay(fd, port, dst, tos, hold)
	return nil
}

// AdoptStream continues a stream of another process (see stream.Set.Adopt).
func AdoptStream(d *Device, fd int, request []byte, qpn uint32, p *iwarp.Params, handler func(*StreamEvent)) (*Stream, error) {
	s, err := d.streamSet()
	if err != nil {
		return nil, err
	}
	return s.Adopt(fd, request, qpn, p, handler)
}

// StreamCount returns how many streams and listeners exist, including streams that only
// wait for their peer's end.
func (a *laneList) StreamCount() (streams, listeners int) {
	l := a.streams
	if l == nil {
		return 0, 0
	}
	l.Lock()
	defer l.Unlock()
	return l.streams.Count()
}

// Supports returns an error that wraps errors.ErrUnsupported if an operation cannot be
// posted: the transport or the peer does not have it.
func (q *QP) Supports(op queue.Op) error {
	if q.packets != nil { // whose machine the lane's holder makes with the first request
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
	if q.packets == nil {
		return stream.CheckTransition(from, to, mask)
	}
	return mask, qp.Check(q.Type, from, to, mask)
}
