package simnet_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

const (
	goodputBandwidth = 10_000_000_000 // bits per second
	goodputMessage   = 64 << 10
	goodputDepth     = 31                     // messages posted at a time
	goodputTime      = 400 * time.Millisecond // virtual, per cell
	goodputMost      = 32 << 20               // bytes, per cell
)

// A course is one cell of the table.
type course struct {
	op     queue.Op
	loss   float64
	delay  time.Duration // one way
	queue  int           // bytes at the bottleneck
	window int           // of the port, 0 for the default
}

// A runner is the two devices that run a course.
type runner struct {
	net   *simnet.Network
	hosts [2]*rig.Host
	cqs   [2]*adapter.CQ
	qps   [2]*adapter.QP
	mrs   [2]*memory.Region
}

func (c *course) prepare(t *testing.T) *runner {
	r := &runner{net: simnet.New(42)}
	half := max(c.delay/2, time.Nanosecond)
	for i := range r.hosts {
		lc := simnet.LinkConfig{
			Egress:  simnet.Faults{Loss: c.loss, Bandwidth: goodputBandwidth, Queue: c.queue, Delay: half},
			Ingress: simnet.Faults{Delay: half},
		}
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 4791)
		h, err := rig.Open(r.net, a, lc, adapter.Config{Window: c.window})
		if err != nil {
			t.Fatal(err)
		}
		r.hosts[i] = h
		if r.cqs[i], err = h.Dev.CreateCQ(64, nil); err != nil {
			t.Fatal(err)
		}
		if r.qps[i], err = h.PD.CreateQP(&adapter.QPConfig{
			Type: qp.RC, SendCQ: r.cqs[i], RecvCQ: r.cqs[i], SendDepth: goodputDepth, SendSGE: 1, RecvDepth: 1, RecvSGE: 1,
		}); err != nil {
			t.Fatal(err)
		}
		if r.mrs[i], err = h.PD.Register(make([]byte, goodputMessage), 0x10000, qp.LocalWrite|qp.RemoteWrite|qp.RemoteRead); err != nil {
			t.Fatal(err)
		}
	}
	o := rig.Options{MTU: 4096, Timeout: 1, Reads: 16}
	for 4096*time.Nanosecond<<o.Timeout < 4*c.delay+2*time.Millisecond {
		o.Timeout++
	}
	if err := rig.Connect(r.qps[0], r.qps[1], o); err != nil {
		t.Fatal(err)
	}
	return r
}

// goodput is how many bits per second of virtual time one queue pair moves over
// a link of 10 Gbit/s that keeps it supplied with messages of 64 KiB.
func (c *course) goodput(t *testing.T) (float64, *runner) {
	r := c.prepare(t)
	request := []rig.Send{{
		Op: c.op, Flags: queue.Signaled, SGEs: []memory.SGE{{Addr: 0x10000, Length: goodputMessage, LKey: r.mrs[0].Key}},
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
		return r.net.Clock() >= goodputTime || done*goodputMessage >= goodputMost
	}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return float64(done) * goodputMessage * 8 / r.net.Clock().Seconds(), r
}

// TestGoodputByLossAndDelay holds the reliable connection's recovery against
// bounds. All times are virtual: a cell is the same number on every machine.
func TestGoodputByLossAndDelay(t *testing.T) {
	if testing.Short() {
		t.Skip("moves a gigabyte")
	}
	losses := [...]float64{0, 0.0001, 0.001, 0.01, 0.05}
	delays := [...]time.Duration{0, 50 * time.Microsecond, 500 * time.Microsecond, 5 * time.Millisecond}
	for _, op := range []struct {
		name string
		op   queue.Op
		// least is what each cell must reach, in Mbit/s. The first row follows
		// from bandwidth and window; the others hold what recovery achieves.
		least [len(losses)][len(delays)]float64
	}{
		{"WRITE", queue.Write, [len(losses)][len(delays)]float64{
			{9000, 9000, 7000, 700}, {8500, 8000, 4000, 400}, {8000, 6000, 1000, 150}, {6000, 2000, 300, 50}, {700, 300, 80, 5},
		}},
		{"READ", queue.Read, [len(losses)][len(delays)]float64{
			{9000, 9000, 7000, 700}, {8500, 8000, 5500, 500}, {6500, 6000, 4500, 400}, {2000, 2000, 1500, 150}, {400, 300, 200, 15},
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
				// More loss or delay must not help, but for what one seed's luck does.
				if i > 0 && v > 1.2*table[i-1][k] || k > 0 && v > 1.2*table[i][k-1] {
					t.Errorf("%s, loss %v, delay %v: %.1f Mbit/s is more than with less of them", op.name, loss, delay, v)
				}
			}
		}
		t.Log(out.String())
	}
}

// TestReadsKeepToTheWindow: what 16 READs of 64 KiB bring at once would flow
// over a queue, or a receive buffer, that the window fits into.
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
