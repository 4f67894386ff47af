package congestion

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A Kind is a kind of congestion control.
type Kind uint8

// The kinds. The zero value takes Window on short paths, and Path on those that are longer than
// LongTrip.
const (
	Default Kind = iota
	Window       // reacts to losses with a queue, and to marks
	DCQCN        // reacts to congestion notifications, with pacing
	Delay        // reacts to the round trip
	Path         // models the path, with pacing
	None         // only the port's window
	Timely       // reacts to the gradient of the round trip, with pacing
	Swift        // reacts to the round trip, with pauses below one packet
	Bounded      // keeps what fits into the path in flight
	HPCC         // reacts to telemetry of switches, with pacing: see Informed
	kinds
)

var kindNames = [kinds]string{"default", "window", "dcqcn", "delay", "path", "none", "timely", "swift", "bounded", "hpcc"}

// String returns the name that ParseKind takes.
func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return fmt.Sprintf("control %d", uint8(k))
}

// ParseKind returns the kind of a name; the empty name is Default.
func ParseKind(name string) (Kind, error) {
	if name == "" {
		return Default, nil
	}
	for k := Window; k < kinds; k++ {
		if name == kindNames[k] {
			return k, nil
		}
	}
	return Default, fmt.Errorf("congestion control: expected %s, found %q", NameList(), name)
}

// Names returns the names that ParseKind takes, without the empty one.
func Names() []string { return slices.Clone(kindNames[Window:]) }

// NameList returns Names as a sentence has them: with "or" before the last one.
func NameList() string {
	last := kinds - 1
	return strings.Join(kindNames[Window:last], ", ") + " or " + kindNames[last]
}

// ECN reports whether the kind reacts to marks, so that its packets may be sent as
// ECN-capable (annex A17, CA17-5; RFC 3168).
func (k Kind) ECN() bool { return k == Default || k == Window || k == DCQCN || k == Path }

// Limits are the bounds of a control.
type Limits struct {
	Window int // maximum number of bytes in flight
	Long   int // the same on a path that is longer than LongTrip, for the controls that model it
	Packet int // bytes of a full packet

	// Tuning is nil for the parameters that suit processes.
	Tuning *Tuning
}

// first returns the window of a new connection.
func (l *Limits) first() int {
	if l.Tuning != nil && l.Tuning.First != 0 {
		return min(max(l.Tuning.First, l.Packet), l.Window)
	}
	return min(initialWindow, l.Window)
}

// quantum returns how long a flow that has to wait sends at once.
func (l *Limits) quantum() time.Duration {
	if l.Tuning != nil && l.Tuning.Quantum != 0 {
		return l.Tuning.Quantum
	}
	return paceQuantum
}

// line returns the rate of the line, 0 if it is not known.
func (l *Limits) line() float64 {
	if l.Tuning == nil {
		return 0
	}
	return l.Tuning.Line
}

// A Tuning has other parameters, such as those of adapters in hardware. A field that is 0 changes
// nothing.
type Tuning struct {
	First   int           // bytes in flight at the start, of Window, DCQCN and HPCC
	Quantum time.Duration // for which a flow that has to wait sends at once; a packet leaves at least

	// Trip is the round trip without queues, for controls that compare with it: Timely, Swift and
	// HPCC. They measure it if it is 0, which takes until the first queue has drained.
	Trip time.Duration

	// Of DCQCN: the time and the bytes between two increases, and how much an additive one is. With
	// Raise nothing depends on round trips.
	Raise time.Duration
	Bytes int
	Step  float64 // bytes per second

	// Decrease makes DCQCN decrease the rate as adapters do: at the end of a period of this length in which
	// notifications came, counted from the first one on. What the rate recovers to stays the same unless it
	// was increased by time since the last decrease. With 0 a notification decreases it at once, and it
	// recovers to what it was before, as published.
	Decrease time.Duration

	// Line is the rate of the adapter's line in bytes per second, with which DCQCN begins, and which it does
	// not exceed. With 0 it begins with the rate that it measures, of which other flows may have a share.
	Line float64
}

