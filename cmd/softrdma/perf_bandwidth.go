package main

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"softrdma/bench"
	"softrdma/verbs"
)

const (
	maxBatch  = 32   // requests posted in one list, the last of which is signaled
	peakLists = 2048 // lists whose times are kept for the peak

	markID   = 1 << 63 // work request of a mark, see flow.mark
	creditID = 1 << 62 // of a READ of the credits of the queue pair in its lower bits
)

// A flow is a bandwidth test of one message size, at one end.
type flow struct {
	side     *side
	set      *perfSettings
	size     int
	limit    int64 // messages of a queue pair; 0 until the time is over
	seed     uint64
	sending  bool
	expects  bool // SENDs from the peer
	senders  []sender
	takers   []taker
	busy     int // senders that have messages left or in flight
	marks    int // marks and READs of credits in flight
	open     int // takers whose peer has not ended
	start    time.Time
	from, to time.Duration // between the margins
	batch    int
	posted   []time.Duration // of the first lists, since start
	finished []time.Duration
}

// A sender is a queue pair's sending half.
type sender struct {
	wrs          []verbs.SendWR
	posted, done int64
	counted      int64 // of done, those between the margins
	over         bool
	credit       int64 // messages that the peer has receives for, where it counts
	asking       bool  // a READ of the peer's is in flight
}

// A taker is a queue pair's receiving half.
type taker struct {
	wrs    []verbs.RecvWR
	taken  int64
	due    int     // receives to post again
	posted *int    // of the queue pair, and not taken
	count  *uint64 // that were posted; the peer reads it
}

// flowResult is what one end of a flow sent.
type flowResult struct {
	Messages int64   `json:"messages"`
	Counted  []int64 `json:"counted"` // of each queue pair, those between the margins
	Bytes    int64   `json:"bytes"`   // of Counted
	Seconds  float64 `json:"seconds"` // that they took
	Peak     float64 `json:"peak"`    // bytes per second
	CPU      float64 `json:"cpu"`     // seconds of processor time, for all messages

	Counters map[string]uint64 `json:"counters,omitempty"` // of the device, by reason
}

// newFlow prepares one end: memory as the other end expects to find it, and
// receives for what it sends.
func newFlow(s *side, set *perfSettings, size int, limit int64, seed uint64, sending bool) (*flow, error) {
	f := &flow{
		side: s, set: set, size: size, limit: limit, seed: seed, sending: sending,
		expects: set.Operation == opSend && (set.Bidirectional || !sending),
		batch:   max(1, min(maxBatch, set.Depth/4)),
	}
	clear(s.buf)
	for i := range s.qps {
		fillPattern(f.source(i), seed+uint64(i))
		if sending {
			f.senders = append(f.senders, sender{wrs: f.requests(i), credit: int64(2*set.Depth) - 1})
		}
		if f.expects {
			f.takers = append(f.takers, f.taker(i))
		}
	}
	for i := range f.takers {
		t := &f.takers[i]
		left := *t.posted // by the flow of another size
		atomic.StoreUint64(t.count, uint64(left))
		for t.due = 2*set.Depth - left; t.due > 0; {
			if err := t.post(s.qps[i]); err != nil {
				return nil, err
			}
		}
	}
	f.busy, f.open = len(f.senders), len(f.takers)
	f.from, f.to = set.steady()
	return f, nil
}

// source and landing are the memory of a queue pair that this end's operations
// send from, and that the peer's (or this end's READs) fill.
func (f *flow) source(i int) []byte {
	at := i * f.set.stride()
	return f.side.buf[at : at+f.size]
}

func (f *flow) landing(i int) []byte {
	at := f.set.target() + i*f.set.stride()
	return f.side.buf[at : at+f.size]
}

func (f *flow) requests(i int) []verbs.SendWR {
	at := i * f.set.stride()
	w := verbs.SendWR{SGL: []verbs.SGE{f.side.mr.SGE(at, f.size)}}
	w.RKey, w.RemoteAddr = f.side.remote.RKey, f.side.remote.Addr+uint64(f.set.target()+at)
	switch f.set.Operation {
	case opWrite:
		w.Op = verbs.OpWrite
	case opSend:
		w.Op = verbs.OpSend
	case opRead:
		w.Op, w.RemoteAddr = verbs.OpRead, f.side.remote.Addr+uint64(at)
		w.SGL[0] = f.side.mr.SGE(f.set.target()+at, f.size)
	case opAtomic:
		w.Op, w.Add = verbs.OpFetchAdd, 1
	}
	list := make([]verbs.SendWR, f.batch)
	for k := range list {
		list[k] = w
	}
	return list
}

