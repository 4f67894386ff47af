package measure

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"softrdma/bench"
	"softrdma/verbs"
)

const (
	maxBatch  = 32   // requests posted in one list, the last of which is signaled
	peakLists = 2048 // lists whose times are kept for the peak

	markerID = 1 << 63 // work request of a mark, see flow.mark
	creditID = 1 << 62 // of a READ of the credits of the queue pair in its lower bits
)

// A Flow is a bandwidth test of one message size, at one end.
type Flow struct {
	side               *Side
	set                *Settings
	size               int
	limit              int64 // messages of a queue pair; 0 until the time is over
	seed               uint64
	Sends              bool
	Receives           bool // SENDs from the peer
	senders            []sender
	receivers          []receiver
	busySenders        int // senders that have messages left or in flight
	pending            int // marks and READs of credits in flight
	openReceivers      int // takers whose peer has not ended
	start              time.Time
	countFrom, countTo time.Duration // between the margins
	batch              int
	posted             []time.Duration // of the first lists, since start
	finished           []time.Duration
}

// A sender is a queue pair's sending half.
type sender struct {
	wrs           []verbs.SendWR
	posted, done  int64
	counted       int64 // of done, those between the margins
	finished      bool
	credit        int64 // messages that the peer has receives for, where it counts
	readingCredit bool  // a READ of the peer's is in flight
}

// FlowResult is what one end of a flow sent.
type FlowResult struct {
	Messages int64   `json:"messages"`
	Counted  []int64 `json:"counted"` // of each queue pair, those between the margins
	Bytes    int64   `json:"bytes"`   // of Counted
	Seconds  float64 `json:"seconds"` // that they took
	Peak     float64 `json:"peak"`    // bytes per second
	CPU      float64 `json:"cpu"`     // seconds of processor time, for all messages

	Counters map[string]uint64 `json:"counters,omitempty"` // of the device, by reason
}

// NewFlow prepares one end: memory as the other end expects to find it, and
// receives for what it sends.
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
		left := *t.outstanding // by the flow of another size
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

// sourceBuffer and landing are the memory of a queue pair that this end's operations
// send from, and that the peer's (or this end's READs) fill.
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

// Run sends what there is to send and takes what comes, until both are over.
func (f *Flow) Run(ctx context.Context) (FlowResult, error) {
	ctx, stop := f.side.Watch(ctx)
	defer stop()
	var r FlowResult
	cpu := bench.CPUTime()
	f.start = time.Now()
	for marked := !f.Sends; !marked || f.pending > 0 || f.openReceivers > 0; {
		if err := f.postRequests(); err != nil {
			return r, err
		}
		if f.busySenders == 0 && !marked {
			marked = true
			r.Seconds = time.Since(f.start).Seconds()
			r.CPU = (bench.CPUTime() - cpu).Seconds()
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
		r.CPU = (bench.CPUTime() - cpu).Seconds()
	} else if f.overStream() {
		// What completed was TCP's; now that the marks are answered it has arrived.
		r.Seconds, r.CPU = time.Since(f.start).Seconds(), (bench.CPUTime() - cpu).Seconds()
	}
	for i := range f.senders {
		s := &f.senders[i]
		r.Messages += s.done
		r.Counted = append(r.Counted, s.counted)
		r.Bytes += s.counted * int64(f.size)
	}
	if f.set.Margin > 0 {
		r.Seconds = (f.countTo - f.countFrom).Seconds()
	}
	r.Counters = maps.Collect(f.side.Dev.Counters())
	if r.Seconds > 0 {
		r.Peak = max(f.peakRate(), float64(r.Bytes)/r.Seconds)
	}
	return r, nil
}

// postRequests posts lists of requests while they fit into the depth.
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
			last.Flags, last.WRID = verbs.Signaled, uint64(list)<<32|uint64(i)<<16|uint64(n)
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

// finishSender notes that a sender posts no more messages.
func (f *Flow) finishSender(s *sender) {
	s.finished = true
	if s.done == s.posted {
		f.busySenders--
	}
}

// handleCompletions notes the completions of the last poll.
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
			s := &f.senders[wc.WRID>>16&0xffff]
			s.done += int64(wc.WRID & 0xffff)
			if now >= f.countFrom && now < f.countTo {
				s.counted += int64(wc.WRID & 0xffff)
			}
			if wc.WRID>>32 < peakLists {
				f.finished = append(f.finished, now)
			}
			if s.finished && s.done == s.posted {
				f.busySenders--
			}
		}
	}
	return nil
}

// peakRate is the best rate, in bytes per second, between the posting of any list
// and the completion of any later one. Lists that came too late to be timed
// are left out.
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
