package rc

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/reason"
)

// A tailProbe is a tail-loss probe (RFC 8985, 7): the last packet, sent once more, or a
// request for the last answer. The peer's answer shows what was lost at the end, which
// no later packet can show.
type tailProbe struct {
	at     time.Duration // when to send one
	wanted bool          // one is to be sent
	sent   uint8         // probes without progress
	rare   uint8         // short messages that are still to request an acknowledge, see quiet
	single bool          // the last probe was for the only packet without an answer
	slack  time.Duration // of the next probe for such a packet, if it is more than slack
	blind  uint8         // probes since a round trip was measured that ended a measurement
}

// maxSingleSlack bounds the slack of probes for single packets.
const maxSingleSlack = 16 * slack

// losslessSlack is added to the time of a probe where nothing can be lost unless the path changes. A
// peer that answers late there waits for a processor. The other use of a probe, to request an answer
// that no message requested, can wait: no program waits for the completion (see quiet).
const losslessSlack = 20 * time.Millisecond

// needless notes that the peer had what was sent again. A peer that sleeps between messages answers
// some of them late. The round trips do not show that, because nothing times the answer to a packet
// that was sent twice. So the next probes for single packets wait longer. Those behind other packets
// do not: a congested queue would hold the peer's answers to these.
func (t *tailProbe) needless() {
	if t.single {
		t.slack = min(2*max(t.slack, slack), maxSingleSlack)
	}
}

// timed notes an answer that came without a probe.
func (t *tailProbe) timed() {
	t.slack -= t.slack / 64
	t.blind = 0
}

// rareMessages is the number of short messages that request an acknowledge after one for
// which only a probe did. The peer takes a probe for a needless repetition.
const rareMessages = 255

// tailProbeLimit is the number of probes without an answer after which only the
// acknowledgement timer runs.
const tailProbeLimit = 6

// tailProbeTime is the time without an answer after which a probe is sent.
func (r *recovery) tailProbeTime() time.Duration {
	t := r.slower()
	d := 2*t.Smoothed() + 4*t.Deviation() + slack
	if r.window.lossless {
		return d + losslessSlack
	}
	if r.single() {
		d += max(r.tail.slack-slack, 0)
	}
	return d
}

// single reports whether only one packet has no answer yet.
func (r *recovery) single() bool { return r.nxt-r.una == 1 }

// armTailProbe starts the wait for a probe. While READs are outstanding only a softrdma
// peer is probed: another one answers a part of a READ before those before it.
func (r *recovery) armTailProbe(now time.Duration) {
	r.tail.at = machine.Never
	if (r.trips.acks.Known() || r.trips.answers.Known()) && r.tail.sent < tailProbeLimit && r.una != r.nxt &&
		(r.reads.outstanding == 0 || r.q.c.Selective()) {
		r.tail.at = now + r.tailProbeTime()<<max(r.tail.sent, r.tail.blind)
	}
}

// sendTailProbe produces a probe.
func (r *recovery) sendTailProbe(now time.Duration, out *machine.Out) bool {
	r.tail.wanted = false
	if r.una == r.nxt || r.rnr.until != machine.Never {
		return false
	}
	e := r.nxt - 1
	if b := r.loss.board; b != nil && b.High == r.nxt && len(b.Holes) > 0 {
		e = b.Holes[len(b.Holes)-1].End - 1
	}
	at := r.find(e)
	w := &r.requests[at]
	switch {
	case w.local() || w.state&(started|failed) != started:
		return false
	case w.responds() && !r.q.c.Selective():
		return false // see armTailProbe
	case w.responds():
		r.askFor(w, at, e, 1, out)
	case !r.segmentAgain(w, at, e, out):
		return false
	}
	out.AckReq = true
	r.tail.single = r.single()
	if r.window.sinceAckReq > 0 {
		r.tail.rare = rareMessages
	}
	if r.trips.timing {
		// On a path that has become longer each packet would be probed before it is answered, and
		// no round trip measured. So probes come later until one is (RFC 6298, 5.5).
		r.trips.timing = false
		r.tail.blind = min(r.tail.blind+1, tailProbeLimit)
	}
	r.q.c.Refuse(reason.Detail{Reason: reason.TailProbe, Expected: uint64(r.tailProbeTime().Microseconds()), Found: uint64(r.tail.sent)})
	r.armTailProbe(now)
	return true
}