// least returns the round trip without queues.
func (l *Limits) least(rtt *RTT) time.Duration {
	if l.Tuning != nil && l.Tuning.Trip != 0 && rtt.Known() {
		return l.Tuning.Trip
	}
	return rtt.Least()
}

// PaperTuning is DCQCN's parameters as its authors have published them (SIGCOMM 2015, table 14 and
// section 5), for adapters that pace each packet and begin at the rate of the line, which is to be added.
func PaperTuning() Tuning {
	return Tuning{First: math.MaxInt32, Quantum: 1, Raise: 55 * time.Microsecond, Bytes: 10e6, Step: 5e6}
}

// A Control is the congestion control of one queue pair. Bytes include headers.
type Control interface {
	// Sent counts n bytes that are sent now, including retransmissions. With them, flight
	// bytes are in flight. A control that does not pace need not be told.
	Sent(now time.Duration, n int, flight int64)
	// Acked counts n bytes that arrived at the peer. The last of them was acknowledged after
	// sample; 0 means unknown. rtt already includes the sample.
	Acked(now time.Duration, n int, sample time.Duration, rtt *RTT)
	// Lost counts n bytes that were lost on the way.
	Lost(now time.Duration, n int, rtt *RTT)
	// Timeout reports that the peer did not answer for the whole timeout.
	Timeout(now time.Duration)
	// Notified handles a congestion notification (annex A17.9.3).
	Notified(now time.Duration, rtt *RTT)

	// Window returns how many bytes may be in flight.
	Window() int
	// Ready returns when the next packet may be sent; a time in the past means now.
	Ready(now time.Duration) time.Duration
	// Rate returns the pace in bytes per second, or 0 if there is none.
	Rate() float64
	// Paces reports whether the control is to be told what is sent, and asked when. It may
	// change with Acked.
	Paces() bool
}

// New makes a control of a kind.
func New(k Kind, l Limits) Control {
	switch k {
	case DCQCN:
		return newDCQCN(l)
	case Delay:
		return newDelay(l)
	case Path:
		return newPath(l)
	case None:
		return &fixed{l.Window}
	case Timely:
		return newTimely(l)
	case Swift:
		return newSwift(l)
	case Bounded:
		return newBounded(l)
	case HPCC:
		return newHPCC(l)
	case Default:
		a := &automatic{}
		a.start(l)
		return a
	}
	w := &window{}
	w.start(l)
	return w
}

// Models reports whether a control models long paths.
func Models(k Kind) bool { return k == Default || k == Path }

// NewFetch makes the control of a queue pair's READ responses. They arrive as a burst in the
// buffer of this side's socket, whose size is known, so the whole window may be used from the
// start. The time of answers shows how many were requested, not a queue, so only losses count.
func NewFetch(k Kind, l Limits) Control {
	if k == Delay || k == None || k == Bounded {
		return New(k, l)
	}
	w := window{}
	w.start(l)
	w.size = l.Window
	w.losses.blind = true
	switch k {
	case Default:
		return &automatic{window: w}
	case Path:
		return newPath(l)
	}
	return &w
}

// fixed is no control: only the port's window limits a sender.
type fixed struct{ limit int }

func (*fixed) Sent(time.Duration, int, int64)                {}
func (*fixed) Acked(time.Duration, int, time.Duration, *RTT) {}
func (*fixed) Lost(time.Duration, int, *RTT)                 {}
func (*fixed) Timeout(time.Duration)                         {}
func (*fixed) Notified(time.Duration, *RTT)                  {}
func (n *fixed) Window() int                                 { return n.limit }
func (*fixed) Ready(time.Duration) time.Duration             { return 0 }
func (*fixed) Rate() float64                                 { return 0 }
func (*fixed) Paces() bool                                   { return false }
