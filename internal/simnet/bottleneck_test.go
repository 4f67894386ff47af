package simnet_test

import (
	"net/netip"
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

// A funnel is a set of flows, from one device each, to a single receiver, whose port is the
// bottleneck.
type funnel struct {
	control   congestion.Kind
	flows     int
	bandwidth int64
	queue     int // bytes before the bottleneck
	markAbove int
	delay     time.Duration // one way
	recovery  congestion.Recovery
	offer     int64 // bits per second of each program on an unreliable connection; 0 selects reliable ones
	reads     bool  // the receiver READs from the others
	together  bool  // all flows come from one device, whose own link has no limit
}

func (f *funnel) kind() qp.Type {
	if f.offer > 0 {
		return qp.UC
	}
	return qp.RC
}

// A share is one flow of a funnel.
type share struct {
	host  *rig.Host
	cq    *adapter.CQ
	qp    *adapter.QP
	mr    *memory.Region
	done  int
	unans int // posted and not done
}

// A flowing is a running funnel.
type flowing struct {
	net    *simnet.Network
	sink   *rig.Host
	target *memory.Region
	shares []*share
	offer  int64
	reads  bool
}

const (
	funnelMessage = 64 << 10
	funnelDepth   = 32
)

// open makes the devices. It skips the test in a short run: the simulation is one goroutine,
// where the race detector finds nothing and takes forty times as long.
func (f *funnel) open(t *testing.T) *flowing {
	t.Helper()
	if testing.Short() {
		t.Skip("moves gigabytes")
	}
	w := &flowing{net: simnet.New(7), offer: f.offer}
	address := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}), 4791)
	}
	config := adapter.Config{Control: f.control, Recovery: f.recovery, Window: 1 << 20}
	fail := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	w.sink, err = rig.Open(w.net, address(100), simnet.LinkConfig{
		Egress:  simnet.Faults{Delay: f.delay / 2, Bandwidth: f.bandwidth},
		Ingress: simnet.Faults{Delay: f.delay / 2, Bandwidth: f.bandwidth, Queue: f.queue, MarkAbove: f.markAbove},
	}, config)
	fail(err)
	sinkCQ, err := w.sink.Dev.CreateCQ(16, nil)
	fail(err)
	w.target, err = w.sink.PD.Register(make([]byte, funnelMessage), 0x10000, qp.LocalWrite|qp.RemoteWrite)
	w.reads = f.reads
	fail(err)
	for i := range f.flows {
		s := &share{}
		if f.together && i > 0 {
			s.host = w.shares[0].host
		} else {
			lc := simnet.LinkConfig{Egress: simnet.Faults{Delay: f.delay / 2, Bandwidth: f.bandwidth}, Ingress: simnet.Faults{Delay: f.delay / 2}}
			if f.together {
				lc.Egress.Bandwidth = 0
			}
			s.host, err = rig.Open(w.net, address(i+1), lc, config)
			fail(err)
		}
		s.cq, err = s.host.Dev.CreateCQ(2*funnelDepth, nil)
		fail(err)
		s.mr, err = s.host.PD.Register(make([]byte, funnelMessage), 0x10000, qp.LocalWrite|qp.RemoteRead)
		fail(err)
		s.qp, err = s.host.PD.CreateQP(&adapter.QPConfig{
			Type: f.kind(), SendCQ: s.cq, RecvCQ: s.cq, SendDepth: funnelDepth, SendSGE: 1, RecvDepth: 1, RecvSGE: 1,
		})
		fail(err)
		cq, depth := sinkCQ, 1
		if f.reads {
			cq, err = w.sink.Dev.CreateCQ(2*funnelDepth, nil)
			fail(err)
			depth = funnelDepth
		}
		peer, err := w.sink.PD.CreateQP(&adapter.QPConfig{
			Type: f.kind(), SendCQ: cq, RecvCQ: cq, SendDepth: depth, SendSGE: 1, RecvDepth: 1, RecvSGE: 1,
		})
		fail(err)
		fail(rig.Connect(s.qp, peer, rig.Options{MTU: 1024, Timeout: 14, Reads: 16}))
		if f.reads {
			s.qp, s.cq = peer, cq
		}
		w.shares = append(w.shares, s)
	}
	return w
}

