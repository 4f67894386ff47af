package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/rc/conn"
	"softrdma/internal/rc/scoreboard"
	"softrdma/internal/rc/seq"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// This file turns the peer's answers into the scoreboard, between softrdma peers. What is
// done about losses is in loss.go.

// selectiveAck takes a selective acknowledge, what the peer executed and what it holds, or one with telemetry.
func (r *completer) selectiveAck(now time.Duration, in *machine.In) {
	w, ranges, ok := parseSelectiveAck(in)
	if !ok {
		r.q.c.Refuse(reason.Detail{Reason: reason.ResponseLength, Expected: own.SelectiveAckLen, Found: uint64(len(in.Payload))})
		return
	}
	upTo := r.sequence(in.PSN) + 1
	switch {
	case seq.Before(r.max, upTo):
		r.q.c.Refuse(reason.Detail{Reason: reason.ResponseGhost, Expected: seq.Detail(r.max), Found: uint64(in.PSN)})
		return
	case seq.Before(upTo, r.una):
		r.q.c.Refuse(reason.Detail{Reason: reason.ResponseStale, Expected: seq.Detail(r.una), Found: uint64(in.PSN)})
		return
	}
	if in.Opcode == ib.RCTelemetry {
		r.inform(now, in.Payload)
	}
	r.sender.credited(now, in.AETH.Syndrome)
	if in.Wide && in.Opcode == ib.RCSelectiveAck {
		r.sender.widened(w.Span)
		r.reads.keeps(now, w.Kept)
	}
	r.recovery.countDuplicates(now, w.Duplicates, upTo)
	n := len(ranges) / own.RangeLen
	if r.recovery.loss.board == nil && (n == 0 || seq.Before(r.nxt, upTo)) {
		// Nothing is missing, or everything is being sent again already.
		r.advance(now, upTo)
		return
	}
	upTo = seq.Min(upTo, r.nxt)
	b := r.recovery.openBoard()
	b.Executed = seq.Max(b.Executed, upTo)
	r.recovery.arrived(now, r.una, upTo, true)
	at := upTo + min(w.Begin, conn.MaxSpan)
	for i := range n {
		skip, count := own.RangeOf(ranges, i)
		first := at + skip
		at = first + count
		if seq.Before(r.max, at) {
			r.sender.disownFrom(seq.Max(first, r.max))
		}
		if !seq.Before(first, r.nxt) {
			break
		}
		r.recovery.arrived(now, first, r.nxt-uint32(max(int32(r.nxt-at), 0)), true)
	}
	r.recovery.judge(now)
}

// parseSelectiveAck reads the payload of a selective acknowledge of either kind, or of one with telemetry.
func parseSelectiveAck(in *machine.In) (w own.WideAck, ranges []byte, ok bool) {
	if in.Opcode == ib.RCTelemetry {
		w.Duplicates, _, ok = own.ParseTelemetry(in.Payload)
		return w, nil, ok
	}
	if in.Wide {
		return own.ParseWideAck(in.Payload)
	}
	if w.Duplicates, ok = own.Duplicates(in.Payload); ok {
		ranges = in.Payload[own.SelectiveAckLen:]
	}
	return w, ranges, ok
}

// countDuplicates takes the peer's count of requests that it got twice. A keep-alive
// probe is among them.
func (r *recovery) countDuplicates(now time.Duration, duplicates, upTo uint32) {
	n := duplicates - r.loss.duplicates
	if int32(n) <= 0 {
		return
	}
	r.loss.duplicates = duplicates
	if !r.q.answersProbe(now, upTo-1) {
		r.tail.needless()
		r.q.c.Refuse(reason.Detail{Reason: reason.RepeatNeedless, Expected: uint64(duplicates), Found: uint64(n)})
	}
}

// openBoard starts the scoreboard if there is none.
func (r *recovery) openBoard() *scoreboard.Board {
	if r.loss.board == nil {
		r.loss.board = r.q.store.board(r.una)
	}
	return r.loss.board
}

