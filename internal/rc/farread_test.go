package rc

import (
	"testing"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/rc/conn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// newFar connects two softrdma ends that have measured a path of 20 ms and agree on a number of READs.
func newFar(t testing.TB, agreed uint8) *pair { return newFarRing(t, agreed, 63) }

// newFarRing is newFar with room for so many requests.
func newFarRing(t testing.TB, agreed uint8, depth int) *pair {
	w := newSelective(t, func(_ int, p *machine.Port) {
		p.Attr.MaxRdAtomic, p.Attr.MaxDestRdAtomic, p.Attr.Timeout = agreed, agreed, 18
		p.SQ = queue.NewSendRing(depth, 4, 64)
	})
	a, b := w.n[0], w.n[1]
	a.post(wqe{op: queue.Read, list: []memory.SGE{a.sge(0, 8)}, remote: b.target(0)})
	w.farTrip()
	w.wantStatuses(&a.send, 0)
	if !a.q.req.farReads() {
		t.Fatal("the path is not long")
	}
	return w
}

// farTrip lets a round trip pass.
func (w *pair) farTrip() {
	for i := range w.n {
		w.n[i].q.Expire(w.now)
		w.take(i, 1<<20)
		w.now += 10 * time.Millisecond
		w.deliver(1-i, 1<<20)
	}
}

// On a long path the requester asks how many READs the responder remembers, once in a round trip, and has as many
// outstanding.
func TestFarReadsExceedTheAgreedNumber(t *testing.T) {
	w := newFar(t, 1)
	a := w.n[0]
	sent := len(w.sent[1])
	w.postReads(50, 1)
	most, trips := uint16(0), 0
	for ; len(a.send.list) < 51 && trips < 40; trips++ {
		w.farTrip()
		w.take(0, 1<<20)
		most = max(most, a.q.req.reads.outstanding)
	}
	w.settle()
	w.wantStatuses(&a.send, make([]queue.Status, 51)...)
	asks, kept := 0, 0
	for _, p := range w.sent[1][sent:] {
		if p.Opcode == ib.RCReadRequest && p.Wide {
			asks++
		}
		if p.Keep {
			kept++
		}
	}
	if most < 20 || kept < 20 || asks < 1 || asks > trips {
		t.Errorf("at most %d READs outstanding, %d beyond the agreed number, %d questions in %d round trips", most, kept, asks, trips)
	}
	w.holdsNothing()
}

// Nothing is asked on a short path, and no more READs than usual are outstanding.
func TestNearReadsAskNothing(t *testing.T) {
	w := newSelective(t, func(_ int, p *machine.Port) { p.Attr.MaxRdAtomic, p.Attr.MaxDestRdAtomic = 1, 1 })
	w.postReads(50, 1)
	w.settle()
	w.wantStatuses(&w.n[0].send, make([]queue.Status, 50)...)
	for _, p := range w.sent[1] {
		if p.Wide || p.Keep {
			t.Fatalf("a READ request with W or K: %+v", p.BTH)
		}
	}
}

// What a responder said once holds for a while only, since it may forget.
func TestWordOfKeptReadsExpires(t *testing.T) {
	w := newFar(t, 1)
	r := &w.n[0].q.req
	r.reads.outstanding = conn.KeepFactor
	if r.mayAsk(w.now) {
		t.Error("more READs than are remembered")
	}
	r.reads.keeps(w.now, 1<<31)
	if !r.mayAsk(w.now+keptTime-1) || r.mayAsk(w.now+keptTime) {
		t.Error("the word does not hold for its time, or for longer")
	}
	if r.reads.outstanding = conn.MaxKept; r.mayAsk(w.now) {
		t.Error("more READs than any responder remembers")
	}
	r.reads.outstanding = 0
}

// A pacing control lets some bytes be asked for.
type pacing struct {
	congestion.Control
	left   int
	flight int64
}

func (p *pacing) Sent(_ time.Duration, n int, flight int64) { p.left, p.flight = p.left-n, flight }
func (p *pacing) Paces() bool                               { return true }
func (p *pacing) Window() int                               { return 1 << 20 }
func (p *pacing) Ready(now time.Duration) time.Duration {
	if p.left > 0 {
		return now
	}
	return now + time.Millisecond
}

// What READs ask for once more is paced, as it would overflow the queue that has dropped it. What is lost does not count
// as awaited.
func TestFarReadsAskAgainAtTheirPace(t *testing.T) {
	w := newFar(t, 4)
	a := w.n[0]
	answers := w.count[0]
	w.fate = func(to, i int, _ *ib.Packet) (int, int) {
		if n := i - answers; to == 0 && n > 0 && n < 60 && n%2 == 1 {
			return 0, 0
		}
		return 1, 0
	}
	w.postReads(1, 64)
	w.farTrip()
	due := a.q.req.reads.due
	ctl := &pacing{Control: a.q.req.reads.ctl, left: 10 * (testMTU + overhead)}
	a.q.req.reads.ctl = ctl
	w.expire(0)
	if n := a.q.req.inbound(); int64(due)-n < 25*testMTU {
		t.Errorf("%d bytes are awaited, %d with what is lost", n, due)
	}
	before := w.count[1]
	w.take(0, 1<<20)
	if n := w.count[1] - before; n != 10 {
		t.Errorf("%d READs ask again, expected 10", n)
	}
	ctl.left = 1 << 20
	w.settle()
	w.wantStatuses(&a.send, 0, 0)
	if n := a.count(reason.ResponseStale); n != 0 {
		t.Errorf("%d answers came twice", n)
	}
	w.holdsNothing()
}

// READ requests are sent four times on a long path that loses packets, and answered once.
func TestFarReadRequestsAreSentFourTimes(t *testing.T) {
	w := newFar(t, 4)
	w.n[0].q.req.recovery.copies.left = copiesPerLoss
	requests, answers := w.count[1], w.count[0]
	w.fate = func(to, i int, _ *ib.Packet) (int, int) {
		if to == 1 && i-requests < 3 {
			return 0, 0
		}
		return 1, 0
	}
	w.postReads(1, 8)
	w.farTrip()
	if n, m := w.count[1]-requests, w.count[0]-answers; n != 4 || m != 8 {
		t.Errorf("%d requests, %d answers, expected 4 and 8", n, m)
	}
	w.settle()
	w.wantStatuses(&w.n[0].send, 0, 0)
}
