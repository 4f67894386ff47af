package hostpath

import (
	"runtime"
	"slices"
	"time"

	"softrdma/internal/adapter/schedule"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
	"softrdma/internal/reason"
)

const (
	// referFrom is the length from which a payload in memory that both have mapped is
	// referred to. A shorter one lies in the ring, next to its headers.
	referFrom = 512

	// useWait is how long Revoke waits for a peer to use references, and copyWait how long for
	// a copy that the peer is making. A train takes some tens of microseconds, unless the peer
	// has to share its processor or is stopped. Then what it copies is lost. The peer may itself
	// be waiting for a copy of this lane.
	useWait  = time.Millisecond
	copyWait = 2 * time.Millisecond
)

// A Sender sends to one lane of a peer.
type Sender struct {
	*hostmem.Sender
	lane *Lane
	path *Path
	to   int

	referred   bool // the last payload of a connection was referred to: the next one may be long
	train      int  // packets of the longest train that may be copied one by one, or 0
	flushing   bool // in Lane.touched
	windows    windows
	references references
	waiting    []*schedule.Entry // tasks that wait for room; in Lane.full if there are any
	stalled    bool              // the peer takes nothing: packets are dropped
	taken      uint64            // by the peer, when it last took something
	takenAt    time.Duration
}

// Admit reports whether a task may send a packet or train. If not, the task gets a turn
// when there is room.
func (s *Sender) Admit(now time.Duration, e *schedule.Entry) bool {
	for !s.room() {
		if s.look(now); s.stalled {
			return true
		}
		if s.AwaitRoom() {
			s.wait(now, e)
			return false
		}
	}
	s.stalled = false
	return true
}

// room reports whether a packet or train fits, also if it has to be copied.
func (s *Sender) room() bool {
	if s.train > 1 {
		return s.Room(s.train, referLimit)
	}
	return s.Room(1, hostmem.InlineMax)
}

// wait makes a task wait for room.
func (s *Sender) wait(now time.Duration, e *schedule.Entry) {
	if len(s.waiting) == 0 {
		s.taken, s.takenAt = s.Consumed(), now
		s.lane.full = append(s.lane.full, s)
		s.lane.Tasks.Set(&s.lane.timer, s.lane.stallAt())
	}
	if !slices.Contains(s.waiting, e) {
		s.waiting = append(s.waiting, e)
	}
}

// look checks whether the peer has taken something since tasks began to wait.
func (s *Sender) look(now time.Duration) {
	if len(s.waiting) == 0 {
		return
	}
	if n := s.Consumed(); n != s.taken {
		s.taken, s.takenAt = n, now
	} else if now-s.takenAt >= StallTime {
		s.stalled = true
	}
}

// admitAll lets the tasks that wait try again.
func (s *Sender) admitAll() {
	for i, e := range s.waiting {
		s.lane.Tasks.Push(e)
		s.waiting[i] = nil
	}
	s.waiting = s.waiting[:0]
}

// serveFull lets tasks try again whose ring has room, or whose peer is stalled.
func (l *Lane) serveFull(now time.Duration) {
	for i := 0; i < len(l.full); {
		s := l.full[i]
		if !s.room() {
			if s.look(now); !s.stalled {
				i++
				continue
			}
		}
		s.admitAll()
		l.full = slices.Delete(l.full, i, i+1)
	}
}

// A timer is the lane's task that looks for stalled peers.
type timer Lane

// Next implements schedule.Task.
func (t *timer) Next(time.Duration) (int, bool) { return 0, false }

// Deadline implements schedule.Task.
func (t *timer) Deadline() time.Duration { return (*Lane)(t).stallAt() }

// Expire implements schedule.Task.
func (t *timer) Expire(now time.Duration) { (*Lane)(t).serveFull(now) }

// stallAt is when the first peer counts as stalled.
func (l *Lane) stallAt() time.Duration {
	at := schedule.Never
	for _, s := range l.full {
		at = min(at, s.takenAt+StallTime)
	}
	return at
}

// An Item is a packet or train to send.
type Item struct {
	hostmem.Head
	Header []byte // BTH and extended headers; the frame's for a Packet
	Pieces [][]byte
	Len    int

	// Stable says that the payload's memory stays as it is until the peer has
	// acknowledged it, so that it may be referred to.
	Stable bool

	// Region is the region or window whose key lets the peer read the payload, nil if it reads with
	// none. The reference ends with that region; see windows.
	Region *memory.Region

	// Row says that the message is one of several that are sent at once. The peer may see it only
	// when the last of them, or End, has published it.
	Row bool
}

