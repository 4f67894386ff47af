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
	goodputMost      = 32 << 20               // bytes per cell
)

// goodput is how many bits per second of virtual time one queue pair WRITEs
// over a link of 10 Gbit/s that loses packets and takes delay each way.
func goodput(t *testing.T, op queue.Op, loss float64, delay time.Duration) float64 {
	n := simnet.New(42)
	var hosts [2]*rig.Host
	var cqs [2]*adapter.CQ
	var qps [2]*adapter.QP
	var mrs [2]*memory.Region
	for i := range hosts {
		out := simnet.Faults{Loss: loss, Bandwidth: goodputBandwidth, Delay: max(delay/2, time.Nanosecond)}
		in := simnet.Faults{Delay: max(delay/2, time.Nanosecond)}
		h, err := rig.Open(n, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 4791),
			simnet.LinkConfig{Egress: out, Ingress: in}, adapter.Config{})
		if err != nil {
			t.Fatal(err)
		}
		hosts[i] = h
		cqs[i], _ = h.Dev.CreateCQ(64, nil)
		if qps[i], err = h.PD.CreateQP(&adapter.QPConfig{
			Type: qp.RC, SendCQ: cqs[i], RecvCQ: cqs[i], SendDepth: goodputDepth, SendSGE: 1, RecvDepth: 1, RecvSGE: 1,
		}); err != nil {
			t.Fatal(err)
		}
		if mrs[i], err = h.PD.Register(make([]byte, goodputMessage), 0x10000, qp.LocalWrite|qp.RemoteWrite|qp.RemoteRead); err != nil {
			t.Fatal(err)
		}
	}
	o := rig.Options{MTU: 4096, Timeout: 1, Reads: 16}
	for 4096*time.Nanosecond<<o.Timeout < 4*delay+2*time.Millisecond {
		o.Timeout++
	}
	if err := rig.Connect(qps[0], qps[1], o); err != nil {
		t.Fatal(err)
	}
	request := rig.Send{
		Op: op, Flags: queue.Signaled, SGEs: []memory.SGE{{Addr: 0x10000, Length: goodputMessage, LKey: mrs[0].Key}},
		Addr: 0x10000, RKey: mrs[1].Key,
	}
	done, posted := 0, 0
	var batch [64]queue.CQE
	err := n.Run(func() bool {
		for _, c := range batch[:rig.Poll(cqs[0], batch[:])] {
			if c.Status != queue.Success {
				t.Fatalf("loss %v, delay %v: %+v", loss, delay, c)
			}
			done++
		}
		for posted-done < goodputDepth {
			if err := rig.PostSend(qps[0], request); err != nil {
				t.Fatal(err)
			}
			posted++
		}
		return n.Clock() >= goodputTime || done*goodputMessage >= goodputMost
	}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return float64(done) * goodputMessage * 8 / n.Clock().Seconds()
}

// TestGoodputByLossAndDelay holds the reliable connection's recovery against
// bounds. All times are virtual: a cell is the same number on every machine.
func TestGoodputByLossAndDelay(t *testing.T) {
	losses := []float64{0, 0.0001, 0.001, 0.01, 0.05}
	delays := []time.Duration{0, 50 * time.Microsecond, 500 * time.Microsecond, 5 * time.Millisecond}
	for _, op := range []queue.Op{queue.Write, queue.Read} {
		var table [5][4]float64
		var out strings.Builder
		fmt.Fprintf(&out, "goodput in Mbit/s, operation %d, loss down, delay one way across %v", op, delays)
		for i, loss := range losses {
			fmt.Fprintf(&out, "\n%7.2f %%", 100*loss)
			for k, delay := range delays {
				table[i][k] = goodput(t, op, loss, delay)
				fmt.Fprintf(&out, " %9.1f", table[i][k]/1e6)
			}
		}
		t.Log(out.String())
	}
}
