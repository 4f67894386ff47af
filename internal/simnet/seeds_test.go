package simnet_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

var (
	seedCount = flag.Int("seeds", 1000, "how many seeds each test plays; a fifth over RoCE v1")
	firstSeed = flag.Uint64("first", 1, "the first of them")
	oneSeed   = flag.Uint64("seed", 0, "play this seed alone")
	tell      = flag.Bool("tell", false, "with -seed, print all packets, refusals and changes of state")
)

// mixed distributes consecutive numbers over all seeds.
func mixed(i uint64) uint64 {
	i = (i ^ i>>30) * 0xbf58476d1ce4e5b9
	i = (i ^ i>>27) * 0x94d049bb133111eb
	return i ^ i>>31
}

// replay runs the world of the flag -seed.
func replay(t *testing.T, m medium) {
	w := newWorldOver(*oneSeed, m)
	t.Logf("%s network: %+v", w.profile.name, w.profile.faults)
	for _, h := range w.hosts {
		if *tell {
			h.Dev.Trace.Attach(teller{h})
		}
	}
	for _, e := range w.ends {
		t.Logf("%s, QPN %#x, trouble %d", e.name, e.q.QPN, e.trouble)
	}
	if err := w.run(); err != nil {
		t.Error(err)
	}
	t.Logf("%v of virtual time, trace %#x", w.net.Clock(), w.net.Hash())
}

// TestSeeds runs worlds of random devices, connections, requests and faults against a plain
// model. A failed test prints the command that replays its seed.
func TestSeeds(t *testing.T) {
	if *oneSeed != 0 {
		replay(t, overUDP)
		return
	}
	n := *seedCount
	if testing.Short() {
		n = min(n, 100)
	}
	sum := tally{manners: make(map[manner]int)}
	profiles := map[string]int{}
	var virtual time.Duration
	start := time.Now()
	failed := 0
	for i := range uint64(n) {
		seed := mixed(*firstSeed + i)
		w := newWorld(seed)
		if err := w.run(); err != nil {
			t.Errorf("%s: %v\n\tgo test ./internal/simnet -run TestSeeds -seed=%#x", w.profile.name, err, seed)
			if failed++; failed == 10 {
				t.Fatal("giving up")
			}
		}
		sum.add(&w.stats)
		profiles[w.profile.name]++
		virtual += w.net.Clock()
	}
	t.Logf("%d seeds in %v, %v of virtual time: %v", n, time.Since(start).Round(time.Millisecond), virtual, &sum)
	t.Logf("profiles %v", profiles)
	if failed == 0 && n >= 100 {
		sum.reached(t)
	}
}

func (s *tally) add(o *tally) {
	for i, v := range o.completions {
		s.completions[i] += v
	}
	for i, v := range o.ops {
		s.ops[i] += v
	}
	for i, v := range o.refusals {
		s.refusals[i] += v
	}
	s.receives += o.receives
	s.datagrams += o.datagrams
	s.steps += o.steps
	s.bytes += o.bytes
	for m, n := range o.manners {
		s.manners[m] += n
	}
}

// String describes what the seeds reached.
func (s *tally) String() string {
	out := fmt.Sprintf("%d bytes, %d receives, %d datagrams, %d steps; operations %v; statuses %v;", s.bytes,
		s.receives, s.datagrams, s.steps, s.ops[:queue.AtomicWrite+1], s.completions[:queue.GeneralErr+1])
	for r, n := range s.refusals {
		if n > 0 {
			out += fmt.Sprintf(" %v %d", reason.Reason(r), n)
		}
	}
	return out
}

// reached fails if the seeds miss what they are meant to exercise.
func (s *tally) reached(t *testing.T) {
	for op := range queue.AtomicWrite + 1 {
		if op.Known() && s.ops[op] == 0 {
			t.Errorf("operation %d never succeeded", op)
		}
	}
	for _, st := range []queue.Status{queue.Success, queue.LocLenErr, queue.LocQPOpErr, queue.LocProtErr, queue.WRFlushErr,
		queue.MWBindErr, queue.RemInvReqErr, queue.RemAccessErr, queue.RetryExcErr, queue.RNRRetryExcErr} {
		if s.completions[st] == 0 {
			t.Errorf("no request ended with status %d", st)
		}
	}
	for control := congestion.Window; control <= congestion.None; control++ {
		for recovery := congestion.SelectiveRepeat; recovery <= congestion.GoBackN; recovery++ {
			for peer := congestion.SelectiveRepeat; peer <= congestion.GoBackN; peer++ {
				if m := (manner{control, recovery, peer}); s.manners[m] == 0 {
					t.Errorf("no connection with control %v and %v had a peer with %v", control, recovery, peer)
				}
			}
		}
	}
	for _, r := range []reason.Reason{reason.PacketICRC, reason.SequenceAhead, reason.SequenceDuplicate, reason.NoReceive,
		reason.SequenceGap, reason.PacketQKey, reason.PacketNoReceive, reason.PacketTooLong, reason.AckTimeout, reason.NAKSequence,
		reason.SequenceHeld, reason.PacketRepeated, reason.RepeatNeedless, reason.TailProbe, reason.CongestionMarked,
		reason.CongestionNotified} {
		if s.refusals[r] == 0 {
			t.Errorf("nothing was refused for %v", r)
		}
	}
}

// TestSeedReplaysExactly checks that a seed replays the same run.
func TestSeedReplaysExactly(t *testing.T) {
	for i := range uint64(20) {
		seed := mixed(1_000_000 + i)
		var hash [2]uint64
		for k := range hash {
			w := newWorld(seed)
			if err := w.run(); err != nil {
				t.Errorf("seed %#x: %v", seed, err)
			}
			hash[k] = w.net.Hash()
		}
		if hash[0] != hash[1] {
			t.Errorf("seed %#x: traces %#x and %#x", seed, hash[0], hash[1])
		}
	}
}

// TestSeedsOverRoCEv1 runs worlds whose devices speak RoCE v1: the same transports, in
// Ethernet frames.
func TestSeedsOverRoCEv1(t *testing.T) {
	if *oneSeed != 0 {
		replay(t, overEthernet)
		return
	}
	n := uint64(*seedCount) / 5
	if testing.Short() {
		n = min(n, 40)
	}
	sum := tally{manners: make(map[manner]int)}
	for i := range n {
		seed := mixed(2_000_000 + *firstSeed + i)
		w := newWorldOver(seed, overEthernet)
		if err := w.run(); err != nil {
			t.Fatalf("%s: %v\n\tgo test ./internal/simnet -run TestSeedsOverRoCEv1 -seed=%#x", w.profile.name, err, seed)
		}
		sum.add(&w.stats)
	}
	t.Logf("%d seeds: %v", n, &sum)
	for op := range queue.AtomicWrite + 1 {
		if op.Known() && sum.ops[op] == 0 {
			t.Errorf("operation %d never succeeded", op)
		}
	}
	for _, r := range []reason.Reason{reason.PacketICRC, reason.SequenceAhead, reason.PacketRepeated, reason.TailProbe, reason.CongestionNotified} {
		if sum.refusals[r] == 0 {
			t.Errorf("nothing was refused for %v", r)
		}
	}
	if sum.datagrams == 0 {
		t.Error("no datagram arrived")
	}
}
