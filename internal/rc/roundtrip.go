package rc

import (
	"time"

	"softrdma/internal/congestion"
)

// roundTrips measures the time from a packet to its answer. One packet is timed at a
// time.
type roundTrips struct {
	acks    congestion.RTT // of acknowledges
	answers congestion.RTT // of READs and atomics, whose answers wait for those before them

	timing     bool          // timed and at are set
	timedAgain bool          // timed was sent before
	timedRead  bool          // timed is of a READ or an atomic
	timed      uint32        // sequence number whose answer is timed
	at         time.Duration // when its packet left

	took     time.Duration // the last acknowledge, until the congestion control knows
	readTook time.Duration // the last answer
}

// slack is what an answer may take longer than the round trips so far, since processes
// wait for their processors.
const slack = 200 * time.Microsecond

// time starts to time the answer of sequence number e, of a packet that leaves now. If it is sent again,
// the answer must be of this time: the peer has said that it did not take it. After a NAK for a sequence
// error the oldest packet may still be on its way; after an RNR NAK it was refused, unless a timeout followed.
func (r *recovery) time(now time.Duration, e uint32, read, again bool) {
	t := &r.trips
	if !t.timing && (!again || r.retry.certain && e != r.una || r.rnr.retries > 0 && r.retry.retries == 0) {
		t.timedAgain = again
		t.timing, t.timedRead, t.timed, t.at = true, read, e, now
	}
}

// sample takes the time of the answer that was timed.
func (r *recovery) sample(now time.Duration) {
	t := &r.trips
	t.timing = false
	r.tail.timed()
	took := max(now-t.at, 1)
	if t.timedAgain && took < t.acks.Least() {
		return // it answers the first transmission, and was late
	}
	r.retry.doubled = 0
	if t.timedRead {
		t.answers.Sample(now, took)
		if r.loss.board == nil { // otherwise it shows what was missing, not a queue
			t.readTook = took
		}
		return
	}
	t.acks.Sample(now, took)
	t.took = took
}

// least is the smallest round trip that is known.
func (t *roundTrips) least() time.Duration {
	switch {
	case !t.acks.Known():
		return t.answers.Least()
	case !t.answers.Known():
		return t.acks.Least()
	}
	return min(t.acks.Least(), t.answers.Least())
}

// slower returns the round trips of the kind of answer that is expected last.
func (r *recovery) slower() *congestion.RTT {
	t := &r.trips
	if !t.acks.Known() || r.reads.outstanding > 0 && t.answers.Smoothed() > t.acks.Smoothed() {
		return &t.answers
	}
	return &t.acks
}

// answerTime is how long an answer of a kind takes at most, as far as is known.
func (r *recovery) answerTime(t *congestion.RTT) time.Duration {
	if !t.Known() {
		return r.p.Attr.AckTimeout()/2 + slack
	}
	return t.Smoothed() + max(4*t.Deviation(), r.reorderWindow()) + slack
}
