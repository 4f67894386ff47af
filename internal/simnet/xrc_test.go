package simnet_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

const (
	xrcQueues   = 3
	xrcRequests = 60
	xrcSlot     = 5000             // of a receive
	xrcSources  = 1 << 16          // at the initiator; followed by a slot for the result of each request
	xrcTarget   = 80 * xrcSlot     // after the receives: target of WRITEs and READs
	xrcWord     = xrcTarget + 8192 // of atomics
	xrcLen      = xrcWord + 8
)

// An xrcQueue is a shared receive queue of the target's domain, with a model of what peers do
// to it.
type xrcQueue struct {
	pd     *adapter.PD
	cq     *adapter.CQ
	srq    *adapter.SRQ
	mem    []byte
	mr     *memory.Region
	want   []byte // expected content of mem at the end
	expect []queue.CQE
}

// An xrcWorld is an initiator on one host, and a target with its queues on another.
type xrcWorld struct {
	r       *rand.Rand
	net     *simnet.Network
	hosts   [2]*rig.Host
	cq      *adapter.CQ
	ini     *adapter.QP
	target  *adapter.QP
	xrcd    *adapter.XRCD
	mem     []byte
	mr      *memory.Region
	queues  [xrcQueues]*xrcQueue
	results []func() error
}

func newXRCWorld(seed uint64) (w *xrcWorld, err error) {
	w = &xrcWorld{r: rand.New(rand.NewPCG(seed, 14)), net: simnet.New(seed)}
	f := func() simnet.Faults {
		p := func() float64 { return w.r.Float64() * 0.03 }
		return simnet.Faults{Loss: p(), Duplicate: p(), Corrupt: p(), Reorder: p(), Jitter: time.Duration(w.r.IntN(20)) * time.Microsecond}
	}
	for i := range w.hosts {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 4791)
		if w.hosts[i], err = rig.OpenLanes(w.net, at, simnet.LinkConfig{Egress: f()}, adapter.Config{}, 1+w.r.IntN(3)); err != nil {
			return nil, err
		}
	}
	near, far := w.hosts[0], w.hosts[1]
	if w.cq, err = near.Dev.CreateCQ(xrcRequests, nil); err != nil {
		return nil, err
	}
	if w.ini, err = near.PD.CreateQP(&adapter.QPConfig{Type: qp.XRCSend, SendCQ: w.cq, RecvCQ: w.cq, SendDepth: xrcRequests, SendSGE: 2, SignalAll: true}); err != nil {
		return nil, err
	}
	w.mem = make([]byte, xrcSources+xrcRequests*xrcSlot)
	for i := range w.mem[:xrcSources] {
		w.mem[i] = byte(w.r.Uint32())
	}
	if w.mr, err = near.PD.Register(w.mem, 0, rig.AllAccess|qp.LocalWrite); err != nil {
		return nil, err
	}
	if w.xrcd, err = far.Dev.OpenXRCD(); err != nil {
		return nil, err
	}
	if w.target, err = w.xrcd.CreateTarget(); err != nil {
		return nil, err
	}
	for i := range w.queues {
		if w.queues[i], err = w.newQueue(); err != nil {
			return nil, err
		}
	}
	return w, rig.Connect(w.ini, w.target, rig.Options{MTU: 256 << w.r.IntN(5), PSN: [2]psn.PSN{psn.New(0xffffff - uint32(w.r.IntN(50))), 1}, Timeout: 8})
}

func (w *xrcWorld) newQueue() (q *xrcQueue, err error) {
	far := w.hosts[1].Dev
	q = &xrcQueue{mem: make([]byte, xrcLen), want: make([]byte, xrcLen)}
	if q.pd, err = far.AllocPD(); err != nil {
		return nil, err
	}
	if q.cq, err = far.CreateCQ(xrcRequests, nil); err != nil {
		return nil, err
	}
	if q.srq, err = q.pd.CreateXRCSRQ(w.xrcd, q.cq, xrcRequests, 1); err != nil {
		return nil, err
	}
	q.mr, err = q.pd.Register(q.mem, 0, rig.AllAccess|qp.LocalWrite)
	return q, err
}

// next draws a request for a random queue, and applies it to the model.
func (w *xrcWorld) next(i int) rig.Send {
	q := w.queues[w.r.IntN(xrcQueues)]
	n := w.r.IntN(xrcSlot)
	from, at := w.r.IntN(xrcSources-n), w.r.IntN(8192-n)
	s := rig.Send{ID: uint64(i), SRQN: q.srq.Number, RKey: q.mr.Key, Op: queue.Op(w.r.IntN(int(queue.FetchAdd) + 1))}
	s.Addr, s.SGEs = q.mr.Base+uint64(xrcTarget+at), w.list(from, n)
	data, to := w.mem[from:from+n], q.want[xrcTarget+at:][:n]
	switch s.Op {
	case queue.Write:
		s.Flags |= queue.Fence // after READs of the same memory (IBTA 10.8.3.3)
		copy(to, data)
	case queue.Read:
		w.fetch(&s, i, bytes.Clone(to))
	case queue.CompareSwap, queue.FetchAdd:
		word := q.want[xrcWord:]
		old := binary.NativeEndian.Uint64(word)
		w.fetch(&s, i, bytes.Clone(word[:8]))
		s.Addr = q.mr.Base + xrcWord
		if s.CompareAdd, s.Swap = w.r.Uint64(), w.r.Uint64(); s.Op == queue.FetchAdd {
			binary.NativeEndian.PutUint64(word, old+s.CompareAdd)
		} else {
			s.CompareAdd = old
			binary.NativeEndian.PutUint64(word, s.Swap)
		}
	default:
		w.message(q, &s, data, to, i)
	}
	return s
}