// Post hands over a packet or train. Without room for it, it is lost. Post reports false, and
// does nothing, if the payload has to be copied and is longer than hostmem.InlineMax: the
// caller posts the packets of the train instead.
func (s *Sender) Post(i *Item) bool {
	posted, fits := s.post(i)
	if !fits {
		return false
	}
	if !posted {
		why := reason.HostFull
		if s.stalled {
			why = reason.HostStalled
		}
		s.lane.Port.Refused(reason.Detail{Reason: why, Expected: uint64(StallTime / time.Millisecond), Found: uint64(i.Len)})
		return true
	}
	if !s.flushing {
		s.flushing = true
		s.lane.touched = append(s.lane.touched, s)
	}
	return true
}

func (s *Sender) post(i *Item) (posted, fits bool) {
	if i.Stable && i.Len >= referFrom && len(i.Pieces) == 1 {
		if r, ok := s.refer(i.Pieces[0]); ok {
			switch {
			case i.Region != nil && i.Region.Kind != memory.MR:
				posted = s.referWindow(i, r)
			case i.Row:
				posted = s.AppendRef(&i.Head, i.Header, r, i.Len)
			default:
				posted = s.Refer(&i.Head, i.Header, r, i.Len)
			}
			if posted {
				s.referred = true
				s.references.add(s.Sender, i.Pieces[0], i.Region)
			}
			return posted, true
		}
		s.referred = false
	}
	if i.Len > hostmem.InlineMax {
		return false, false
	}
	return s.Copy(&i.Head, i.Header, i.Pieces, i.Len), true
}

// refer returns how the peer reaches the payload, if it does.
func (s *Sender) refer(b []byte) (hostmem.Ref, bool) {
	at := memory.Addr(b)
	far := s.path.Far
	if g := s.lane.Segments.Find(at); g != nil && at+uint64(len(b)) <= memory.Addr(g.Mem)+uint64(len(g.Mem)) {
		if far.Offered(g.ID) {
			return hostmem.Ref{Segment: g.ID, Offset: at - memory.Addr(g.Mem)}, true
		}
		far.Offer(g)
	}
	return hostmem.Ref{}, false
}

// maxTrain bounds the packets of a train whose payload is referred to. If it has to be copied
// instead, its packets need a slot each.
const maxTrain = hostmem.Slots / 4

// Longest returns how many packets of mtu bytes may be handed over as a train; 0 if a trace of
// the peer wants to see packets. It is called before the packets of a burst are made, and decides
// how their payloads travel.
func (s *Sender) Longest(mtu int) int {
	s.train = 0
	switch {
	case s.WantICRC():
		return 0
	case s.referred:
		s.train = min(referLimit/mtu, maxTrain)
		return s.train
	}
	return hostmem.InlineMax / mtu
}

// Flush wakes the peers that messages were posted to. The lane calls it when it has sent.
func (l *Lane) Flush() {
	l.flushed = true
	for i, s := range l.touched {
		s.flushing = false
		if s.Armed() {
			s.path.Far.Ring(s.to)
		}
		l.touched[i] = nil
	}
	l.touched = l.touched[:0]
}

// Revoke makes references that the peer has not used yet worthless, before the memory that
// they name may change or go away. A peer that runs uses them within microseconds, which
// Revoke waits for: what is revoked has to be sent again.
func (s *Sender) Revoke() {
	if s.use(s.Sent()) {
		return
	}
	s.revoke()
}

// use waits for the peer to use the references in the first messages, and reports whether it
// has.
func (s *Sender) use(first uint64) bool {
	s.End()
	used := func() bool { return !s.Referring() || s.Consumed() >= first }
	if s.lane.Bells == nil { // the peer does not run beside this lane
		return used()
	}
	for start := s.lane.Clock(); !used(); runtime.Gosched() {
		if s.lane.Clock()-start >= useWait {
			return false
		}
	}
	return true
}

// revoke is Revoke for a peer that is given no time to use the references.
func (s *Sender) revoke() {
	lost := s.Referring()
	if !s.Sender.Revoke(copyWait, s.lane.Clock) {
		s.lane.Port.Refused(stillCopied())
	}
	if lost {
		s.lane.Port.Revoked(s.path)
	}
}
