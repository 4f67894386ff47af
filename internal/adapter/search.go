package adapter

import (
	"time"

	"softrdma/internal/frame"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// searchPause is the time between two searches for the same device.
const searchPause = 100 * time.Millisecond

// A search is a route of datagrams that looks for a path through memory to one of several devices
// that share an address. An address handle names no queue pair, and so none of these devices. The
// datagrams do, and the device may have been opened after the address handle was made. Meanwhile
// datagrams take the network, or wait if memory is required.
type search struct {
	route   // meanwhile
	lane    *packetLane
	peer    qp.Endpoint
	qpn     uint32 // of the device that is looked for, or was last
	running bool
	again   time.Duration // when the next may begin
}

// look begins a search for the device with a queue pair, unless one has ended a moment ago, and
// reports whether one is running.
func (s *search) look(qpn uint32) bool {
	if !s.running && s.lane.dev.clock() >= s.again {
		s.running, s.qpn = true, qpn
		go s.run(qpn)
	}
	return s.running
}

func (s *search) run(qpn uint32) {
	l := s.lane
	_ = l.dev.Prepare(s.peer, qpn) // samehost.Host.Why tells why there is no path
	l.Lock()
	defer l.Unlock()
	s.running, s.again = false, l.dev.clock()+searchPause
	if l.closed {
		return
	}
	for _, q := range l.qps {
		if !q.transport.Connected {
			l.tasks.Push(&q.entry) // it may wait for the path
		}
	}
	l.settle()
}

// awaitsPath reports whether the next packet of q is a datagram that waits for the end of a
// search.
func (l *packetLane) awaitsPath(q *QP) bool {
	if q.can.Addresser == nil {
		return false
	}
	path, qpn := q.can.Addresser.Destination()
	if path == nil {
		return false
	}
	f := l.flows.of(q, path, qpn)
	if f == nil {
		return false
	}
	s, ok := l.flows.route(f, qpn).(*search)
	return ok && s.look(qpn)
}

// Send implements route.
func (s *search) Send(now time.Duration, q *QP, f *txFlow, o *machine.Out, class frame.Class, limit int) int {
	if o.Path != nil && q != s.lane.gsi {
		s.look(o.DestQPN)
	}
	return s.route.Send(now, q, f, o, class, limit)
}

// An unreached is the route to a peer that only memory may lead to while it does not: packets are
// refused, but not those of queue pair 1.
type unreached struct{ *network }

// Send implements route.
func (r unreached) Send(now time.Duration, q *QP, f *txFlow, o *machine.Out, class frame.Class, limit int) int {
	if l := r.lane; q == l.gsi && !f.offline {
		return l.flows.wired.Send(now, q, f, o, class, limit)
	}
	r.refuse(q, &o.BTH)
	return 1
}

// Put implements route.
func (r unreached) Put(p *packet) {
	var h ib.BTH
	h.Parse(p.data)
	r.refuse(p.q, &h)
}

func (r unreached) refuse(q *QP, h *ib.BTH) {
	l := r.lane
	q.sendError = reason.Detail{Reason: reason.HostClosed}
	if !q.transport.Acknowledged {
		l.dev.Trace.Refuse(q.QPN, q.sendError)
	}
	if m := q.can.Unreachable; m != nil && m.Unreachable(l.dev.clock(), h, q.sendError) {
		l.tasks.Set(&q.entry, q.deadline())
	}
}
