package simnet_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/congestion"
	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

// transfer moves one message of the course's length, and returns how long it took.
func (r *runner) transfer(t *testing.T, c *course) time.Duration {
	t.Helper()
	began := r.net.Clock()
	request := rig.Send{
		Op: c.op, Flags: queue.Signaled, SGEs: []memory.SGE{{Addr: 0x10000, Length: uint32(c.message), LKey: r.mrs[0].Key}},
		Addr: 0x10000, RKey: r.mrs[1].Key,
	}
	if c.op == queue.Send {
		if err := rig.PostRecv(r.qps[1].Recv, 1, memory.SGE{Addr: 0x10000, Length: uint32(c.message), LKey: r.mrs[1].Key}); err != nil {
			t.Fatal(err)
		}
	}
	if err := rig.PostSend(r.qps[0], request); err != nil {
		t.Fatal(err)
	}
	done, err := r.hosts[0].Wait(r.cqs[0], 1)
	if err != nil || done[0].Status != queue.Success {
		own, _ := done[0].Reasons()
		t.Fatalf("%+v, %v: %v", done, own, err)
	}
	if c.op == queue.Send {
		if done, err := r.hosts[1].Wait(r.cqs[1], 1); err != nil || done[0].Status != queue.Success {
			t.Fatalf("receive: %+v, %v", done, err)
		}
	}
	return r.net.Clock() - began
}

// setMTU sets the MTU of the path in both directions. Either the hosts know it, or a router silently drops longer packets.
func (r *runner) setMTU(mtu int, known bool) {
	for _, h := range r.hosts {
		out, in := simnet.Faults{Delay: 500 * time.Microsecond, Bandwidth: goodputBandwidth}, simnet.Faults{Delay: 500 * time.Microsecond}
		if known {
			out.MTU = mtu
		} else {
			in.MTU = mtu
		}
		h.Link.SetFaults(out, in)
	}
}

// The path shrinks during transfers, grows a little, and grows back: no transfer fails, packets are fragmented only
// while it is narrow, and later connections have a path MTU that passes.
func TestPathShrinksAndGrows(t *testing.T) {
	for _, op := range []queue.Op{queue.Write, queue.Read, queue.Send} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/known=%v", op, known), func(t *testing.T) {
				c := course{op: op, delay: time.Millisecond, message: 100_000}
				r := c.prepare(t)
				sender, peer := 0, r.hosts[1].Link.Local().Addr()
				if op == queue.Read {
					sender, peer = 1, r.hosts[0].Link.Local().Addr()
				}
				dev := r.hosts[sender].Dev
				narrow, whole := dev.Trace.Counter(reason.PathNarrow), dev.Trace.Counter(reason.PathWhole)
				r.setMTU(0, known)
				r.transfer(t, &c)
				r.setMTU(1472, known)
				if took := r.transfer(t, &c); took > 5*time.Second {
					t.Errorf("the path shrank: the transfer took %v", took)
				}
				for range 20 {
					r.transfer(t, &c)
				}
				r.net.Sleep(time.Second)
				if n := dev.Trace.Counter(reason.PathNarrow) - narrow; n != 1 {
					t.Errorf("the path was found narrow %d times", n)
				}
				if mtu := adapter.PathMTU(dev, peer); mtu != 1024 {
					t.Errorf("later connections have path MTU %d, expected 1024", mtu)
				}
				r.net.Sleep(time.Minute)
				r.setMTU(0, known)
				r.net.Sleep(3 * time.Minute)
				r.transfer(t, &c)
				if n := dev.Trace.Counter(reason.PathWhole) - whole; n != 1 {
					t.Errorf("the path was found whole %d times after it grew", n)
				}
				if mtu := adapter.PathMTU(dev, peer); mtu != 0 {
					t.Errorf("the path is remembered with path MTU %d", mtu)
				}
			})
		}
	}
}

// A connection begins over a path that is too narrow for its first packets. Nothing was heard of the peer before.
func TestConnectionBeginsOverANarrowPath(t *testing.T) {
	for _, op := range []queue.Op{queue.Write, queue.Read, queue.Send} {
		for _, known := range []bool{false, true} {
			c := course{op: op, delay: time.Millisecond, message: 100_000}
			r := c.prepare(t)
			r.setMTU(1472, known)
			if took := r.transfer(t, &c); took > 5*time.Second {
				t.Errorf("%v, known=%v: the transfer took %v", op, known, took)
			}
		}
	}
}

