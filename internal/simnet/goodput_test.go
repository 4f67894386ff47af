package simnet_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
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

const (
	goodputBandwidth = 10_000_000_000 // bits per second
	goodputMessage   = 64 << 10
	goodputDepth     = 127                    // outstanding messages
	goodputTime      = 400 * time.Millisecond // virtual, per cell
	goodputMost      = 32 << 20               // maximum bytes per cell
)

// A course is one cell of the table.
type course struct {
	op      queue.Op
	loss    float64
	reorder float64       // fraction of packets delayed by up to a quarter of the delay
	delay   time.Duration // one way
	queue   int           // size of the bottleneck's queue in bytes
	window  int           // of the port, 0 for the default
	rate    int64         // bits per second, 0 for goodputBandwidth
	jitter  time.Duration // maximum additional delay of a packet, without reordering
	mtu     int           // of the path, 0 for 4096
	message int           // bytes of each, 0 for goodputMessage
	depth   int           // of outstanding messages, 0 for goodputDepth
	seed    uint64        // of the network, 0 for the usual one
	timeout uint8         // of an acknowledge (IBTA 9.7.6.1.3), 0 for more than two round trips

	control  congestion.Kind
	recovery congestion.Recovery    // of the devices
	qps      [2]congestion.Recovery // of the queue pairs, if they choose
}

// A runner holds the two devices of a course.
type runner struct {
	net   *simnet.Network
	hosts [2]*rig.Host
	cqs   [2]*adapter.CQ
	qps   [2]*adapter.QP
	mrs   [2]*memory.Region
}

func (c *course) prepare(t *testing.T) *runner {
	if c.message == 0 {
		c.message = goodputMessage
	}
	r := &runner{net: simnet.New(cmp.Or(c.seed, 42))}
	half := max(c.delay/2, time.Nanosecond)
	for i := range r.hosts {
		lc := simnet.LinkConfig{
			Egress: simnet.Faults{
				Loss: c.loss, Reorder: c.reorder, ReorderBy: max(c.delay/4, time.Microsecond),
				Bandwidth: cmp.Or(c.rate, goodputBandwidth), Queue: c.queue, Delay: half, Jitter: c.jitter,
			},
			Ingress: simnet.Faults{Delay: half},
		}
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 4791)
		h, err := rig.Open(r.net, a, lc, adapter.Config{Window: c.window, Control: c.control, Recovery: c.recovery})
		if err != nil {
			t.Fatal(err)
		}
		r.hosts[i] = h
		depth := cmp.Or(c.depth, goodputDepth)
		if r.cqs[i], err = h.Dev.CreateCQ(2*depth, nil); err != nil {
			t.Fatal(err)
		}
		if r.qps[i], err = h.PD.CreateQP(&adapter.QPConfig{
			Type: qp.RC, SendCQ: r.cqs[i], RecvCQ: r.cqs[i], SendDepth: depth, SendSGE: 1, RecvDepth: depth, RecvSGE: 1, Recovery: c.qps[i],
		}); err != nil {
			t.Fatal(err)
		}
		if r.mrs[i], err = h.PD.Register(make([]byte, c.message), 0x10000, qp.LocalWrite|qp.RemoteWrite|qp.RemoteRead); err != nil {
			t.Fatal(err)
		}
	}
	o := rig.Options{MTU: cmp.Or(c.mtu, 4096), Timeout: cmp.Or(c.timeout, 1), Reads: 16}
	for c.timeout == 0 && 4096*time.Nanosecond<<o.Timeout < 4*c.delay+2*time.Millisecond {
		o.Timeout++
	}
	if err := rig.Connect(r.qps[0], r.qps[1], o); err != nil {
		t.Fatal(err)
	}
	return r
}

