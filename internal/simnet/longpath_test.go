package simnet_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/congestion"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

// A journey is a course that is watched as time passes: how soon the path is full, how much it
// then carries, and how long its queue becomes.
type journey struct {
	course
	trips int // round trips in all; the second half of them is measured
}

// A journeyResult is what a journey shows.
type journeyResult struct {
	goodput float64 // bits per second, in the second half
	started float64 // round trips until a round trip carried nine tenths of the line
	peak    int     // longest queue, in bytes
	run     *runner
}

// line returns the bits per second of payload that the course's line carries.
func (c *course) line() float64 {
	mtu := float64(c.mtu)
	return float64(c.rate) * mtu / (mtu + 16 + 66) * (1 - c.loss)
}

func (j *journey) travel(t *testing.T) (o journeyResult) {
	t.Helper()
	r := j.prepare(t)
	request := []rig.Send{{
		Op: j.op, Flags: queue.Signaled, SGEs: []memory.SGE{{Addr: 0x10000, Length: uint32(j.message), LKey: r.mrs[0].Key}},
		Addr: 0x10000, RKey: r.mrs[1].Key,
	}}
	trip := 2 * j.delay
	from := r.hosts[0]
	if j.op == queue.Read {
		from = r.hosts[1]
	}
	receive := memory.SGE{Addr: 0x10000, Length: uint32(j.message), LKey: r.mrs[1].Key}
	done, posted, half, receives := 0, 0, 0, 0
	var rounds []int // what had arrived at the end of each round trip
	var batch [256]queue.CQE
	err := r.net.Run(func() bool {
		for _, e := range batch[:rig.Poll(r.cqs[0], batch[:])] {
			if e.Status != queue.Success {
				t.Fatalf("%+v: %+v", j.course, e)
			}
			done++
		}
		for ; posted-done < j.depth; posted++ {
			if err := rig.PostSend(r.qps[0], request...); err != nil {
				t.Fatal(err)
			}
		}
		if j.op == queue.Send {
			receives -= rig.Poll(r.cqs[1], batch[:])
			for ; receives < j.depth; receives++ {
				if err := rig.PostRecv(r.qps[1].Recv, 0, receive); err != nil {
					t.Fatal(err)
				}
			}
		}
		now := r.net.Clock()
		if k := int(now / trip); k > len(rounds) {
			out, _ := from.Link.Stats()
			for k > len(rounds) {
				rounds = append(rounds, out.Packets-out.QueueFull)
			}
		}
		if now < trip*time.Duration(j.trips)/2 {
			half = done
		}
		return now >= trip*time.Duration(j.trips)
	}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	o.goodput = float64(done-half) * float64(j.message) * 8 / (trip.Seconds() * float64(j.trips) / 2)
	packet := float64((j.mtu + 16 + 66) * 8)
	for i := 1; i < len(rounds) && o.started == 0; i++ {
		if float64(rounds[i]-rounds[i-1])*packet >= .9*float64(j.rate)*trip.Seconds() {
			o.started = float64(i)
		}
	}
	out, _ := from.Link.Stats()
	o.peak, o.run = out.Peak, r
	return o
}

// TestLongPathsAreFilled checks what a queue pair that chooses no control makes of a long path:
// nine tenths of the line although the path loses and delays packets, reached within ten round
// trips, with a queue of at most one and a half times what fits into the path.
func TestLongPathsAreFilled(t *testing.T) {
	if testing.Short() {
		t.Skip("moves half a gigabyte")
	}
	const short, long = 20 * time.Millisecond, 100 * time.Millisecond
	for _, c := range []struct {
		op         queue.Op
		rate       int64
		trip       time.Duration
		loss, late float64
		queue      float64 // part of what fits into the path
		part       float64 // of the line
		trips      int
		started    float64
	}{
		{queue.Write, 500e6, short, 0, 0, .2, .9, 60, 10},
		{queue.Write, 500e6, short, .01, .01, .2, .9, 60, 10},
		{queue.Write, 500e6, short, .05, 0, .2, .9, 60, 10},
		{queue.Send, 500e6, short, .01, 0, .2, .9, 60, 10},
		{queue.Read, 500e6, short, .01, 0, .2, .9, 60, 10},
		{queue.Write, 500e6, long, .01, 0, .2, .9, 40, 10},
		{queue.Write, 10e9, short, .01, 0, .7, .9, 26, 10},
		{queue.Write, 10e9, long, .01, 0, .7, .9, 40, 10},
	} {
		if c.rate > 1e9 && c.trip == long && os.Getenv("SOFTRDMA_LONG_PATHS") == "" {
			t.Log("10 Gbit/s over 100 ms takes ten seconds, and is left out unless SOFTRDMA_LONG_PATHS is set")
			continue
		}
		j := journey{course: course{
			op: c.op, loss: c.loss, reorder: c.late, delay: c.trip / 2, rate: c.rate, mtu: 1024, message: 64 << 10,
		}, trips: c.trips}
		if c.rate > 1e9 {
			j.mtu, j.message = 4096, 1<<20
		}
		fill := float64(c.rate) / 8 * c.trip.Seconds()
		j.queue, j.depth = int(c.queue*fill), int(8*fill)/j.message+16
		o := j.travel(t)
		what := fmt.Sprintf("operation %d, %d Mbit/s, %v, %v lost, %v late: %.0f Mbit/s, %.3f of the line, started after %v round trips, at most %.2f of the path waiting",
			c.op, c.rate/1e6, c.trip, c.loss, c.late, o.goodput/1e6, o.goodput/j.line(), o.started, float64(o.peak)/fill)
		t.Log(what)
		if o.goodput < c.part*j.line() || o.started == 0 || o.started > c.started || float64(o.peak) > 1.5*fill {
			t.Error(what)
		}
	}
}

// TestLongPathsAreFilledWhereEndsAnswerLate has ends that wait for a processor, up to a millisecond each time, behind a
// queue of a fifth of the path. A flow that is alone keeps the line: the queue that it makes itself is not one of others.
func TestLongPathsAreFilledWhereEndsAnswerLate(t *testing.T) {
	if testing.Short() {
		t.Skip("moves a quarter of a gigabyte")
	}
	for _, loss := range []float64{0, .01} {
		j := journey{course: course{
			op: queue.Write, loss: loss, reorder: loss, delay: 10 * time.Millisecond, jitter: time.Millisecond, rate: 500e6,
			mtu: 1024, message: 64 << 10, depth: 150, queue: 256 << 10,
		}, trips: 150}
		o := j.travel(t)
		t.Logf("%v lost and late: %.0f Mbit/s, %.3f of the line", loss, o.goodput/1e6, o.goodput/j.line())
		if o.goodput < .9*j.line() {
			t.Errorf("%v lost and late: %.0f Mbit/s, %.3f of the line", loss, o.goodput/1e6, o.goodput/j.line())
		}
	}
}

// TestReadsOnALongPath checks that READs fill a path of 100 ms that loses packets, if a program has as many of them in flight
// as it needs: those whose answers are missing wait for a round trip or two, and those behind them are not completed before.
// A control learns the path also from READs that are longer than what it asks for at first, although a packet of almost each
// of them is lost.
func TestReadsOnALongPath(t *testing.T) {
	if testing.Short() {
		t.Skip("moves half a gigabyte")
	}
	for _, c := range []struct {
		message, mtu, depth, trips int
		part                       float64 // of the line
	}{{64 << 10, 1024, 800, 30, .9}, {64 << 10, 4096, 800, 30, .9}, {1 << 20, 4096, 64, 80, .95}} {
		j := journey{course: course{op: queue.Read, loss: .01, delay: 50 * time.Millisecond, rate: 500e6, mtu: c.mtu, message: c.message, queue: 4 << 20, depth: c.depth}, trips: c.trips}
		o := j.travel(t)
		t.Logf("%d bytes, path MTU %d: %.0f Mbit/s, %.3f of the line", c.message, c.mtu, o.goodput/1e6, o.goodput/j.line())
		if o.goodput < c.part*j.line() {
			t.Errorf("%d bytes, path MTU %d: %.0f Mbit/s, %.3f of the line", c.message, c.mtu, o.goodput/1e6, o.goodput/j.line())
		}
	}
}

// TestPathsThatChangeAreFilled has a path that becomes long during a transfer, and short again: it is filled soon in
// both cases.
func TestPathsThatChangeAreFilled(t *testing.T) {
	if testing.Short() {
		t.Skip("moves a hundred megabytes")
	}
	c := course{op: queue.Write, delay: 100 * time.Microsecond, rate: 500e6, mtu: 1024, message: 64 << 10, depth: 150, queue: 256 << 10, loss: .001, timeout: 14}
	r := c.prepare(t)
	request := []rig.Send{{
		Op: c.op, Flags: queue.Signaled, SGEs: []memory.SGE{{Addr: 0x10000, Length: uint32(c.message), LKey: r.mrs[0].Key}}, Addr: 0x10000, RKey: r.mrs[1].Key,
	}}
	done, posted := 0, 0
	var batch [256]queue.CQE
	goodput := func(d time.Duration) float64 {
		before, from := done, r.net.Clock()
		err := r.net.Run(func() bool {
			done += rig.Poll(r.cqs[0], batch[:])
			for ; posted-done < c.depth; posted++ {
				if err := rig.PostSend(r.qps[0], request...); err != nil {
					t.Fatal(err)
				}
			}
			return r.net.Clock() >= from+d
		}, d+time.Nanosecond)
		if err != nil {
			t.Fatal(err)
		}
		return float64(done-before) * float64(c.message) * 8 / d.Seconds() / c.line()
	}
	goodput(200 * time.Millisecond)
	for _, trip := range []time.Duration{20 * time.Millisecond, 200 * time.Microsecond, 30 * time.Millisecond} {
		for _, h := range r.hosts {
			h.Link.SetFaults(simnet.Faults{Loss: c.loss, Bandwidth: c.rate, Queue: c.queue, Delay: trip / 4}, simnet.Faults{Delay: trip / 4})
		}
		settles := 25*trip + 100*time.Millisecond
		first, then := goodput(settles), goodput(500*time.Millisecond)
		t.Logf("%v: %.2f of the line in the first %v, then %.2f", trip, first, settles, then)
		if then < .85 {
			t.Errorf("%v: %.2f of the line in the first %v, then %.2f", trip, first, settles, then)
		}
	}
}

// TestTheStandardsRecoveryOnALongPath checks what go-back-N makes of a path of 100 ms. Each loss and each late packet
// costs a round trip, so no more arrives in one than what is sent between two of them.
func TestTheStandardsRecoveryOnALongPath(t *testing.T) {
	if testing.Short() {
		t.Skip("sends half a million packets")
	}
	for _, c := range []struct {
		loss, late float64
		least      float64 // Mbit/s
	}{{.01, 0, 6}, {0, .01, 6}, {.05, 0, .5}} {
		j := journey{course: course{
			op: queue.Write, loss: c.loss, reorder: c.late, delay: 50 * time.Millisecond, rate: 500e6, mtu: 1024, message: 16 << 10, queue: 256 << 10,
			depth: 128, recovery: congestion.GoBackN, timeout: 14,
		}, trips: 300}
		o := j.travel(t)
		out, _ := o.run.hosts[0].Link.Stats()
		t.Logf("%v lost, %v late: %.1f Mbit/s, %d packets sent, %d timeouts", c.loss, c.late, o.goodput/1e6, out.Packets, o.run.hosts[0].Dev.Trace.Counter(reason.AckTimeout))
		if o.goodput < c.least*1e6 {
			t.Errorf("%v lost, %v late: %.1f Mbit/s, expected %v", c.loss, c.late, o.goodput/1e6, c.least)
		}
	}
}

// TestTimeoutShorterThanTheRoundTrip has queue pairs whose timeout ends before the peer can answer. It
// may end once without success: from then on the round trip is known.
func TestTimeoutShorterThanTheRoundTrip(t *testing.T) {
	for _, c := range []struct {
		op         queue.Op
		recovery   congestion.Recovery
		timeout    uint8 // 14: 67 ms, 11: 8 ms
		loss, late float64
		depth      int
		least      float64 // Mbit/s
		timeouts   uint64
	}{
		{queue.Write, congestion.GoBackN, 14, 0, 0, 200, 40, 1},
		{queue.Write, congestion.GoBackN, 11, 0, 0, 200, 3, 6},
		{queue.Read, congestion.GoBackN, 14, 0, 0, 200, 8, 1},
		{queue.Write, congestion.SelectiveRepeat, 14, .001, .01, 200, 75, 1},
		{queue.Write, congestion.SelectiveRepeat, 11, .001, .01, 200, 75, 6},
		{queue.Write, congestion.SelectiveRepeat, 14, 0, 0, 1, 1.1, 1},
	} {
		for _, seed := range []uint64{1, 4}[:1+int(min(c.loss*1000, 1))] {
			j := journey{course: course{
				op: c.op, loss: c.loss, reorder: c.late, delay: 50 * time.Millisecond, rate: 100e6, mtu: 1024, message: 16 << 10, queue: 256 << 10,
				depth: c.depth, recovery: c.recovery, timeout: c.timeout, seed: seed,
			}, trips: 30}
			o := j.travel(t)
			n := o.run.hosts[0].Dev.Trace.Counter(reason.AckTimeout)
			t.Logf("operation %d, %v, timeout %d, seed %d: %.1f Mbit/s, %d timeouts", c.op, c.recovery, c.timeout, seed, o.goodput/1e6, n)
			if o.goodput < c.least*1e6 || n > c.timeouts {
				t.Errorf("operation %d, %v, timeout %d, seed %d: %.1f Mbit/s, expected %v; %d timeouts", c.op, c.recovery, c.timeout, seed, o.goodput/1e6, c.least, n)
			}
		}
	}
}

// TestLongPathKeepsShortMessagesQuick checks that a message of 8 bytes on another queue pair takes
// at most a quarter longer beside a bulk transfer than on the empty path.
func TestLongPathKeepsShortMessagesQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("moves a hundred megabytes")
	}
	const trip = 20 * time.Millisecond
	j := journey{course: course{op: queue.Write, delay: trip / 2, rate: 500e6, mtu: 1024, message: 64 << 10, depth: 150, queue: 4 << 20}}
	took := j.pings(t, 0)
	beside := j.pings(t, j.depth)
	t.Logf("8 bytes take %v, beside a bulk transfer %v", took, beside)
	if beside > took*5/4 {
		t.Errorf("8 bytes take %v, beside a bulk transfer %v", took, beside)
	}
}