// list returns an entry for n bytes of the initiator's memory.
func (w *xrcWorld) list(at, n int) []memory.SGE {
	return []memory.SGE{{Addr: w.mr.Base + uint64(at), Length: uint32(n), LKey: w.mr.Key}}
}

// fetch returns a request that reads bytes, to its own place.
func (w *xrcWorld) fetch(s *rig.Send, i int, want []byte) {
	at := xrcSources + i*xrcSlot
	s.SGEs = w.list(at, len(want))
	w.results = append(w.results, func() error {
		if !bytes.Equal(w.mem[at:at+len(want)], want) {
			return fmt.Errorf("request %d brought wrong bytes", i)
		}
		return nil
	})
}

// message returns a request that consumes a receive.
func (w *xrcWorld) message(q *xrcQueue, s *rig.Send, data, to []byte, i int) {
	k := len(q.expect)
	c := queue.CQE{WRID: uint64(k), Op: queue.WCRecv, ByteLen: uint32(len(data)), QPN: w.target.QPN, PortNum: 1}
	if s.Op != queue.Send {
		s.ImmInv = uint32(i)
		c.Flags, c.ImmInv = queue.WCImm, s.ImmInv
	}
	if s.Op == queue.WriteImm {
		s.Flags |= queue.Fence
		c.Op = queue.WCRecvRDMAImm
		copy(to, data)
	} else {
		copy(q.want[k*xrcSlot:], data)
	}
	q.expect = append(q.expect, c)
}

func (w *xrcWorld) run() error {
	for i := range xrcRequests {
		if err := rig.PostSend(w.ini, w.next(i)); err != nil {
			return err
		}
	}
	var posted [xrcQueues]int
	for sent := 0; sent < xrcRequests; {
		for k, q := range w.queues { // some receives come late
			for ; posted[k] < len(q.expect) && w.r.IntN(4) != 0; posted[k]++ {
				e := memory.SGE{Addr: q.mr.Base + uint64(posted[k]*xrcSlot), Length: xrcSlot, LKey: q.mr.Key}
				if err := rig.PostRecv(q.srq.Ring(), uint64(posted[k]), e); err != nil {
					return err
				}
			}
		}
		var c [xrcRequests]queue.CQE
		n, deadline := 0, w.net.Clock()+time.Millisecond
		err := w.net.Run(func() bool {
			n += rig.Poll(w.cq, c[n:])
			return w.net.Clock() >= deadline || sent+n == xrcRequests
		}, time.Minute)
		if err != nil {
			return fmt.Errorf("%d of %d requests completed: %w", sent+n, xrcRequests, err)
		}
		for _, e := range c[:n] {
			if e.Status != queue.Success || e.WRID != uint64(sent) {
				return fmt.Errorf("completion %d: %+v", sent, e)
			}
			sent++
		}
	}
	return w.compare()
}

// compare compares the final state with the model.
func (w *xrcWorld) compare() error {
	for k, q := range w.queues {
		c := make([]queue.CQE, xrcRequests)
		if n := rig.Poll(q.cq, c); n != len(q.expect) {
			return fmt.Errorf("queue %d: %d messages, expected %d", k, n, len(q.expect))
		}
		for i, want := range q.expect {
			if c[i] != want {
				return fmt.Errorf("queue %d: message %d: %+v, expected %+v", k, i, c[i], want)
			}
		}
		if !bytes.Equal(q.mem, q.want) {
			return fmt.Errorf("queue %d: memory is not as in the model", k)
		}
	}
	for _, check := range w.results {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// close destroys everything. The error lists objects that are left.
func (w *xrcWorld) close() error {
	list := []error{w.ini.Destroy(), w.target.Destroy(), w.cq.Destroy(), w.hosts[0].PD.Deregister(w.mr)}
	for _, q := range w.queues {
		list = append(list, q.srq.Destroy(), q.cq.Destroy(), q.pd.Deregister(q.mr), q.pd.Dealloc())
	}
	list = append(list, w.xrcd.Close(), w.hosts[0].Close(), w.hosts[1].Close())
	return errors.Join(list...)
}

// TestXRCSeeds runs an extended reliable connection to several queues over a network with
// faults, against a plain model. A failure contains its seed.
func TestXRCSeeds(t *testing.T) {
	n := *seedCount / 5
	if testing.Short() {
		n = min(n, 40)
	}
	repeated := uint64(0)
	for i := range uint64(n) {
		seed := mixed(3_000_000 + *firstSeed + i)
		if *oneSeed != 0 {
			seed = *oneSeed
		}
		w, err := newXRCWorld(seed)
		if err == nil {
			err = w.run()
			for r, n := range w.hosts[0].Dev.Trace.Counters(0) {
				if r == reason.NAKSequence || r == reason.AckTimeout {
					repeated += n
				}
			}
			err = errors.Join(err, w.close())
		}
		if err != nil {
			t.Fatalf("%v\n\tgo test ./internal/simnet -run TestXRCSeeds -seed=%#x", err, seed)
		}
	}
	if *oneSeed == 0 && repeated < uint64(n) {
		t.Errorf("%d losses in %d runs: the faults do not reach the connection", repeated, n)
	}
}