// goodput returns the bits per second of virtual time that one queue pair moves over a link of
// 10 Gbit/s, with a constant supply of messages of 64 KiB.
func (c *course) goodput(t *testing.T) (float64, *runner) {
	r := c.prepare(t)
	request := []rig.Send{{
		Op: c.op, Flags: queue.Signaled, SGEs: []memory.SGE{{Addr: 0x10000, Length: uint32(c.message), LKey: r.mrs[0].Key}},
		Addr: 0x10000, RKey: r.mrs[1].Key,
	}}
	done, posted := 0, 0
	var batch [64]queue.CQE
	err := r.net.Run(func() bool {
		for _, e := range batch[:rig.Poll(r.cqs[0], batch[:])] {
			if e.Status != queue.Success {
				t.Fatalf("%+v: %+v", c, e)
			}
			done++
		}
		for ; posted-done < goodputDepth; posted++ {
			if err := rig.PostSend(r.qps[0], request...); err != nil {
				t.Fatal(err)
			}
		}
		return r.net.Clock() >= goodputTime || done*c.message >= goodputMost
	}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return float64(done) * float64(c.message) * 8 / r.net.Clock().Seconds(), r
}

// TestGoodputByLossAndDelay checks the reliable connection's recovery against lower bounds.
// All times are virtual: a cell is the same number on every machine.
func TestGoodputByLossAndDelay(t *testing.T) {
	if testing.Short() {
		t.Skip("moves a gigabyte")
	}
	losses := [...]float64{0, 0.0001, 0.001, 0.01, 0.05}
	delays := [...]time.Duration{0, 50 * time.Microsecond, 500 * time.Microsecond, 5 * time.Millisecond}
	for _, op := range []struct {
		name string
		op   queue.Op
		// least is the lower bound of each cell in Mbit/s. The first row follows from
		// bandwidth and window; the others hold what recovery achieves.
		least [len(losses)][len(delays)]float64
	}{
		{"WRITE", queue.Write, [len(losses)][len(delays)]float64{
			{9500, 9500, 7000, 700}, {9500, 9500, 6800, 700}, {9500, 9500, 6800, 700}, {9000, 9000, 6800, 690}, {8500, 8000, 6300, 650},
		}},
		{"READ", queue.Read, [len(losses)][len(delays)]float64{
			{9500, 9500, 7400, 750}, {9500, 9500, 7300, 740}, {9300, 9300, 7000, 740}, {9200, 9200, 7000, 720}, {8700, 8500, 6200, 640},
		}},
	} {
		var table [len(losses)][len(delays)]float64
		var out strings.Builder
		fmt.Fprintf(&out, "%s goodput in Mbit/s; delay one way %v", op.name, delays)
		for i, loss := range losses {
			fmt.Fprintf(&out, "\nloss %5.2f %%", 100*loss)
			for k, delay := range delays {
				c := course{op: op.op, loss: loss, delay: delay, queue: 2 << 20}
				v, _ := c.goodput(t)
				v /= 1e6
				table[i][k] = v
				fmt.Fprintf(&out, " %9.1f", v)
				if v < op.least[i][k] {
					t.Errorf("%s, loss %v, delay %v: %.1f Mbit/s, expected at least %v", op.name, loss, delay, v, op.least[i][k])
				}
				if most := float64(goodputBandwidth) / 1e6; v > most {
					t.Errorf("%s, loss %v, delay %v: %.1f Mbit/s over a link of %v", op.name, loss, delay, v, most)
				}
				// More loss or delay must not help, within the variation between seeds.
				if i > 0 && v > 1.25*table[i-1][k] || k > 0 && v > 1.25*table[i][k-1] {
					t.Errorf("%s, loss %v, delay %v: %.1f Mbit/s is more than with less of them", op.name, loss, delay, v)
				}
			}
		}
		t.Log(out.String())
	}
}

// TestReadsKeepToTheWindow checks that 16 READs of 64 KiB do not overflow a queue or receive
// buffer that the window fits into.
func TestReadsKeepToTheWindow(t *testing.T) {
	c := course{op: queue.Read, delay: 10 * time.Microsecond, queue: 256 << 10, window: 192 << 10}
	v, r := c.goodput(t)
	if out, _ := r.hosts[1].Link.Stats(); out.QueueFull != 0 {
		t.Errorf("%d packets lost in a queue of %d bytes with a window of %d", out.QueueFull, c.queue, c.window)
	}
	if v < 0.9*goodputBandwidth {
		t.Errorf("%.1f Mbit/s", v/1e6)
	}
}

// TestGoodputHoldsUnderLossAndReordering checks the bounds that matter to a user: 90 % of the
// lossless goodput with 1 % of packets lost, 75 % with 5 % lost, and no retransmission of
// packets that are only late.
func TestGoodputHoldsUnderLossAndReordering(t *testing.T) {
	if testing.Short() {
		t.Skip("moves a gigabyte")
	}
	losses := [...]float64{0, 0.001, 0.01, 0.05}
	for _, op := range []struct {
		name string
		op   queue.Op
		part [len(losses)]float64 // minimum fraction of the lossless goodput
	}{
		{"WRITE", queue.Write, [...]float64{1, 0.95, 0.9, 0.75}},
		{"READ", queue.Read, [...]float64{1, 0.95, 0.9, 0.75}},
	} {
		for _, trip := range []time.Duration{100 * time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
			base := 0.0
			for i, loss := range losses {
				for _, reorder := range []float64{0, 0.01} {
					c := course{op: op.op, loss: loss, reorder: reorder, delay: trip / 2, queue: 2 << 20, control: congestion.Window}
					v, r := c.goodput(t)
					if base == 0 {
						base = v
					}
					from, count := r.hosts[0], func(x reason.Reason) int { return int(r.hosts[0].Dev.Trace.Counter(x)) }
					if op.op == queue.Read {
						from = r.hosts[1]
					}
					out, _ := from.Link.Stats()
					t.Logf("%s, round trip %v, loss %v %%, reordering %v %%: %.0f Mbit/s, %.2f of that without; %d lost, %d late, %d sent again, %d needlessly, %d probes",
						op.name, trip, 100*loss, 100*reorder, v/1e6, v/base, out.Lost, out.Reordered, count(reason.PacketRepeated), count(reason.RepeatNeedless), count(reason.TailProbe))
					if v < op.part[i]*base*0.97 && loss == 0 || loss > 0 && v < op.part[i]*base {
						t.Errorf("%s, round trip %v, loss %v, reordering %v: %.0f Mbit/s, without %.0f", op.name, trip, loss, reorder, v/1e6, base/1e6)
					}
					if loss == 0 && count(reason.PacketRepeated) > out.Reordered/20 {
						t.Errorf("%s, round trip %v: %d of %d late packets were sent again", op.name, trip, count(reason.PacketRepeated), out.Reordered)
					}
					if n := count(reason.AckTimeout); n > 0 {
						t.Errorf("%s, round trip %v, loss %v, reordering %v: %d timeouts", op.name, trip, loss, reorder, n)
					}
				}
			}
		}
	}
}

// TestGoodputWhereEndsAnswerLate has ends that wait for a processor, up to a millisecond or a
// tenth of it each time, behind half a Gbit/s with a short queue. Round trips are sometimes
// long, but accidental losses must still be recognized.
func TestGoodputWhereEndsAnswerLate(t *testing.T) {
	if testing.Short() {
		t.Skip("moves half a gigabyte")
	}
	for _, c := range []struct {
		trip, jitter time.Duration
		loss, part   float64 // minimum fraction of the capacity without headers
	}{
		{100 * time.Microsecond, 100 * time.Microsecond, .01, .9},
		{100 * time.Microsecond, 100 * time.Microsecond, .05, .85},
		{100 * time.Microsecond, time.Millisecond, .001, .8},
		{time.Millisecond, 100 * time.Microsecond, .01, .9},
		{time.Millisecond, 100 * time.Microsecond, .05, .85},
		{time.Millisecond, time.Millisecond, .01, .65},
		{time.Millisecond, time.Millisecond, .05, .7},
	} {
		k := course{op: queue.Write, loss: c.loss, delay: c.trip / 2, jitter: c.jitter, rate: 500e6, queue: 256 << 10, mtu: 1024}
		v, _ := k.goodput(t)
		t.Logf("round trip %v, up to %v more, loss %v %%: %.0f Mbit/s", c.trip, c.jitter, 100*c.loss, v/1e6)
		if part := v / 462e6; part < c.part {
			t.Errorf("round trip %v, up to %v more, loss %v %%: %.2f of the capacity, expected %v", c.trip, c.jitter, 100*c.loss, part, c.part)
		}
	}
}

// TestGoodputOfTheStandardsRecovery measures go-back-N, which peers get that implement only
// the standard.
func TestGoodputOfTheStandardsRecovery(t *testing.T) {
	for _, c := range []struct {
		loss  float64
		delay time.Duration
		least float64 // Mbit/s
	}{
		{0.001, 50 * time.Microsecond, 8000}, {0.01, 50 * time.Microsecond, 3400}, {0.001, 500 * time.Microsecond, 4500}, {0.01, 500 * time.Microsecond, 1500},
	} {
		k := course{op: queue.Write, loss: c.loss, delay: c.delay, queue: 2 << 20, recovery: congestion.GoBackN}
		v, r := k.goodput(t)
		t.Logf("loss %v, delay %v: %.0f Mbit/s", c.loss, c.delay, v/1e6)
		if v < c.least*1e6 {
			t.Errorf("loss %v, delay %v: %.0f Mbit/s, expected at least %v", c.loss, c.delay, v/1e6, c.least)
		}
		if n := r.hosts[1].Dev.Trace.Counter(reason.SequenceHeld); n != 0 {
			t.Errorf("%d packets held for a standard peer", n)
		}
	}
}

// TestTheStandardsRecoveryDoesNotFloodAQueue: go-back-N retransmits packets that are still in
// flight. Sent as one burst, they would overflow a short queue and lose the first packet
// again, which the peer does not ask for a second time. And a window that samples round
// trips only while nothing is missing would never learn that the queue is full.
func TestTheStandardsRecoveryDoesNotFloodAQueue(t *testing.T) {
	for _, c := range []struct {
		trip          time.Duration
		loss, reorder float64
		least         float64 // Mbit/s, 463 at best
		full          float64 // fraction of the packets that the queue may drop
	}{
		{100 * time.Microsecond, 0, 0, 440, .05}, {100 * time.Microsecond, .01, 0, 250, .15}, {time.Millisecond, 0, 0, 400, .15},
		{time.Millisecond, .001, 0, 330, .15}, {time.Millisecond, .01, 0, 200, .05}, {time.Millisecond, 0, .01, 190, .05}, {20 * time.Millisecond, 0, 0, 270, .05},
	} {
		k := course{
			op: queue.Write, loss: c.loss, reorder: c.reorder, delay: c.trip / 2, recovery: congestion.GoBackN,
			queue: 256 << 10, rate: 500e6, mtu: 1024, message: 16 << 10,
		}
		v, r := k.goodput(t)
		out, _ := r.hosts[0].Link.Stats()
		t.Logf("round trip %v, %v lost, %v late: %.0f Mbit/s, %d of %d packets for a full queue", c.trip, c.loss, c.reorder, v/1e6, out.QueueFull, out.Packets)
		if v < c.least*1e6 || float64(out.QueueFull) > c.full*float64(out.Packets) {
			t.Errorf("round trip %v, %v lost, %v late: %.0f Mbit/s, expected %v; %d of %d packets for a full queue",
				c.trip, c.loss, c.reorder, v/1e6, c.least, out.QueueFull, out.Packets)
		}
	}
}

// TestRecoveryIsChosenByDeviceAndByQueuePair checks that a queue pair's choice overrides its
// device's, and that both ends must agree on an extension of the standard.
func TestRecoveryIsChosenByDeviceAndByQueuePair(t *testing.T) {
	const gobackn, selective = congestion.GoBackN, congestion.SelectiveRepeat
	for _, c := range []struct {
		name   string
		device congestion.Recovery
		qps    [2]congestion.Recovery
		holds  bool
	}{
		{"neither chooses", 0, [2]congestion.Recovery{}, true},
		{"devices go back", gobackn, [2]congestion.Recovery{}, false},
		{"requester goes back", 0, [2]congestion.Recovery{gobackn, 0}, false},
		{"responder goes back", 0, [2]congestion.Recovery{0, gobackn}, false},
		{"queue pairs against their devices", gobackn, [2]congestion.Recovery{selective, selective}, true},
		{"one queue pair against its device", gobackn, [2]congestion.Recovery{selective, 0}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := course{op: queue.Write, loss: 0.01, delay: 50 * time.Microsecond, queue: 2 << 20, recovery: c.device, qps: c.qps}
			_, r := k.goodput(t)
			if n := r.hosts[1].Dev.Trace.Counter(reason.SequenceHeld); n > 0 != c.holds {
				t.Errorf("%d packets were held behind lost ones", n)
			}
		})
	}
}

