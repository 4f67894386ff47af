package measure

import (
	"slices"
	"sync/atomic"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/verbs"
)

// A receiver is the receiving half of a queue pair.
type receiver struct {
	wrs         []verbs.RecvWR
	received    int64
	toPost      int     // receives to post again
	outstanding *int    // posted receives that have not completed
	posted      *uint64 // all posted receives; the peer reads this word
}

// newReceiver returns a receiver whose receives have room for every size, because those
// that one flow leaves are used by the next one.
func (f *Flow) newReceiver(i int) receiver {
	if f.side.receives == nil {
		f.side.receives = make([]int, len(f.side.QPs))
	}
	w := verbs.RecvWR{WRID: uint64(i), SGL: []verbs.SGE{f.side.MR.SGE(f.set.Target()+i*f.set.stride(), slices.Max(f.set.Sizes))}}
	t := receiver{wrs: make([]verbs.RecvWR, f.batch), outstanding: &f.side.receives[i], posted: f.side.Word(f.set.creditOffset(i))}
	for k := range t.wrs {
		t.wrs[k] = w
	}
	return t
}

func (t *receiver) post(q *verbs.QP) error {
	n := min(t.toPost, len(t.wrs))
	t.toPost -= n
	if err := q.PostRecv(t.wrs[:n]...); err != nil {
		return err
	}
	*t.outstanding += n
	atomic.AddUint64(t.posted, uint64(n))
	return nil
}

// needsCredit reports whether this end must read how many receives the peer has posted.
// iWARP does not retry a SEND that finds no receive.
func (f *Flow) needsCredit() bool { return f.overStream() && f.set.Operation == OpSend }

// readCredit reads the peer's count if few receives may be left. One receive is
// reserved for the marker.
func (f *Flow) readCredit(i int) error {
	s := &f.senders[i]
	if s.readingCredit || int(s.credit-s.posted) > f.set.Depth+f.batch {
		return nil
	}
	s.readingCredit = true
	f.pending++
	return f.side.QPs[i].PostSend(verbs.SendWR{
		Op: verbs.OpRead, Flags: verbs.Signaled, WRID: creditID | uint64(i), SGL: []verbs.SGE{f.side.MR.SGE(f.set.creditOffset(i)+8, 8)},
		RemoteAddr: f.side.Remote.Addr + uint64(f.set.creditOffset(i)), RKey: f.side.Remote.RKey,
	})
}

// creditArrived handles the completion of readCredit.
func (f *Flow) creditArrived(i int) {
	f.pending--
	f.senders[i].readingCredit = false
	f.senders[i].credit = int64(atomic.LoadUint64(f.side.Word(f.set.creditOffset(i)+8))) - 1
}

// messageArrived handles a SEND of the peer. It posts receives again in lists.
func (f *Flow) messageArrived(wc *verbs.WC) error {
	t := &f.receivers[wc.WRID]
	*t.outstanding--
	if int(wc.ByteLen) != f.size {
		return cli.DataErrorf("SEND: expected %d bytes, received %d", f.size, wc.ByteLen)
	}
	if wc.Flags&verbs.WCWithImm != 0 {
		f.openReceivers--
		if wc.Imm != uint32(t.received) {
			return cli.DataErrorf("SEND: the peer sent %d messages (modulo 2^32), received %d", wc.Imm, t.received)
		}
		return nil
	}
	t.received++
	t.toPost++
	if t.toPost < len(t.wrs) {
		return nil
	}
	return t.post(f.side.QPs[wc.WRID])
}