// taker has receives with room for every size: those that one flow leaves are
// the next one's first.
func (f *flow) taker(i int) taker {
	if f.side.receives == nil {
		f.side.receives = make([]int, len(f.side.qps))
	}
	w := verbs.RecvWR{WRID: uint64(i), SGL: []verbs.SGE{f.side.mr.SGE(f.set.target()+i*f.set.stride(), slices.Max(f.set.Sizes))}}
	t := taker{wrs: make([]verbs.RecvWR, f.batch), posted: &f.side.receives[i], count: f.side.word(f.set.credit(i))}
	for k := range t.wrs {
		t.wrs[k] = w
	}
	return t
}

func (t *taker) post(q *verbs.QP) error {
	n := min(t.due, len(t.wrs))
	t.due -= n
	if err := q.PostRecv(t.wrs[:n]...); err != nil {
		return err
	}
	*t.posted += n
	atomic.AddUint64(t.count, uint64(n))
	return nil
}

// counts tells whether the peer has to be asked how many receives it has posted:
// of SENDs on iWARP, which knows no waiting for them.
func (f *flow) counts() bool { return f.streamed() && f.set.Operation == opSend }

// ask reads the peer's count where there may soon be too few. One receive is
// kept for the mark.
func (f *flow) ask(i int) error {
	s := &f.senders[i]
	if s.asking || int(s.credit-s.posted) > f.set.Depth+f.batch {
		return nil
	}
	s.asking = true
	f.marks++
	return f.side.qps[i].PostSend(verbs.SendWR{
		Op: verbs.OpRead, Flags: verbs.Signaled, WRID: creditID | uint64(i), SGL: []verbs.SGE{f.side.mr.SGE(f.set.credit(i)+8, 8)},
		RemoteAddr: f.side.remote.Addr + uint64(f.set.credit(i)), RKey: f.side.remote.RKey,
	})
}

// credited takes the answer.
func (f *flow) credited(i int) {
	f.marks--
	f.senders[i].asking = false
	f.senders[i].credit = int64(atomic.LoadUint64(f.side.word(f.set.credit(i)+8))) - 1
}

// run sends what there is to send and takes what comes, until both are over.
func (f *flow) run(ctx context.Context) (flowResult, error) {
	ctx, stop := f.side.watch(ctx)
	defer stop()
	var r flowResult
	cpu := bench.CPUTime()
	f.start = time.Now()
	for marked := !f.sending; !marked || f.marks > 0 || f.open > 0; {
		if err := f.fill(); err != nil {
			return r, err
		}
		if f.busy == 0 && !marked {
			marked = true
			r.Seconds = time.Since(f.start).Seconds()
			r.CPU = (bench.CPUTime() - cpu).Seconds()
			if err := f.mark(); err != nil {
				return r, err
			}
			continue
		}
		if err := f.side.poll(ctx); err != nil {
			return r, err
		}
		if err := f.account(); err != nil {
			return r, err
		}
	}
	if !f.sending {
		r.CPU = (bench.CPUTime() - cpu).Seconds()
	} else if f.streamed() {
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
		r.Seconds = (f.to - f.from).Seconds()
	}
	r.Counters = maps.Collect(f.side.dev.Counters())
	if r.Seconds > 0 {
		r.Peak = max(f.peak(), float64(r.Bytes)/r.Seconds)
	}
	return r, nil
}

