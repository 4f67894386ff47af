package rc

import (
	"fmt"
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// overrun is a sender that keeps 512 SENDs of 64 bytes posted, and a receiver that posts 128
// receives and polls its completions every 50 µs, on a path of 10 µs. It runs for 25 ms of virtual
// time.
func overrun(t *testing.T, timer uint8, credits bool) (messages, dropped int) {
	const depth, posted, run, tick, look = 512, 128, 25 * time.Millisecond, 5 * time.Microsecond, 50 * time.Microsecond
	w := newSelective(t, func(_ int, p *machine.Port) {
		p.SQ, p.Attr.MinRNRTimer, p.Attr.Timeout, p.Attr.PathMTU = queue.NewSendRing(depth, 4, 64), timer, 14, 4096
		p.RQ = &receives{RecvRing: queue.NewRecvRing(posted, 4)}
	})
	w.keep = false
	a, b := w.n[0], w.n[1]
	b.rq = b.port.RQ.(*receives)
	done := 0
	refill := func() {
		for ; b.rq.Len() < posted && done < messages+posted; done++ {
			b.postRecv(0, b.sge(0, 64))
		}
	}
	refill()
	looked := time.Duration(0)
	for w.now < run {
		w.now += tick
		for !a.port.SQ.Full() {
			a.post(wqe{op: queue.Send, list: nil, flags: queue.Inline, inline: make([]byte, 64)})
		}
		if !credits {
			a.q.req.credits.noWait = true
		}
		for _, n := range w.n {
			if n.q.Deadline() <= w.now {
				n.q.Expire(w.now)
			}
		}
		w.take(0, 128) // the packets of one tick
		w.deliver(1, 1000)
		w.take(1, 1000)
		w.deliver(0, 1000)
		if w.now-looked >= look {
			looked = w.now
			messages += len(b.recv.list)
			b.recv.list = b.recv.list[:0]
			refill()
		}
		a.send.list = a.send.list[:0]
	}
	return messages, b.count(reason.SequenceAhead)
}

// Without credits, messages that find no receive are dropped and sent again. docs/congestion.md
// quotes the figures.
func TestCreditsSpareAnOverrunReceiver(t *testing.T) {
	for _, timer := range []uint8{1, 12} {
		var rate, lost [2]int
		for i, credits := range []bool{false, true} {
			n, d := overrun(t, timer, credits)
			rate[i], lost[i] = n*40, 100*d/n
		}
		name := fmt.Sprintf("RNR timer %v", ib.RNRTimer(timer))
		t.Logf("%s, messages a second (dropped of 100): without credits %d (%d), with them %d (%d)", name, rate[0], lost[0], rate[1], lost[1])
		if timer == 12 && rate[1] < 2*rate[0] || rate[1] < rate[0]*9/10 || lost[1] > 5 {
			t.Errorf("%s: with credits %d messages a second with %d of 100 dropped, without them it is %d with %d", name, rate[1], lost[1], rate[0], lost[0])
		}
	}
}
