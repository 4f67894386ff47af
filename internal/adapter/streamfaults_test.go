package adapter_test

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"
	"time"

	"softrdma/faults"
	"softrdma/internal/adapter"
	"softrdma/internal/iwarp"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

// A streamSide is one end of a connection over iWARP.
type streamSide struct {
	dev    *adapter.Device
	cq     *adapter.CQ
	qp     *adapter.QP
	mem    []byte
	mr     *memory.Region
	up     bool
	events []adapter.StreamEvent
}

// streamPair connects two devices, of which the first has the rules.
func streamPair(t *testing.T, markers bool, list ...faults.Rule) (n *simnet.Network, s [2]*streamSide, x *faults.Injector) {
	t.Helper()
	return streamPairOn(t, simnet.StreamConfig{Delay: time.Microsecond, Segment: 1448}, markers, list...)
}

func streamPairOn(t *testing.T, link simnet.StreamConfig, markers bool, list ...faults.Rule) (n *simnet.Network, s [2]*streamSide, x *faults.Injector) {
	t.Helper()
	n = simnet.New(3)
	for i := range s {
		e := &streamSide{mem: make([]byte, 256<<10)}
		s[i] = e
		l := n.AttachStreams(netip.AddrFrom4([4]byte{10, 0, 1, byte(i + 1)}), link)
		e.dev = adapter.Open(adapter.Config{Streams: l, Clock: n.Clock, Manual: true, Markers: markers})
		n.Drive(e.dev)
		pd, err := e.dev.AllocPD()
		must(t, err)
		e.cq, err = e.dev.CreateCQ(256, nil)
		must(t, err)
		e.mr, err = pd.Register(e.mem, 0x10000, rig.AllAccess|qp.LocalWrite)
		must(t, err)
		e.qp, err = pd.CreateQP(&adapter.QPConfig{Type: qp.RC, SendCQ: e.cq, RecvCQ: e.cq, SendDepth: 64, SendSGE: 1, RecvDepth: 64, RecvSGE: 1, SignalAll: true})
		must(t, err)
		must(t, e.qp.Modify(qp.MaskState|qp.MaskPKeyIndex|qp.MaskPort|qp.MaskAccess, &qp.Attr{State: qp.Init, Port: 1, Access: rig.AllAccess}))
	}
	for i := range s[0].mem {
		s[0].mem[i] = byte(i * 7)
	}
	x, err := faults.New(faults.Rules{}, "rdma0")
	must(t, err)
	x.Streams = true
	must(t, x.Set(faults.Rules{Seed: 9, Rules: list}))
	s[0].dev.Inject(x)
	handle := func(e *streamSide) func(v *adapter.StreamEvent) {
		return func(v *adapter.StreamEvent) {
			e.events, e.up = append(e.events, *v), e.up || v.Kind == iwarp.Established
		}
	}
	params := iwarp.Params{IRD: 4, ORD: 4}
	listener, err := s[1].dev.ListenStream(7, 4, handle(s[1]))
	must(t, err)
	_, err = s[0].dev.Dial(&adapter.DialConfig{Dst: listener.Addr(), QPN: s[0].qp.QPN, Params: params}, handle(s[0]))
	must(t, err)
	asked := false
	must(t, n.Run(func() bool {
		if !asked && len(s[1].events) > 0 {
			asked = true
			must(t, s[1].events[0].On.Accept(s[1].qp.QPN, &params))
		}
		return s[0].up && s[1].up
	}, time.Minute))
	return n, s, x
}

// write posts a WRITE of n bytes.
func (e *streamSide) write(t *testing.T, to *streamSide, n int) {
	t.Helper()
	must(t, rig.PostSend(e.qp, rig.Send{Op: queue.Write, SGEs: []memory.SGE{{Addr: e.mr.Base, Length: uint32(n), LKey: e.mr.Key}}, Addr: to.mr.Base, RKey: to.mr.Key}))
}

// read posts a READ of n bytes to the second half of the memory.
func (e *streamSide) read(t *testing.T, from *streamSide, n int) {
	t.Helper()
	must(t, rig.PostSend(e.qp, rig.Send{Op: queue.Read, SGEs: []memory.SGE{{Addr: e.mr.Base + 128<<10, Length: uint32(n), LKey: e.mr.Key}}, Addr: from.mr.Base, RKey: from.mr.Key}))
}