// A path drops long packets and fragments, as one over IPv6 without ICMPv6 messages does, and firewalls do. The connection ends by
// the name of that, says what passes, and later connections begin with that.
func TestBlackHoleIsNamed(t *testing.T) {
	c := course{op: queue.Write, delay: 10 * time.Millisecond, message: 100_000}
	r := c.prepare(t)
	r.transfer(t, &c)
	for _, h := range r.hosts {
		h.Link.SetFaults(simnet.Faults{Delay: 5 * time.Millisecond}, simnet.Faults{Delay: 5 * time.Millisecond, MTU: 1472, NoFragments: true})
	}
	began := r.net.Clock()
	if err := rig.PostSend(r.qps[0], rig.Send{
		Op: queue.Write, SGEs: []memory.SGE{{Addr: 0x10000, Length: uint32(c.message), LKey: r.mrs[0].Key}}, Addr: 0x10000, RKey: r.mrs[1].Key,
	}); err != nil {
		t.Fatal(err)
	}
	done, err := r.hosts[0].Wait(r.cqs[0], 1)
	if err != nil || done[0].Status != queue.RetryExcErr {
		t.Fatalf("%+v, %v", done, err)
	}
	want := reason.Detail{Reason: reason.PathNarrow, Expected: 4096, Found: 1024}
	if own, _ := done[0].Reasons(); own != want {
		t.Errorf("expected %v, found %v", want, own)
	}
	if took := r.net.Clock() - began; took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if mtu := adapter.PathMTU(r.hosts[0].Dev, r.hosts[1].Link.Local().Addr()); mtu != 1024 {
		t.Errorf("later connections have path MTU %d, expected 1024", mtu)
	}
}

// Losses by chance do not make packets be fragmented for long, and the bytes arrive.
func TestLossIsNotTakenForANarrowPath(t *testing.T) {
	for _, loss := range []float64{.05, .1} {
		c := course{op: queue.Write, delay: time.Millisecond, message: 1 << 20, loss: loss}
		r := c.prepare(t)
		random := rand.New(rand.NewPCG(1, 2))
		src := r.mrs[0].Bytes(0x10000, c.message)
		for i := range src {
			src[i] = byte(random.Uint32())
		}
		for range 20 {
			r.transfer(t, &c)
		}
		dst := r.mrs[1].Bytes(0x10000, c.message)
		if !bytes.Equal(src, dst) {
			t.Error("the data differs")
		}
		if n := r.hosts[0].Dev.Trace.Counter(reason.PathNarrow); n != 0 {
			t.Errorf("at a loss of %v the path was found narrow %d times", loss, n)
		}
	}
}

// A network that clears the ECN field takes away the marks that DCQCN obeys, and no packet: losses tell it about
// the queue instead.
func TestBleachedECNIsHarmless(t *testing.T) {
	for _, kind := range []congestion.Kind{congestion.DCQCN, congestion.Window} {
		c := course{op: queue.Write, delay: time.Millisecond, message: 4 << 20, control: kind}
		r := c.prepare(t)
		for _, h := range r.hosts {
			h.Link.SetFaults(
				simnet.Faults{Bleached: true, Delay: 500 * time.Microsecond},
				simnet.Faults{Delay: 500 * time.Microsecond, Bandwidth: 1e9, Queue: 100_000, MarkAbove: 20_000})
		}
		src := r.mrs[0].Bytes(0x10000, c.message)
		for i := range src {
			src[i] = byte(i * i >> 5)
		}
		var took time.Duration
		for range 5 {
			took = r.transfer(t, &c)
		}
		if !bytes.Equal(src, r.mrs[1].Bytes(0x10000, c.message)) {
			t.Errorf("%v: the data differs", kind)
		}
		if n := r.hosts[1].Dev.Trace.Counter(reason.CongestionMarked); n != 0 {
			t.Errorf("%v: %d marks were seen", kind, n)
		}
		if least := 4 * time.Duration(c.message*8); took > least { // 1 Gbit/s is a bit per nanosecond
			t.Errorf("%v: a message took %v, expected at most %v", kind, took, least)
		}
	}
}
