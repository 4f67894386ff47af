package rc

import (
	"slices"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

// The payload of an operation counts once where it arrives, whatever the network does with its
// packets, and whatever the peers then send again.
func TestPayloadIsCountedOnceWhateverIsRepeated(t *testing.T) {
	const n = 12*testMTU + 5
	fates := map[string]func(to, i int, p *ib.Packet) (copies, late int){
		"all come twice":        func(int, int, *ib.Packet) (int, int) { return 2, 0 },
		"some come late":        func(_, i int, _ *ib.Packet) (int, int) { return 1, i % 3 },
		"some come twice, late": func(_, i int, _ *ib.Packet) (int, int) { return 1 + i%2, i % 4 },
		"the third is lost":     func(_, i int, _ *ib.Packet) (int, int) { return min(1, max(i-2, 2-i)), 0 },
		"the last is lost":      func(_, i int, _ *ib.Packet) (int, int) { return min(1, max(i-12, 12-i)), 0 },
		"some are lost, or twice": func(_, i int, _ *ib.Packet) (int, int) {
			if i > 12 {
				return 1, 0
			}
			return (i + 1) % 3, 0
		},
	}
	kinds := map[string]func(testing.TB, func(int, *machine.Port)) *pair{"standard": newPair, "selective": newSelective}
	for kind, open := range kinds {
		for name, fate := range fates {
			for _, op := range []queue.Op{queue.Write, queue.Send, queue.Read} {
				for _, longest := range []int{1, 4} {
					w := open(t, func(_ int, p *machine.Port) { p.Attr.Timeout, p.Attr.RetryCnt = 14, 7 })
					a, b := w.n[0], w.n[1]
					w.fate, w.fastPath, w.longest = fate, longest == 1, func() int { return longest }
					if op == queue.Send {
						b.postRecv(1, b.sge(0, n))
					}
					a.post(wqe{op: op, list: []memory.SGE{a.sge(0, n)}, remote: b.target(0)})
					w.settle()
					w.wantStatuses(&a.send, queue.Success)
					got, other := b.traffic.Received, a.traffic.Received
					if op == queue.Read {
						got, other = other, got
					}
					if got != n || other != 0 {
						t.Errorf("%s, %s, operation %d, trains of %d: %d bytes of %d counted, and %d at the other end", kind, name, op, longest, got, n, other)
					}
				}
			}
		}
	}
}

// A message that finds no receive is sent again when there is one. The first one waits for
// its receive, and is counted when it is held.
func TestPayloadOfRefusedMessagesIsNotCounted(t *testing.T) {
	w := newSelective(t, func(_ int, p *machine.Port) { p.Attr.RNRRetry, p.Attr.MinRNRTimer = 7, 1 })
	a, b := w.n[0], w.n[1]
	for message := range uint64(2) {
		before := message * 3 * testMTU
		a.post(wqe{op: queue.Send, list: []memory.SGE{a.sge(0, 3*testMTU)}})
		w.quiet()
		if message == 0 {
			w.refuseFirst(1)
		} else if b.traffic.Received != before {
			t.Errorf("%d bytes counted without a receive", b.traffic.Received-before)
		}
		b.postRecv(1, b.sge(0, 3*testMTU))
		w.settle()
		w.wantStatuses(&a.send, slices.Repeat([]queue.Status{queue.Success}, int(message)+1)...)
		if n := b.traffic.Received - before; n != 3*testMTU {
			t.Errorf("message %d: %d bytes counted of %d", message, n, 3*testMTU)
		}
	}
}

// SENDs count when they complete, signalled or not, and receives that succeed. WRITEs count only
// where they take a receive.
func TestMessagesAreCountedWhenTheyComplete(t *testing.T) {
	var counts [2]trace.Traffic
	w := newPair(t, func(i int, p *machine.Port) { p.Traffic, p.SQSigAll = &counts[i], false })
	a, b := w.n[0], w.n[1]
	for i, op := range []queue.Op{queue.Send, queue.SendImm, queue.Write, queue.WriteImm, queue.Read, queue.Send} {
		if op.TakesReceive() {
			b.postRecv(uint64(i), b.sge(0, testMTU))
		}
		flags := queue.Flags(0)
		if i%2 == 1 {
			flags = queue.Signaled
		}
		a.post(wqe{op: op, flags: flags, list: []memory.SGE{a.sge(0, testMTU)}, remote: b.target(0)})
		w.settle()
	}
	if want := [2]trace.Traffic{{Sends: 3}, {Receives: 4}}; counts != want {
		t.Errorf("counted %+v, expected %+v", counts, want)
	}
}
