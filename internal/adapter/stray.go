package adapter

import (
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// strayLimit bounds the bytes of the packets that wait for a lane that somebody
// else holds: beyond it they are lost, as beyond a receive buffer.
const strayLimit = 4 << 20

// A stray is a packet that came to another lane than its queue pair's, or from
// one of this process. The system steers packets to lanes, and a batch that was
// joined on its way goes where its first packet goes.
type stray struct {
	src, dst qp.Endpoint
	tos, ttl uint8
	n        int // bytes
}

// strays are packets in order, with their bytes one behind the other.
type strays struct {
	list []stray
	data []byte
}

func (s *strays) clear() { s.list, s.data = s.list[:0], s.data[:0] }

// pass hands the packet b, which l.in holds and whose ICRC and P_Key were
// checked, to the lane of its queue pair.
func (l *lane) pass(to *lane, b []byte) {
	if !to.put(stray{l.in.Src, l.in.Dst, l.in.TOS, l.in.TTL, len(b)}, b) {
		l.drop(b, l.in.DestQPN, reason.PacketStray, strayLimit, uint64(len(b)))
		return
	}
	l.passed |= to.bit()
}

// put puts a packet into the lane's inbox and tells whether there was room.
func (l *lane) put(s stray, b []byte) bool {
	l.bellMu.Lock()
	defer l.bellMu.Unlock()
	if len(l.inbox.data)+len(b) > strayLimit {
		return false
	}
	l.inbox.list = append(l.inbox.list, s)
	l.inbox.data = append(l.inbox.data, b...)
	l.rung.Store(true)
	return true
}

// callPassed makes the lanes progress that packets were handed to. One that
// somebody holds is served by them (lane.unlock).
func (l *lane) callPassed() {
	for l.passed != 0 {
		to := l.passed.next(l.dev)
		if to.mu.TryLock() {
			to.takeBells()
			to.transmit(l.dev.clock())
			to.unlock()
		}
	}
}

// takeStrays delivers what other lanes handed over.
func (l *lane) takeStrays() {
	now := l.dev.clock()
	data := l.strays.data
	for i := range l.strays.list {
		s := &l.strays.list[i]
		b := data[:s.n:s.n]
		data = data[s.n:]
		l.in.Src, l.in.Dst, l.in.TOS, l.in.TTL = s.src, s.dst, s.tos, s.ttl
		l.in.Parse(b) // without fault, as in the other lane
		if !l.closed {
			l.dispatch(now, b)
		}
	}
	l.strays.clear()
}

// dispatch gives a packet that was found good to its queue pair.
func (l *lane) dispatch(now time.Duration, b []byte) {
	n := l.in.DestQPN
	q := l.qps[n]
	if n == gsiQPN {
		q = l.gsi
	}
	if q != nil {
		l.deliver(now, q, b)
		return
	}
	if to := l.dev.laneOf(n); to != l {
		l.pass(to, b)
		return
	}
	if l.in.Opcode == ib.CongestionNotify {
		l.drop(b, n, reason.CongestionIgnored, uint64(congestion.DCQCN), uint64(n))
		return
	}
	l.drop(b, n, reason.PacketQPN, uint64(len(l.qps)), uint64(n))
}
