// Package trace is the one stream of what happens in a device: packets sent
// and received, states changed, refusals with their reasons, completions.
// Captures, counters, logs and consoles read it. With no listener an event
// costs one predictable branch; refusals are counted always.
//
// It owns the counters and the list of listeners. It keeps no event, writes no
// file and never changes what it tells of.
package trace

import (
	"iter"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/internal/reason"
)

// A Kind is what an event tells.
type Kind uint8

// The kinds of event.
const (
	Sent     Kind = iota // a packet left
	Received             // a packet came in
	Refused              // a drop, a NAK or an error, with its reason
	State                // a queue pair changed its state
	Completed
)

// An Event is valid only during the call of Listener.Trace; what a listener
// keeps it copies.
type Event struct {
	Kind   Kind
	Time   time.Time
	QPN    uint32
	Detail reason.Detail
	Packet Packet
	From   uint8 // State: the states' numbers
	To     uint8
}

// A Packet is a packet from BTH to ICRC, in pieces, and its addresses.
type Packet struct {
	Src, Dst netip.AddrPort
	TOS, TTL uint8
	ID       uint16 // IPv4 identification that the ICRC was computed with
	Header   []byte // what stood in front of the BTH; nil where the system had the network header
	Pieces   [][]byte
}

// A Listener takes events, on the goroutine that caused them and under the
// lane's lock: it must be quick and must not call the device.
type Listener interface {
	Trace(*Event)
}

// An attachment is one call of Attach. Its address tells it apart from others
// of the same listener, whose type need not be comparable.
type attachment struct{ Listener }

// A Stream belongs to one device. The zero value is ready.
type Stream struct {
	listeners atomic.Pointer[[]*attachment]
	mu        sync.Mutex
	counters  [reason.Count]atomic.Uint64
}

// On tells whether anybody listens.
func (s *Stream) On() bool { return s.listeners.Load() != nil }

// Emit gives the event to the listeners. Call it only when On.
func (s *Stream) Emit(e *Event) {
	l := s.listeners.Load()
	if l == nil {
		return
	}
	for _, x := range *l {
		x.Trace(e)
	}
}

// Refuse counts a refusal, and emits it when anybody listens.
func (s *Stream) Refuse(qpn uint32, d reason.Detail) { s.RefusePacket(qpn, d, Packet{}) }

// RefusePacket is Refuse for a packet that is dropped.
func (s *Stream) RefusePacket(qpn uint32, d reason.Detail, p Packet) {
	if d.Reason < reason.Count {
		s.counters[d.Reason].Add(1)
	}
	if s.On() {
		s.Emit(&Event{Kind: Refused, Time: time.Now(), QPN: qpn, Detail: d, Packet: p})
	}
}

// Counter is how often a reason was given.
func (s *Stream) Counter(r reason.Reason) uint64 {
	if r >= reason.Count {
		return 0
	}
	return s.counters[r].Load()
}

// Counters are how often each reason was given, from one on, of those that were.
func (s *Stream) Counters(from reason.Reason) iter.Seq2[reason.Reason, uint64] {
	return func(yield func(reason.Reason, uint64) bool) {
		for r := max(from, reason.None+1); r < reason.Count; r++ {
			if n := s.Counter(r); n != 0 && !yield(r, n) {
				return
			}
		}
	}
}

// Attach adds a listener; the function returned takes it away again. An event
// that is being emitted on another goroutine meanwhile may still reach it.
func (s *Stream) Attach(l Listener) (detach func()) {
	a := &attachment{l}
	s.change(func(old []*attachment) []*attachment { return append(old, a) })
	return func() {
		s.change(func(old []*attachment) []*attachment {
			return slices.DeleteFunc(old, func(x *attachment) bool { return x == a })
		})
	}
}

// change replaces the list by an altered copy: who emits may read the old one.
func (s *Stream) change(f func([]*attachment) []*attachment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var old []*attachment
	if p := s.listeners.Load(); p != nil {
		old = slices.Clone(*p)
	}
	if l := f(old); len(l) > 0 {
		s.listeners.Store(&l)
	} else {
		s.listeners.Store(nil)
	}
}