// TestLongWritesMoveTheWindowOn checks that in messages as long as the window, acknowledges
// come as often as the window needs them. Losses, which cause more acknowledges, must not
// help.
func TestLongWritesMoveTheWindowOn(t *testing.T) {
	for _, message := range []int{256 << 10, 1 << 20} {
		most := 0.0
		for _, loss := range []float64{0.01, 0.001, 0} {
			c := course{op: queue.Write, loss: loss, delay: 500 * time.Microsecond, queue: 4 << 20, message: message}
			v, _ := c.goodput(t)
			t.Logf("messages of %d KiB, loss %v: %.0f Mbit/s", message>>10, loss, v/1e6)
			if most = max(most, v); v < 6.9e9 || v < 0.98*most {
				t.Errorf("messages of %d KiB, loss %v: %.0f Mbit/s, with more loss %.0f", message>>10, loss, v/1e6, most/1e6)
			}
		}
	}
}

// TestLongReadsFollowEachOther checks that a READ that fills the window is requested while the
// previous one is still being answered.
func TestLongReadsFollowEachOther(t *testing.T) {
	base := 0.0
	for _, loss := range []float64{0, 0.01, 0.05} {
		c := course{op: queue.Read, loss: loss, delay: 500 * time.Microsecond, queue: 4 << 20, message: 1 << 20, control: congestion.Window}
		v, r := c.goodput(t)
		t.Logf("loss %v: %.0f Mbit/s", loss, v/1e6)
		if loss == 0 {
			base = v
		}
		if out, _ := r.hosts[1].Link.Stats(); v < 5e9 || v < 0.85*base || out.QueueFull > 0 {
			t.Errorf("loss %v: %.0f Mbit/s, without %.0f; %d packets lost in the queue", loss, v/1e6, base/1e6, out.QueueFull)
		}
	}
}
