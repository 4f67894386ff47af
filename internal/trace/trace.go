// Package trace is the event stream of a device: packets sent and received, state
// changes, refusals with their reasons, completions. Captures, counters, logs and
// consoles read it. Without a listener an event costs one predictable branch.
// Refusals are always counted.
//
// The package owns the counters and the list of listeners. It stores no events and
// writes no files.
package trace

import (
	"fmt"
	"iter"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/internal/reason"
)

// A Kind is the kind of an event.
type Kind uint8

// The kinds of event.
const (
	Sent      Kind = iota // a packet was sent
	Received              // a packet was received
	Refused               // a drop, a NAK or an error, with its reason
	State                 // a queue pair changed its state
	Completed             // a work request completed
	Injected              // a rule of faults has hit a packet, which the event has whether or not it leaves
)

// An Event is valid only during the call of Listener.Trace. A listener must copy
// what it keeps.
type Event struct {
	Kind   Kind
	Time   time.Time
	QPN    uint32
	Detail reason.Detail
	Packet Packet
	From   uint8 // State: the old and the new state's number
	To     uint8

	Note string // Sent, Received: a comment of the packet

	WRID   uint64 // Completed: the program's number of the work request
	Opcode uint8  // Completed: a queue.WCOp
	Status uint8  // Completed: a queue.Status

	Said  reason.Detail // Completed: why the peer says that it refused the request, if it does
	Fault string        // Injected: the rule, and what it does
	Sent  bool          // Injected: the packet is one that the device sends

	// Peer and Source are whole addresses, of which the detail of PACKET_SOURCE has a part: that
	// of the connection's peer, and that of the packet.
	Peer, Source netip.Addr
}

// Text returns the sentence of the detail, with whole addresses if the event has them.
func (e *Event) Text() string {
	if e.Peer.IsValid() {
		return fmt.Sprintf("packet not from the connection's peer: expected address %v, found %v", e.Peer, e.Source)
	}
	return e.Detail.String()
}

// A Packet is a packet from BTH to ICRC, in pieces, and its addresses.
type Packet struct {
	Src, Dst netip.AddrPort
	TOS, TTL uint8
	ID       uint16 // IPv4 identification that the ICRC was computed with
	Header   []byte // the headers before the BTH; nil if the system had the network header
	Native   bool   // Header begins with InfiniBand's LRH, otherwise with an Ethernet header
	Pieces   [][]byte
	Missing  int // bytes at the end that the pieces lack
}

// A Listener receives events. Trace is called on the goroutine that caused the
// event, with the lane locked: it must be fast and must not call the device.
type Listener interface {
	Trace(*Event)
}

// An attachment is the result of one call of Attach. Attachments are compared by
// address, because a listener may be attached twice or have a type that is not
// comparable.
type attachment struct{ Listener }

// Counters has a number for each reason.
type Counters [reason.Count]atomic.Uint64

// Traffic counts what a lane has carried. Only the lane's driver writes it. Payload is without
// headers, checksums and padding: that sent, repeated packets included, and that which a machine
// took. A machine does not take a packet that it has had before, and not one that the peer has to
// send again.
type Traffic struct {
	Sent, Received               uint64 // bytes of payload
	SentPackets, ReceivedPackets uint64 // repeated ones included; received ones by the queue pairs that got them
	Sends, Receives              uint64 // SENDs that were completed, and receives, with success
}

// Add adds the counts of u.
func (t *Traffic) Add(u Traffic) {
	t.Sent += u.Sent
	t.Received += u.Received
	t.SentPackets += u.SentPackets
	t.ReceivedPackets += u.ReceivedPackets
	t.Sends += u.Sends
	t.Receives += u.Receives
}

// Load returns counts that another process writes.
func (t *Traffic) Load() Traffic {
	return Traffic{
		Sent: atomic.LoadUint64(&t.Sent), Received: atomic.LoadUint64(&t.Received),
		SentPackets: atomic.LoadUint64(&t.SentPackets), ReceivedPackets: atomic.LoadUint64(&t.ReceivedPackets),
		Sends: atomic.LoadUint64(&t.Sends), Receives: atomic.LoadUint64(&t.Receives),
	}
}

// A Page is what a device of one lane counts.
type Page struct {
	Counters
	Traffic
}