// closeBoard ends it.
func (r *recovery) closeBoard() {
	if r.loss.board == nil {
		return
	}
	r.q.store.returnBoard(r.loss.board)
	r.loss.board, r.loss.at, r.window.early = nil, machine.Never, 0
	r.completer.scatter.Restart()
	if r.reads.landed == 0 {
		return
	}
	for i := r.sq.Head; i != r.sq.End; i = r.p.SQ.Next(i) {
		r.requests[i].state &^= landed
	}
	r.reads.landed = 0
}

// arrived notes that the peer has the requests from first up to end. By a selective
// acknowledge it has received them; by any other answer it has executed them and has
// answered before. SENDs and WRITEs have arrived with that. The answer to a READ or an
// atomic must come.
func (r *recovery) arrived(now time.Duration, first, end uint32, selective bool) {
	b := r.loss.board
	first = seq.Max(first, seq.Max(r.una, b.Answered)) // what is missing before the last answer is late already
	if !seq.Before(first, end) || b.HasAll(first, end) {
		return
	}
	from := first // of requests without an answer
	for i := r.find(first); i != r.sq.End; i = r.p.SQ.Next(i) {
		w := &r.requests[i]
		if w.local() || !w.responds() && seq.Before(w.last, end) {
			continue
		}
		if !seq.Before(w.first, end) || !w.responds() {
			break
		}
		lo, hi := seq.Max(first, w.first), seq.Min(end, w.last+1)
		r.received(now, from, lo)
		switch {
		case !selective:
			r.answerLate(now, lo, hi)
		case lo == w.first || !seq.Before(b.Executed, w.last+1):
			r.answerPending(now, lo, hi)
		case seq.Before(b.High, hi):
			b.Open(now, hi, scoreboard.Late) // the peer has a probe of the READ, not the READ
		}
		from = hi
	}
	r.received(now, from, end)
}

// received notes that the peer has the SENDs and WRITEs from first up to end.
func (r *recovery) received(now time.Duration, first, end uint32) {
	if n := r.fillHoles(now, first, end) * (r.mtu + overhead); n > 0 {
		r.window.early += n
		r.q.ctl.Acked(now, int(n), 0, &r.trips.acks)
	}
}

// fillHoles notes that everything from first up to end has arrived, and returns how many
// sequence numbers of it are news.
func (r *recovery) fillHoles(now time.Duration, first, end uint32) (n uint32) {
	b := r.loss.board
	if !seq.Before(first, end) {
		return 0
	}
	if t := &r.trips; t.timing && !seq.Before(t.timed, first) && seq.Before(t.timed, end) {
		r.sample(now)
	}
	if seq.Before(b.High, end) {
		start := seq.Max(first, b.High)
		b.Skip(now, start)
		n, b.High, end = end-start, end, start
	}
	if n > 0 {
		r.tail.sent = 0
	}
	if !seq.Before(first, end) {
		return n
	}
	i, k := b.Within(first, end)
	for j := i; j < k; j++ {
		n += b.Holes[j].End - b.Holes[j].First
		r.filled(now, &b.Holes[j])
	}
	b.Fill(i, k)
	return n
}

// answerPending notes that the peer has a READ or an atomic: its request is not lost.
func (r *recovery) answerPending(now time.Duration, first, end uint32) {
	b := r.loss.board
	if seq.Before(b.High, end) {
		start := seq.Max(first, b.High)
		b.Skip(now, start)
		b.Open(now, end, scoreboard.Pending)
		end = start
	}
	if !seq.Before(first, end) {
		return
	}
	i, k := b.Within(first, end)
	for ; i < k; i++ {
		if h := &b.Holes[i]; h.State != scoreboard.Pending && !h.Answer {
			b.Move(h, scoreboard.Pending)
		}
	}
}

// answerLate notes that the peer has answered something behind a READ or an atomic: the
// answers to it that have not come are late.
func (r *recovery) answerLate(now time.Duration, first, end uint32) {
	b := r.loss.board
	if seq.Before(b.High, end) {
		b.Skip(now, seq.Max(first, b.High))
		b.Open(now, end, scoreboard.Late)
	}
	i, k := b.Within(first, end)
	for ; i < k; i++ {
		h := &b.Holes[i]
		h.Answer = true
		if h.State == scoreboard.Pending {
			h.Seen = now
			b.Move(h, scoreboard.Late)
		}
	}
}