// pings returns the median time of a WRITE of 8 bytes on a second queue pair, beside some
// outstanding messages of the first.
func (j *journey) pings(t *testing.T, bulk int) time.Duration {
	t.Helper()
	r := j.prepare(t)
	var cqs [2]*adapter.CQ
	var pair [2]*adapter.QP
	var err error
	for i, h := range r.hosts {
		if cqs[i], err = h.Dev.CreateCQ(16, nil); err != nil {
			t.Fatal(err)
		}
		if pair[i], err = h.PD.CreateQP(&adapter.QPConfig{Type: qp.RC, SendCQ: cqs[i], RecvCQ: cqs[i], SendDepth: 4, SendSGE: 1, RecvDepth: 1, RecvSGE: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := rig.Connect(pair[0], pair[1], rig.Options{MTU: j.mtu, Timeout: 18}); err != nil {
		t.Fatal(err)
	}
	write := func(q *adapter.QP, n int) {
		if err := rig.PostSend(q, rig.Send{
			Op: queue.Write, Flags: queue.Signaled, SGEs: []memory.SGE{{Addr: 0x10000, Length: uint32(n), LKey: r.mrs[0].Key}}, Addr: 0x10000, RKey: r.mrs[1].Key,
		}); err != nil {
			t.Fatal(err)
		}
	}
	var times []time.Duration
	var batch [64]queue.CQE
	outstanding, since := 0, time.Duration(-1)
	const warm, pings = 600 * time.Millisecond, 50
	err = r.net.Run(func() bool {
		outstanding -= rig.Poll(r.cqs[0], batch[:])
		for ; outstanding < bulk; outstanding++ {
			write(r.qps[0], j.message)
		}
		now := r.net.Clock()
		if rig.Poll(cqs[0], batch[:]) > 0 {
			times, since = append(times, now-since), -1
		}
		if since < 0 && (bulk == 0 || now > warm) {
			since = now
			write(pair[0], 8)
		}
		return len(times) == pings
	}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(times)
	return times[pings/2]
}