// A Mirror is memory in which another process sees what a device counts.
type Mirror struct{ *Page }

// A Stream belongs to one device. The zero value is ready.
type Stream struct {
	listeners atomic.Pointer[[]*attachment]
	mu        sync.Mutex
	counters  Counters

	Mirror *Mirror // gets what is counted, unless it is nil

	// Refused, unless it is nil, is called for each refusal, on the goroutine that refused.
	Refused func(qpn uint32, d reason.Detail)

	// Changed, unless it is nil, is called after listeners were added or removed, on the
	// goroutine that did so.
	Changed func()
}

// On reports whether the stream has a listener.
func (s *Stream) On() bool { return s.listeners.Load() != nil }

// Emit passes the event to the listeners. Callers check On first, to avoid
// building an event that has no listener.
func (s *Stream) Emit(e *Event) {
	l := s.listeners.Load()
	if l == nil {
		return
	}
	for _, x := range *l {
		x.Trace(e)
	}
}

// Refuse counts a refusal, and emits it if there is a listener.
func (s *Stream) Refuse(qpn uint32, d reason.Detail) { s.RefusePacket(qpn, d, Packet{}) }

// RefusePacket is like Refuse, for a dropped packet.
func (s *Stream) RefusePacket(qpn uint32, d reason.Detail, p Packet) {
	s.count(qpn, d)
	if s.On() {
		s.Emit(&Event{Kind: Refused, Time: time.Now(), QPN: qpn, Detail: d, Packet: p})
	}
}

// RefuseSource is like Refuse, for a packet that is not from the connection's peer.
func (s *Stream) RefuseSource(qpn uint32, d reason.Detail, peer, source netip.Addr) {
	s.count(qpn, d)
	if s.On() {
		s.Emit(&Event{Kind: Refused, Time: time.Now(), QPN: qpn, Detail: d, Peer: peer, Source: source})
	}
}

// Inject counts a hit of a rule of faults, and emits it if there is a listener.
func (s *Stream) Inject(e *Event) {
	s.count(e.QPN, reason.Detail{Reason: reason.FaultInjected})
	if s.On() {
		e.Kind, e.Time = Injected, time.Now()
		s.Emit(e)
	}
}

func (s *Stream) count(qpn uint32, d reason.Detail) {
	if s.Refused != nil {
		s.Refused(qpn, d)
	}
	if r := d.Reason; r < reason.Count {
		s.counters[r].Add(1)
		if s.Mirror != nil {
			s.Mirror.Counters[r].Add(1)
			runtime.KeepAlive(s)
		}
	}
}

// Counter returns the number of refusals with this reason.
func (s *Stream) Counter(r reason.Reason) uint64 {
	if r >= reason.Count {
		return 0
	}
	return s.counters[r].Load()
}

// Counters returns the reasons with refusals, starting at from, and their counts.
func (s *Stream) Counters(from reason.Reason) iter.Seq2[reason.Reason, uint64] {
	return func(yield func(reason.Reason, uint64) bool) {
		for r := max(from, reason.None+1); r < reason.Count; r++ {
			if n := s.Counter(r); n != 0 && !yield(r, n) {
				return
			}
		}
	}
}

// Attach adds a listener. The returned function removes it; an event that another
// goroutine is emitting at that moment may still reach the listener.
func (s *Stream) Attach(l Listener) (detach func()) {
	a := &attachment{l}
	s.change(func(old []*attachment) []*attachment { return append(old, a) })
	return func() {
		s.change(func(old []*attachment) []*attachment {
			return slices.DeleteFunc(old, func(x *attachment) bool { return x == a })
		})
	}
}

// Flush lets listeners write what they hold.
func (s *Stream) Flush() {
	if p := s.listeners.Load(); p != nil {
		for _, a := range *p {
			if l, ok := a.Listener.(interface{ Flush() error }); ok {
				_ = l.Flush() // the listener's Close returns the error
			}
		}
	}
}

// change replaces the list by a modified copy, because Emit may be reading the old
// one, and tells of it.
func (s *Stream) change(f func([]*attachment) []*attachment) {
	s.swap(f)
	if s.Changed != nil {
		s.Changed()
	}
}

func (s *Stream) swap(f func([]*attachment) []*attachment) {
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