// fill posts lists of requests while they fit into the depth.
func (f *flow) fill() error {
	for i := range f.senders {
		s := &f.senders[i]
		for !s.over && int(s.posted-s.done)+f.batch <= f.set.Depth {
			if f.counts() {
				if err := f.ask(i); err != nil {
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
			if n == 0 || f.limit == 0 && now >= f.set.duration() {
				f.end(s)
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
			err := f.side.qps[i].PostSend(s.wrs[:n]...)
			last.Flags = 0
			if err != nil {
				return err
			}
			s.posted += int64(n)
		}
	}
	return nil
}

// end notes that a sender posts no more messages.
func (f *flow) end(s *sender) {
	s.over = true
	if s.done == s.posted {
		f.busy--
	}
}

// account notes the completions of the last poll.
func (f *flow) account() error {
	var now time.Duration
	for k := range f.side.wcs[:f.side.n] {
		wc := &f.side.wcs[k]
		switch {
		case wc.Op >= verbs.WCRecv:
			if err := f.take(wc); err != nil {
				return err
			}
		case wc.WRID == markID:
			f.marks--
		case wc.WRID&creditID != 0:
			f.credited(int(wc.WRID &^ creditID))
		default:
			if now == 0 {
				now = time.Since(f.start)
			}
			s := &f.senders[wc.WRID>>16&0xffff]
			s.done += int64(wc.WRID & 0xffff)
			if now >= f.from && now < f.to {
				s.counted += int64(wc.WRID & 0xffff)
			}
			if wc.WRID>>32 < peakLists {
				f.finished = append(f.finished, now)
			}
			if s.over && s.done == s.posted {
				f.busy--
			}
		}
	}
	return nil
}

// take notes a SEND of the peer and posts its receive again, a list at a time.
func (f *flow) take(wc *verbs.WC) error {
	t := &f.takers[wc.WRID]
	*t.posted--
	if int(wc.ByteLen) != f.size {
		return dataErrorf("SEND: expected %d bytes, received %d", f.size, wc.ByteLen)
	}
	if wc.Flags&verbs.WCWithImm != 0 {
		f.open--
		if wc.Imm != uint32(t.taken) {
			return dataErrorf("SEND: the peer sent %d messages (modulo 2^32), received %d", wc.Imm, t.taken)
		}
		return nil
	}
	t.taken++
	if t.due++; t.due < len(t.wrs) {
		return nil
	}
	return t.post(f.side.qps[wc.WRID])
}

// mark sends one more message on each queue pair when the measured ones have
// completed, with other content: what the receiver's memory holds in the end
// can then be nothing but the last message. A mark of SENDs also tells how many
// messages went before it.
func (f *flow) mark() error {
	if f.set.Operation == opAtomic {
		return nil
	}
	for i := range f.senders {
		s := &f.senders[i]
		w := s.wrs[:1]
		w[0].Flags, w[0].WRID = verbs.Signaled, markID
		if f.set.Operation == opRead {
			clear(f.landing(i))
		} else {
			fillPattern(f.source(i), ^(f.seed + uint64(i)))
		}
		if f.set.Operation == opSend {
			w[0].Op, w[0].Imm = verbs.OpSendImm, uint32(s.done)
		}
		if f.streamed() && f.set.Operation != opRead {
			w = f.streamMark(w[0], i)
		}
		if err := f.side.qps[i].PostSend(w...); err != nil {
			return err
		}
		f.marks++
	}
	return nil
}

// streamed tells whether requests complete when TCP has them, and not when they
// have arrived: on iWARP.
func (f *flow) streamed() bool { return f.side.dev.Protocol() == verbs.IWARP }

// streamMark is a mark of WRITEs or SENDs on iWARP: a WRITE, with immediate data
// for want of SENDs with it, and a READ, whose answer tells that all before it
// has arrived.
func (f *flow) streamMark(w verbs.SendWR, i int) []verbs.SendWR {
	if w.Op == verbs.OpSendImm {
		w.Op = verbs.OpWriteImm
	}
	w.Flags = 0
	back := verbs.SendWR{
		Op: verbs.OpRead, Flags: verbs.Signaled, WRID: markID, SGL: []verbs.SGE{f.side.mr.SGE(i*f.set.stride(), 1)},
		RemoteAddr: w.RemoteAddr, RKey: w.RKey,
	}
	return []verbs.SendWR{w, back}
}

// verify checks what the peer's flow, or this end's READs, left in memory.
// messages is how many the peer has sent.
func (f *flow) verify(messages int64) error {
	var sum int64
	for i := range f.side.qps {
		seed := f.seed + uint64(i)
		switch f.set.Operation {
		case opAtomic:
			sum += int64(*f.side.word(f.set.target() + i*f.set.stride()))
			continue
		case opWrite, opSend:
			seed = ^seed
		}
		if at := differs(f.landing(i), seed); at >= 0 {
			return dataErrorf("%s of %d bytes on queue pair %d: the data differs from what was sent from byte %d on", f.set.Operation, f.size, i, at)
		}
	}
	if f.set.Operation == opAtomic && sum != messages {
		return dataErrorf("fetch-and-add: the counters sum up to %d after %d additions of 1", sum, messages)
	}
	return nil
}

// peak is the best rate, in bytes per second, between the posting of any list
// and the completion of any later one. Lists that came too late to be timed
// are left out.
func (f *flow) peak() float64 {
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
