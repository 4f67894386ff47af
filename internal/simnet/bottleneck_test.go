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

// A funnel is flows from one device each to a single receiver, whose port is
// the bottleneck.
type funnel struct {
	control   congestion.Kind
	flows     int
	bandwidth int64
	queue     int // bytes before the bottleneck
	markAbove int
	delay     time.Duration // one way
	standard  bool
}

// share is what one flow of a funnel is made of.
type share struct {
	host  *rig.Host
	cq    *adapter.CQ
	qp    *adapter.QP
	mr    *memory.Region
	done  int
	unans int // posted and not done
}

// A flowing is a funnel at work.
type flowing struct {
	net    *simnet.Network
	sink   *rig.Host
	target *memory.Region
	shares []*share
}

const (
	funnelMessage = 64 << 10
	funnelDepth   = 32
)

func (f *funnel) open(t *testing.T) *flowing {
	w := &flowing{net: simnet.New(7)}
	address := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}), 4791)
	}
	config := adapter.Config{Control: f.control, Standard: f.standard, Window: 1 << 20}
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
	fail(err)
	for i := range f.flows {
		s := &share{}
		s.host, err = rig.Open(w.net, address(i+1), simnet.LinkConfig{
			Egress: simnet.Faults{Delay: f.delay / 2, Bandwidth: f.bandwidth}, Ingress: simnet.Faults{Delay: f.delay / 2},
		}, config)
		fail(err)
		s.cq, err = s.host.Dev.CreateCQ(2*funnelDepth, nil)
		fail(err)
		s.mr, err = s.host.PD.Register(make([]byte, funnelMessage), 0x10000, qp.LocalWrite)
		fail(err)
		s.qp, err = s.host.PD.CreateQP(&adapter.QPConfig{
			Type: qp.RC, SendCQ: s.cq, RecvCQ: s.cq, SendDepth: funnelDepth, SendSGE: 1, RecvDepth: 1, RecvSGE: 1,
		})
		fail(err)
		peer, err := w.sink.PD.CreateQP(&adapter.QPConfig{
			Type: qp.RC, SendCQ: sinkCQ, RecvCQ: sinkCQ, SendDepth: 1, SendSGE: 1, RecvDepth: 1, RecvSGE: 1,
		})
		fail(err)
		fail(rig.Connect(s.qp, peer, rig.Options{MTU: 1024, Timeout: 14}))
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
		for ; s.unans < funnelDepth; s.unans++ {
			err := rig.PostSend(s.qp, rig.Send{
				Op: queue.Write, Flags: queue.Signaled, SGEs: []memory.SGE{{Addr: 0x10000, Length: funnelMessage, LKey: s.mr.Key}},
				Addr: 0x10000, RKey: w.target.Key,
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
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

// An outcome is what came of a funnel between two moments.
type outcome struct {
	total   float64   // bits per second
	shares  []float64 // of it, from the least
	fair    float64   // Jain's index
	peak    int       // bytes that waited at most
	marked  int
	lost    int
	packets int
	first   simnet.Stats // up to the first moment
}

// between runs the flows and takes what happens from one moment to another.
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

// TestFlowsShareAMarkedBottleneck: with marks and pacing, by marks and a
// window, or by delay alone, sixteen flows share a port fairly, keep its queue
// short and lose nothing.
func TestFlowsShareAMarkedBottleneck(t *testing.T) {
	for _, k := range []congestion.Kind{congestion.DCQCN, congestion.Delay, congestion.Window} {
		t.Run(k.String(), func(t *testing.T) {
			f := funnel{control: k, flows: 16, bandwidth: 10e9, queue: 4 << 20, markAbove: 100 << 10, delay: 10 * time.Microsecond}
			w := f.open(t)
			o := w.between(t, 60*time.Millisecond, 160*time.Millisecond)
			t.Logf("%.0f Mbit/s in all, fairness %.3f, at most %d bytes waiting, before that %d; %d of %d packets marked",
				o.total/1e6, o.fair, o.peak, o.first.Peak, o.marked, o.packets)
			if o.fair < 0.95 {
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

// TestFlowsBackOffFromAnOverflow: without marks, the losses of a queue that
// flows over are told from accidents, and the flows make room for each other.
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