// statuses waits for n completions.
func (e *streamSide) statuses(t *testing.T, net *simnet.Network, n int) (list []queue.Status) {
	t.Helper()
	var all [64]queue.CQE
	must(t, net.Run(func() bool {
		for _, c := range all[:rig.Poll(e.cq, all[:])] {
			list = append(list, c.Status)
		}
		return len(list) >= n
	}, time.Minute))
	return list
}

// streamFaults are rules after which all data arrives.
var streamFaults = map[string]faults.Rule{
	"delay":       {Action: faults.Delay, Time: faults.Duration(time.Millisecond), Jitter: faults.Duration(time.Millisecond)},
	"rate":        {Action: faults.Rate, Rate: 10 << 20},
	"stall":       {Action: faults.Stall, Time: faults.Duration(time.Millisecond)},
	"slow memory": {Action: faults.SlowMemory, Time: faults.Duration(time.Millisecond)},
}

func TestLateFPDUsArriveInOrder(t *testing.T) {
	for name, r := range streamFaults {
		for _, direction := range []string{faults.Sent, faults.Received} {
			if direction == faults.Sent && (r.Action == faults.Stall || r.Action == faults.SlowMemory) {
				continue
			}
			for _, markers := range []bool{false, true} {
				t.Run(name+" "+direction, func(t *testing.T) {
					r.Select.Direction = direction
					n, s, x := streamPair(t, markers, r)
					start := n.Clock()
					for range 3 {
						s[0].write(t, s[1], 30000)
						s[0].read(t, s[1], 30000)
					}
					if r.Action == faults.SlowMemory {
						s[1].write(t, s[0], 8)
						s[1].statuses(t, n, 1)
					}
					if l := s[0].statuses(t, n, 6); slices.ContainsFunc(l, func(s queue.Status) bool { return s != queue.Success }) {
						t.Fatalf("completed with %v", l)
					}
					if !bytes.Equal(s[1].mem[8:30000], s[0].mem[8:30000]) || !bytes.Equal(s[0].mem[8:30000], s[0].mem[128<<10+8:][:30000-8]) {
						t.Error("the data differs")
					}
					if x.Counts()[0] == 0 || s[0].dev.Trace.Counter(reason.FaultInjected) != x.Counts()[0] {
						t.Errorf("%d hits, %d counted", x.Counts()[0], s[0].dev.Trace.Counter(reason.FaultInjected))
					}
					if r.Action != faults.SlowMemory && n.Clock()-start < time.Millisecond {
						t.Errorf("took %v", n.Clock()-start)
					}
				})
			}
		}
	}
}

// A stream ends at the FPDU that a rule names: the request before it succeeds, and both queue pairs fail.
func TestStreamThatARuleEnds(t *testing.T) {
	for _, r := range []faults.Selector{
		{Direction: faults.Sent, Opcode: []string{"read request"}, Nth: 2},
		{Direction: faults.Received, Opcode: []string{"read response"}, Nth: 2},
	} {
		t.Run(r.Direction, func(t *testing.T) {
			n, s, x := streamPair(t, false, faults.Rule{Action: faults.EndStream, Select: r})
			s[0].read(t, s[1], 8)
			l := s[0].statuses(t, n, 1)
			s[0].read(t, s[1], 8)
			s[0].read(t, s[1], 8)
			l = append(l, s[0].statuses(t, n, 2)...)
			if want := []queue.Status{queue.Success, queue.RetryExcErr, queue.WRFlushErr}; !slices.Equal(l, want) {
				t.Errorf("completed with %v, expected %v", l, want)
			}
			must(t, n.Run(func() bool { return s[1].qp.StateHint() == qp.Err && s[0].qp.StateHint() == qp.Err }, time.Minute))
			if x.Counts()[0] != 1 {
				t.Errorf("%d hits", x.Counts()[0])
			}
		})
	}
}

// An FPDU with a wrong CRC ends the stream with the Terminate of MPA (RFC 5044 8), whichever end corrupts it.
func TestCorruptFPDUIsTheCRCErrorOfMPA(t *testing.T) {
	for _, direction := range []string{faults.Sent, faults.Received} {
		for _, part := range []string{"payload", "header"} {
			for _, markers := range []bool{false, true} {
				if markers && part == "header" { // which DDP sees before the CRC has come
					continue
				}
				t.Run(direction+" "+part, func(t *testing.T) {
					op := map[string]string{faults.Sent: "write", faults.Received: "read response"}[direction]
					n, s, x := streamPair(t, markers, faults.Rule{Action: faults.Corrupt, Part: part, Select: faults.Selector{Direction: direction, Opcode: []string{op}, MinSize: 1, Nth: 2}})
					for range 3 {
						if s[0].read(t, s[1], 600); direction == faults.Sent {
							s[0].write(t, s[1], 600)
						}
					}
					finder := s[0]
					if direction == faults.Sent {
						finder = s[1]
					}
					must(t, n.Run(func() bool { return s[0].qp.StateHint() == qp.Err && s[1].qp.StateHint() == qp.Err }, time.Minute))
					if c := finder.dev.Trace.Counter(reason.MPACRC); c != 1 || x.Counts()[0] != 1 {
						t.Errorf("%d CRC errors with %d hits", c, x.Counts()[0])
					}
				})
			}
		}
	}
}

