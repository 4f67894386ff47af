package measure

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"softrdma/internal/host"
	"softrdma/verbs"
)

const (
	maxBatch  = 32   // requests posted in one list; only the last is signaled
	peakLists = 2048 // lists whose times are kept for the peak rate

	markerID = 1 << 63 // WRID of a marker, see sendMarkers
	creditID = 1 << 62 // WRID of a READ of credits; the lower bits hold the queue pair's index
)

// A Flow is a bandwidth test of one message size, at one end.
type Flow struct {
	side               *Side
	set                *Settings
	size               int
	limit              int64 // messages of each queue pair; 0 means until the time is over
	seed               uint64
	Sends              bool
	Receives           bool // the peer sends SENDs
	senders            []sender
	receivers          []receiver
	busySenders        int // senders that have messages left or in flight
	pending            int // markers and READs of credits in flight
	openReceivers      int // receivers that have not received the peer's marker
	start              time.Time
	countFrom, countTo time.Duration // what completes between these is counted
	batch              int
	posted             []time.Duration // when the first lists were posted, since start
	finished           []time.Duration
}

// A sender is the sending half of a queue pair.
type sender struct {
	wrs           []verbs.SendWR
	posted, done  int64
	counted       int64 // completed between countFrom and countTo
	finished      bool
	credit        int64 // messages that the peer has receives for, if needsCredit
	readingCredit bool  // a READ of the peer's credit is in flight
}

// A FlowResult is what one end of a flow sent.
type FlowResult struct {
	Messages int64   `json:"messages"`
	Counted  []int64 `json:"counted"` // messages of each queue pair between the margins
	Bytes    int64   `json:"bytes"`   // of the counted messages
	Seconds  float64 `json:"seconds"` // in which the counted messages completed
	Peak     float64 `json:"peak"`    // bytes per second
	CPU      float64 `json:"cpu"`     // seconds of processor time for all messages

	Counters map[string]uint64 `json:"counters,omitempty"` // of the device, by reason
}

// NewFlow prepares one end: it fills the memory with a pattern that the other end can
// check, and posts receives.
func NewFlow(s *Side, set *Settings, size int, limit int64, seed uint64, sending bool) (*Flow, error) {
	f := &Flow{
		side: s, set: set, size: size, limit: limit, seed: seed, Sends: sending,
		Receives: set.Operation == OpSend && (set.Bidirectional || !sending),
		batch:    max(1, min(maxBatch, set.Depth/4)),
	}
	clear(s.Buf)
	for i := range s.QPs {
		fillPattern(f.sourceBuffer(i), seed+uint64(i))
		if sending {
			f.senders = append(f.senders, sender{wrs: f.newRequests(i), credit: int64(2*set.Depth) - 1})
		}
		if f.Receives {
			f.receivers = append(f.receivers, f.newReceiver(i))
		}
	}
	for i := range f.receivers {
		t := &f.receivers[i]
		left := *t.outstanding // left by the flow of the previous size
		atomic.StoreUint64(t.posted, uint64(left))
		for t.toPost = 2*set.Depth - left; t.toPost > 0; {
			if err := t.post(s.QPs[i]); err != nil {
				return nil, err
			}
		}
	}
	f.busySenders, f.openReceivers = len(f.senders), len(f.receivers)
	f.countFrom, f.countTo = set.countedInterval()
	return f, nil
}

// sourceBuffer is the memory that a queue pair sends from, targetBuffer the memory that
// the peer's operations or this end's READs fill.
func (f *Flow) sourceBuffer(i int) []byte {
	at := i * f.set.stride()
	return f.side.Buf[at : at+f.size]
}

func (f *Flow) targetBuffer(i int) []byte {
	at := f.set.Target() + i*f.set.stride()
	return f.side.Buf[at : at+f.size]
}

func (f *Flow) newRequests(i int) []verbs.SendWR {
	at := i * f.set.stride()
	w := verbs.SendWR{SGL: []verbs.SGE{f.side.MR.SGE(at, f.size)}}
	w.RKey, w.RemoteAddr = f.side.Remote.RKey, f.side.Remote.Addr+uint64(f.set.Target()+at)
	switch f.set.Operation {
	case OpWrite:
		w.Op = verbs.OpWrite
	case OpSend:
		w.Op = verbs.OpSend
	case OpRead:
		w.Op, w.RemoteAddr = verbs.OpRead, f.side.Remote.Addr+uint64(at)
		w.SGL[0] = f.side.MR.SGE(f.set.Target()+at, f.size)
	case OpAtomic:
		w.Op, w.Add = verbs.OpFetchAdd, 1
	}
	list := make([]verbs.SendWR, f.batch)
	for k := range list {
		list[k] = w
	}
	return list
}

