package adapter

import (
	"time"

	"softrdma/internal/frame"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
)

// searchPause is the time between two searches for the same device.
const searchPause = 100 * time.Millisecond

// A search looks for a path through memory to one of several devices that share an address.
// An address handle names no queue pair, and so none of these devices. The datagrams do, and
// the device may have been opened after the address handle was made. Meanwhile datagrams take
// the network, or wait if memory is required.
type search struct {
	running bool
	again   time.Duration // when the next may begin
}

// search looks for a path through memory to the peer of a datagram, unless it was looked for
// a moment ago, and reports whether a search is running. There is no path now.
func (l *lane) search(f *txFlow, qpn uint32) (running bool) {
	own := l.dev.cfg.Share
	shared := f.hostLanes > 0 || own.Of > own.Lanes
	if !shared && !l.dev.cfg.MemoryOnly || qpn == multicastQPN || l.dev.cfg.Reach == nil {
		return false
	}
	lane := frame.LaneOf(qpn, max(f.hostLanes, own.Of))
	s := f.searches[lane]
	if s == nil {
		if f.searches == nil {
			f.searches = make(map[int]*search)
		}
		s = new(search)
		f.searches[lane] = s
	}
	if !s.running && l.dev.clock() >= s.again {
		s.running = true
		go l.runSearch(s, f.Peer, qpn)
	}
	return s.running
}

func (l *lane) runSearch(s *search, peer qp.Endpoint, qpn uint32) {
	_ = l.dev.Prepare(peer, qpn) // samehost.Host.Why tells why there is no path
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
func (l *lane) awaitsPath(q *QP) bool {
	m, ok := q.m.(machine.Addresser)
	if !ok {
		return false
	}
	path, qpn := m.Destination()
	if path == nil {
		return false
	}
	f := l.flowOf(q, path, qpn)
	return f != nil && l.localLane(f, qpn) == nil && l.hostSender(f, qpn) == nil && l.search(f, qpn)
}