// With a right CRC, corrupt payload arrives as data.
func TestCorruptFPDUWithARightCRCIsTaken(t *testing.T) {
	for _, markers := range []bool{false, true} {
		n, s, _ := streamPair(t, markers, faults.Rule{Action: faults.Corrupt, ICRC: "right", Bytes: []int{550}, Select: faults.Selector{Opcode: []string{"write"}, MinSize: 1}})
		s[0].write(t, s[1], 600)
		s[0].read(t, s[1], 8)
		if l := s[0].statuses(t, n, 2); !slices.Equal(l, []queue.Status{queue.Success, queue.Success}) {
			t.Fatalf("completed with %v", l)
		}
		want := bytes.Clone(s[0].mem[:600])
		want[550] ^= 0xff
		if !bytes.Equal(s[1].mem[:600], want) {
			t.Error("byte 550 alone is to differ")
		}
	}
}

// The same rules, seed and traffic hit the same FPDUs.
func TestFaultsOfStreamsWithOneSeedHitTheSameFPDUs(t *testing.T) {
	for _, direction := range []string{faults.Sent, faults.Received} {
		var runs [2][]string
		for i := range runs {
			n, s, x := streamPair(t, false, faults.Rule{Action: faults.Delay, Time: faults.Duration(time.Microsecond), Select: faults.Selector{Direction: direction, Probability: 0.3}})
			for range 30 {
				s[0].write(t, s[1], 3000)
				s[0].read(t, s[1], 3000)
			}
			s[0].statuses(t, n, 60)
			for _, h := range x.Hits() {
				runs[i] = append(runs[i], h.Where())
			}
		}
		if len(runs[0]) < 2 || !slices.Equal(runs[0], runs[1]) {
			t.Errorf("%s: hits differ: %q and %q", direction, runs[0], runs[1])
		}
	}
}

// Rules that are set while a stream runs apply to it from its next FPDUs on, wherever its bytes stand.
func TestRulesReachStreamsThatRun(t *testing.T) {
	const size = 30000
	late := faults.Rule{Action: faults.Delay, Time: faults.Duration(time.Microsecond)}
	sent, received := late, late
	sent.Select.Direction, received.Select.Direction = faults.Sent, faults.Received
	for _, markers := range []bool{false, true} {
		for steps := range 25 {
			n, s, x := streamPairOn(t, simnet.StreamConfig{Delay: time.Microsecond, Jitter: 5 * time.Microsecond, Segment: 900, Window: 1 << 20}, markers)
			data := bytes.Clone(s[0].mem[:size])
			copy(s[1].mem, data)
			s[1].write(t, s[0], size)
			s[1].write(t, s[0], size)
			for range steps {
				n.Step()
			}
			must(t, x.Set(faults.Rules{Rules: []faults.Rule{sent, received}}))
			s[0].write(t, s[1], size)
			s[0].read(t, s[1], size)
			s[1].write(t, s[0], size)
			l := append(s[0].statuses(t, n, 2), s[1].statuses(t, n, 3)...)
			if slices.ContainsFunc(l, func(s queue.Status) bool { return s != queue.Success }) {
				t.Fatalf("markers %v, %d steps: completed with %v", markers, steps, l)
			}
			must(t, n.Run(func() bool { return x.Counts()[1] >= 2 }, time.Minute))
			if !bytes.Equal(s[0].mem[:size], data) || !bytes.Equal(s[1].mem[:size], data) || !bytes.Equal(s[0].mem[128<<10:][:size], data) {
				t.Errorf("markers %v, %d steps: the data differs", markers, steps)
			}
			if c := x.Counts(); c[0] < 2 {
				t.Errorf("markers %v, %d steps: %d FPDUs hit that were sent, expected a WRITE and a READ request", markers, steps, c[0])
			}
		}
	}
}