// Run sends and receives until both are complete.
func (f *Flow) Run(ctx context.Context) (FlowResult, error) {
	ctx, stop := f.side.Watch(ctx)
	defer stop()
	var r FlowResult
	cpu := host.CPUTime()
	f.start = time.Now()
	for marked := !f.Sends; !marked || f.pending > 0 || f.openReceivers > 0; {
		if err := f.postRequests(); err != nil {
			return r, err
		}
		if f.busySenders == 0 && !marked {
			marked = true
			r.Seconds = time.Since(f.start).Seconds()
			r.CPU = (host.CPUTime() - cpu).Seconds()
			if err := f.sendMarkers(); err != nil {
				return r, err
			}
			continue
		}
		if err := f.side.Poll(ctx); err != nil {
			return r, err
		}
		if err := f.handleCompletions(); err != nil {
			return r, err
		}
	}
	if !f.Sends {
		r.CPU = (host.CPUTime() - cpu).Seconds()
	} else if f.overStream() {
		// A request completes when TCP has the data. The answered marker shows that all
		// of it has arrived.
		r.Seconds, r.CPU = time.Since(f.start).Seconds(), (host.CPUTime() - cpu).Seconds()
	}
	f.sum(&r)
	r.Counters = maps.Collect(f.side.Dev.Counters())
	return r, nil
}

// sum fills in what the senders have counted. The caller has set Seconds to the
// duration of the whole flow.
func (f *Flow) sum(r *FlowResult) {
	for i := range f.senders {
		s := &f.senders[i]
		r.Messages += s.done
		r.Counted = append(r.Counted, s.counted)
		r.Bytes += s.counted * int64(f.size)
	}
	if f.set.Margin > 0 {
		r.Seconds = (f.countTo - f.countFrom).Seconds()
	}
	if r.Seconds > 0 {
		r.Peak = max(f.peakRate(), float64(r.Bytes)/r.Seconds)
	}
}

// postRequests posts lists of requests while the send queues have room for them.
func (f *Flow) postRequests() error {
	for i := range f.senders {
		s := &f.senders[i]
		for !s.finished && int(s.posted-s.done)+f.batch <= f.set.Depth {
			if f.needsCredit() {
				if err := f.readCredit(i); err != nil {
					return err
				}
				if s.credit < s.posted+int64(f.batch) {
					break
				}
			}
			now := time.Since(f.start)
			n := f.batch
			if f.limit > 0 {
				n = int(min(int64(n), f.limit-s.posted))
			}
			if n == 0 || f.limit == 0 && now >= f.set.Duration() {
				f.finishSender(s)
				break
			}
			list := len(f.posted)
			if list < peakLists && n == f.batch {
				f.posted = append(f.posted, now)
			} else {
				list = peakLists
			}
			last := &s.wrs[n-1]
			last.Flags, last.WRID = verbs.Signaled, listID(list, i, n)
			err := f.side.QPs[i].PostSend(s.wrs[:n]...)
			last.Flags = 0
			if err != nil {
				return err
			}
			s.posted += int64(n)
		}
	}
	return nil
}

// finishSender marks a sender that has posted its last message.
func (f *Flow) finishSender(s *sender) {
	s.finished = true
	if s.done == s.posted {
		f.busySenders--
	}
}

// handleCompletions handles the completions of the last poll.
func (f *Flow) handleCompletions() error {
	var now time.Duration
	for k := range f.side.wcs[:f.side.n] {
		wc := &f.side.wcs[k]
		switch {
		case wc.Op >= verbs.WCRecv:
			if err := f.messageArrived(wc); err != nil {
				return err
			}
		case wc.WRID == markerID:
			f.pending--
		case wc.WRID&creditID != 0:
			f.creditArrived(int(wc.WRID &^ creditID))
		default:
			if now == 0 {
				now = time.Since(f.start)
			}
			f.listCompleted(wc.WRID, now)
		}
	}
	return nil
}

// listID returns the WRID of a list of n requests on queue pair i. list is its index
// in Flow.posted, or peakLists.
func listID(list, i, n int) uint64 { return uint64(list)<<32 | uint64(i)<<16 | uint64(n) }

// listCompleted counts the messages of a list that has completed.
func (f *Flow) listCompleted(id uint64, now time.Duration) {
	s, n := &f.senders[id>>16&0xffff], int64(id&0xffff)
	s.done += n
	if now >= f.countFrom && now < f.countTo {
		s.counted += n
	}
	if id>>32 < peakLists {
		f.finished = append(f.finished, now)
	}
	if s.finished && s.done == s.posted {
		f.busySenders--
	}
}

// peakRate returns the best rate, in bytes per second, between the posting of any list
// and the completion of the same or a later one. Lists after the first peakLists are
// left out.
func (f *Flow) peakRate() float64 {
	best := 0.0
	bytes := float64(f.batch * f.size)
	for j, done := range f.finished {
		for i, posted := range f.posted[:min(j+1, len(f.posted))] {
			if t := done - posted; t > 0 {
				best = max(best, bytes*float64(j-i+1)/t.Seconds())
			}
		}
	}
	return best
}