// step lets every program post and poll.
func (w *flowing) step(t *testing.T) {
	var batch [funnelDepth]queue.CQE
	for _, s := range w.shares {
		for _, e := range batch[:rig.Poll(s.cq, batch[:])] {
			if e.Status != queue.Success {
				t.Fatalf("%+v", e)
			}
			s.done++
			s.unans--
		}
		for ; s.unans < funnelDepth && w.offers(s); s.unans++ {
			op, local, remote := queue.Write, s.mr, w.target
			if w.reads {
				op, local, remote = queue.Read, remote, local
			}
			err := rig.PostSend(s.qp, rig.Send{
				Op: op, Flags: queue.Signaled, SGEs: []memory.SGE{{Addr: 0x10000, Length: funnelMessage, LKey: local.Key}},
				Addr: 0x10000, RKey: remote.Key,
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// offers reports whether a program has another message for its connection.
func (w *flowing) offers(s *share) bool {
	sent := float64(s.done+s.unans) * funnelMessage * 8
	return w.offer == 0 || sent <= float64(w.offer)*w.net.Clock().Seconds()
}

// run runs the flows up to a moment.
func (w *flowing) run(t *testing.T, until time.Duration) {
	err := w.net.Run(func() bool {
		w.step(t)
		return w.net.Clock() >= until
	}, until-w.net.Clock()+time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
}

// An outcome is the result of a funnel between two moments.
type outcome struct {
	total   float64   // bits per second
	shares  []float64 // of each flow, in ascending order
	fair    float64   // Jain's index
	peak    int       // largest queue in bytes
	marked  int
	lost    int
	packets int
	first   simnet.Stats // until the first moment
}

// between runs the flows and measures from one moment to another.
func (w *flowing) between(t *testing.T, from, to time.Duration) (o outcome) {
	w.run(t, from)
	before := make([]int, len(w.shares))
	for i, s := range w.shares {
		before[i] = s.done
	}
	_, o.first = w.sink.Link.Stats()
	w.sink.Link.RestartPeak()
	w.run(t, to)
	shares := make([]float64, len(w.shares))
	for i, s := range w.shares {
		shares[i] = float64(s.done-before[i]) * funnelMessage * 8 / (to - from).Seconds()
		o.total += shares[i]
	}
	_, in := w.sink.Link.Stats()
	slices.Sort(shares)
	o.shares, o.fair = shares, congestion.Jain(shares)
	o.peak, o.marked = in.Peak, in.Marked-o.first.Marked
	o.lost, o.packets = in.QueueFull-o.first.QueueFull, in.Packets-o.first.Packets
	return o
}

// TestFlowsShareAMarkedBottleneck checks that sixteen flows share a port fairly, keep its
// queue short and lose nothing, controlled by marks and pacing, by marks and a window, or only
// by delay.
func TestFlowsShareAMarkedBottleneck(t *testing.T) {
	for _, k := range []congestion.Kind{congestion.DCQCN, congestion.Delay, congestion.Window, congestion.Timely, congestion.Swift, congestion.Bounded} {
		t.Run(k.String(), func(t *testing.T) {
			f := funnel{control: k, flows: 16, bandwidth: 10e9, queue: 4 << 20, markAbove: 100 << 10, delay: 10 * time.Microsecond}
			w := f.open(t)
			o := w.between(t, 60*time.Millisecond, 160*time.Millisecond)
			t.Logf("%.0f Mbit/s in all, fairness %.3f, at most %d bytes waiting, before that %d; %d of %d packets marked",
				o.total/1e6, o.fair, o.peak, o.first.Peak, o.marked, o.packets)
			least := 0.95
			if k == congestion.Timely { // between its thresholds many distributions are stable (CoNEXT 2016, "ECN or Delay")
				least = 0.5
			}
			if o.fair < least {
				t.Errorf("fairness %.3f", o.fair)
			}
			if o.lost+o.first.QueueFull+w.sink.Link.Overruns > 0 {
				t.Errorf("%d packets lost, %d of them at the start", o.lost+o.first.QueueFull, o.first.QueueFull)
			}
			if o.peak > 256<<10 {
				t.Errorf("%d bytes waited", o.peak)
			}
			if o.total < 0.7*float64(f.bandwidth) {
				t.Errorf("%.0f Mbit/s of %d", o.total/1e6, f.bandwidth/1e6)
			}
			if notified := w.sink.Dev.Trace.Counter(reason.CongestionMarked) > 0; notified != k.ECN() {
				t.Errorf("notifications sent: %v", notified)
			}
		})
	}
}

// TestFlowsShareASlowMarkedBottleneck checks that controls for lines of 10 Gbit/s and more
// also work on slow and long ones, with a queue as `bench --loss` has.
func TestFlowsShareASlowMarkedBottleneck(t *testing.T) {
	for _, k := range []congestion.Kind{congestion.Window, congestion.DCQCN} {
		for _, c := range []struct {
			bandwidth int64
			delay     time.Duration
		}{{100e6, 50 * time.Microsecond}, {500e6, 10 * time.Microsecond}, {500e6, 50 * time.Microsecond}, {500e6, 500 * time.Microsecond}, {1e9, 50 * time.Microsecond}} {
			f := funnel{control: k, flows: 16, bandwidth: c.bandwidth, queue: 4 << 20, markAbove: 64 << 10, delay: c.delay}
			from := time.Duration(150e15 / c.bandwidth)
			o := f.open(t).between(t, from, from*8/3)
			t.Logf("%v, %d Mbit/s, delay %v: %.0f Mbit/s in all, fairness %.3f, at most %d bytes waiting", k, c.bandwidth/1e6, c.delay, o.total/1e6, o.fair, o.peak)
			if o.fair < 0.95 || o.lost+o.first.QueueFull > 0 || o.peak > 512<<10 || o.total < 0.8*float64(f.bandwidth) {
				t.Errorf("%v, %d Mbit/s, delay %v: %.0f Mbit/s, fairness %.3f, %d lost, %d bytes waiting",
					k, c.bandwidth/1e6, c.delay, o.total/1e6, o.fair, o.lost+o.first.QueueFull, o.peak)
			}
		}
	}
}

// stall delays all packets that leave either end by d, for that long.
func (w *flowing) stall(t *testing.T, f *funnel, d time.Duration) {
	late := func(d time.Duration) {
		for _, s := range w.shares {
			s.host.Link.SetFaults(simnet.Faults{Delay: f.delay/2 + d}, simnet.Faults{Delay: f.delay / 2})
		}
		w.sink.Link.SetFaults(simnet.Faults{Delay: f.delay/2 + d, Bandwidth: f.bandwidth},
			simnet.Faults{Delay: f.delay / 2, Bandwidth: f.bandwidth, Queue: f.queue, MarkAbove: f.markAbove})
	}
	late(d)
	w.run(t, w.net.Clock()+100*time.Microsecond)
	late(0)
	w.run(t, w.net.Clock()+d)
}

// TestFlowsOfOneDeviceSurviveAStall checks that flows do not take the silence of a 50 ms stall
// for free capacity.
func TestFlowsOfOneDeviceSurviveAStall(t *testing.T) {
	for _, k := range []congestion.Kind{congestion.Window, congestion.DCQCN} {
		f := funnel{control: k, flows: 16, bandwidth: 500e6, queue: 4 << 20, markAbove: 64 << 10, delay: 50 * time.Microsecond, together: true}
		w := f.open(t)
		w.run(t, 500*time.Millisecond)
		w.sink.Link.RestartPeak()
		w.stall(t, &f, 50*time.Millisecond)
		w.run(t, w.net.Clock()+50*time.Millisecond)
		_, in := w.sink.Link.Stats()
		o := w.between(t, w.net.Clock(), w.net.Clock()+400*time.Millisecond)
		t.Logf("%v: at most %d bytes waiting behind the stall; then %.0f Mbit/s in all, fairness %.3f", k, in.Peak, o.total/1e6, o.fair)
		if in.Peak > 384<<10 || in.QueueFull > 0 || o.fair < 0.95 || o.total < 0.8*float64(f.bandwidth) {
			t.Errorf("%v: %d bytes waiting behind the stall, %d packets lost; then %.0f Mbit/s, fairness %.3f", k, in.Peak, in.QueueFull, o.total/1e6, o.fair)
		}
	}
}

// TestFlowsBackOffFromAnOverflow checks that, without marks, losses by queue overflow are told
// from accidental ones, and the flows make room for each other.
func TestFlowsBackOffFromAnOverflow(t *testing.T) {
	lost := map[congestion.Kind]float64{}
	for _, k := range []congestion.Kind{congestion.None, congestion.Window, congestion.Delay} {
		f := funnel{control: k, flows: 16, bandwidth: 10e9, queue: 512 << 10, delay: 10 * time.Microsecond}
		o := f.open(t).between(t, 60*time.Millisecond, 120*time.Millisecond)
		lost[k] = float64(o.lost) / float64(o.packets)
		t.Logf("%v: %.0f Mbit/s in all, fairness %.3f, %.2f %% lost", k, o.total/1e6, o.fair, 100*lost[k])
		if k != congestion.None && (o.total < 0.8*float64(f.bandwidth) || o.fair < 0.5) {
			t.Errorf("%v: %.0f Mbit/s, fairness %.3f", k, o.total/1e6, o.fair)
		}
	}
	if lost[congestion.Window] > 0.05 || lost[congestion.Window] > lost[congestion.None]/2 {
		t.Errorf("the window loses %v of its packets, %v are lost without control", lost[congestion.Window], lost[congestion.None])
	}
	if lost[congestion.Delay] != 0 {
		t.Errorf("control by delay loses %v of its packets", lost[congestion.Delay])
	}
}

// TestUnreliableFlowsObeyNotifications checks that senders without acknowledges slow down to
// the rate of a marked port, and share it.
func TestUnreliableFlowsObeyNotifications(t *testing.T) {
	for _, k := range []congestion.Kind{congestion.Window, congestion.None} { // of the device
		f := funnel{control: k, flows: 16, bandwidth: 10e9, queue: 4 << 20, markAbove: 100 << 10, delay: 10 * time.Microsecond, offer: 2e9}
		w := f.open(t)
		from, to := 60*time.Millisecond, 160*time.Millisecond
		if !k.ECN() {
			from, to = time.Millisecond, 5*time.Millisecond // without control it floods
		}
		o := w.between(t, from, to)
		t.Logf("%v: %.0f Mbit/s in all, fairness %.3f, at most %d bytes waiting, %d lost", k, o.total/1e6, o.fair, o.peak, o.lost)
		if notified := w.sink.Dev.Trace.Counter(reason.CongestionMarked) > 0; notified != k.ECN() {
			t.Errorf("%v: notifications sent: %v", k, notified)
		}
		if !k.ECN() {
			if o.lost == 0 {
				t.Error("nothing is lost without control: there is nothing to obey")
			}
			continue
		}
		if o.lost+o.first.QueueFull > 0 || o.peak > 512<<10 {
			t.Errorf("%v: %d packets lost, %d of them at the start; %d bytes waited", k, o.lost+o.first.QueueFull, o.first.QueueFull, o.peak)
		}
		if o.fair < 0.95 || o.total < 0.7*float64(f.bandwidth) {
			t.Errorf("%v: %.0f Mbit/s in all, fairness %.3f", k, o.total/1e6, o.fair)
		}
	}
}

// TestReadsShareAMarkedBottleneck checks that a receiver that READs from sixteen hosts
// requests no more than its port carries.
func TestReadsShareAMarkedBottleneck(t *testing.T) {
	for _, k := range []congestion.Kind{congestion.Window, congestion.DCQCN, congestion.Delay} {
		f := funnel{control: k, flows: 16, bandwidth: 10e9, queue: 16 << 20, markAbove: 100 << 10, delay: 10 * time.Microsecond, reads: true}
		w := f.open(t)
		o := w.between(t, 40*time.Millisecond, 80*time.Millisecond)
		t.Logf("%v: %.0f Mbit/s in all, fairness %.3f, at most %d bytes waiting, before that %d", k, o.total/1e6, o.fair, o.peak, o.first.Peak)
		if o.lost+o.first.QueueFull > 0 || o.fair < 0.95 || o.total < 0.7*float64(f.bandwidth) {
			t.Errorf("%v: %.0f Mbit/s in all, fairness %.3f, %d packets lost", k, o.total/1e6, o.fair, o.lost+o.first.QueueFull)
		}
		// A single READ is requested as a whole, however small the window is.
		if o.peak > f.flows*funnelMessage*9/8 {
			t.Errorf("%v: %d bytes waited", k, o.peak)
		}
	}
}
