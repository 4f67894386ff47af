package adapter_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"softrdma/faults"
	"softrdma/faults/file"
	"softrdma/faults/scenarios"
	"softrdma/internal/capture"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet/rig"
)

// packetFaults are rules with each action of sent packets.
var packetFaults = map[string]faults.Rule{
	"drop":       {Action: faults.Drop},
	"delay":      {Action: faults.Delay, Time: faults.Duration(time.Millisecond), Jitter: faults.Duration(time.Millisecond)},
	"duplicate":  {Action: faults.Duplicate},
	"reorder":    {Action: faults.Reorder, Behind: 2},
	"corrupt":    {Action: faults.Corrupt},
	"header":     {Action: faults.Corrupt, Part: "header"},
	"mark":       {Action: faults.Mark},
	"rate":       {Action: faults.Rate, Rate: 10 << 20},
	"black hole": {Action: faults.BlackHole, Above: 1000, Select: faults.Selector{Count: 3}},
}

func set(t *testing.T, s *side, r faults.Rule, direction string) *faults.Injector {
	t.Helper()
	r.Select.Probability, r.Select.Direction = 0.2, direction
	x, err := faults.New(faults.Rules{Seed: 5, Rules: []faults.Rule{r}}, "rdma0")
	must(t, err)
	s.Dev.Inject(x)
	return x
}

func TestFaultsOfPacketsAreRepaired(t *testing.T) {
	for name, r := range packetFaults {
		t.Run(name, func(t *testing.T) {
			everyRoute(t, func(t *testing.T, a, b *side) {
				x, y := set(t, a, r, faults.Sent), set(t, b, r, faults.Sent)
				for i := range 3 {
					transfer(t, a, b, 20001+i)
				}
				n, m := x.Counts()[0], y.Counts()[0]
				if n == 0 || a.count(reason.FaultInjected) != n || b.count(reason.FaultInjected) != m {
					t.Errorf("%d and %d hits, counted %d and %d", n, m, a.count(reason.FaultInjected), b.count(reason.FaultInjected))
				}
			})
		})
	}
}

// receivedFaults are rules with each action of packets that arrive.
var receivedFaults = map[string]faults.Rule{
	"drop":        packetFaults["drop"],
	"delay":       packetFaults["delay"],
	"duplicate":   packetFaults["duplicate"],
	"reorder":     packetFaults["reorder"],
	"corrupt":     packetFaults["corrupt"],
	"mark":        packetFaults["mark"],
	"stall":       {Action: faults.Stall, Time: faults.Duration(time.Millisecond)},
	"slow memory": {Action: faults.SlowMemory, Time: faults.Duration(time.Millisecond)},
}

func TestFaultsOfReceivedPacketsAreRepaired(t *testing.T) {
	for name, r := range receivedFaults {
		t.Run(name, func(t *testing.T) {
			everyRoute(t, func(t *testing.T, a, b *side) {
				x, y := set(t, a, r, faults.Received), set(t, b, r, faults.Received)
				for i := range 3 {
					transfer(t, a, b, 20001+i)
				}
				n, m := x.Counts()[0], y.Counts()[0]
				if n+m == 0 || a.count(reason.FaultInjected) != n || b.count(reason.FaultInjected) != m {
					t.Errorf("%d and %d hits, counted %d and %d", n, m, a.count(reason.FaultInjected), b.count(reason.FaultInjected))
				}
			})
		})
	}
}

// The scenario of an RNR storm refuses each message that takes a receive, whatever it is made of, at the packet
// that takes it: the first one of a SEND, the last one of a WRITE with immediate data (IBTA 9.7.5.2.8).
func TestFaultsRefuseTheReceiveOfMessagesOfSeveralPackets(t *testing.T) {
	text, _ := scenarios.Text("rnr-storm")
	f, err := file.Parse("rnr-storm", text)
	must(t, err)
	for _, c := range []struct {
		op   queue.Op
		size int
	}{{queue.Send, 8}, {queue.Send, 5000}, {queue.SendImm, 5000}, {queue.WriteImm, 8}, {queue.WriteImm, 2000}, {queue.WriteImm, 5000}} {
		t.Run(fmt.Sprint(c.op, " of ", c.size), func(t *testing.T) {
			everyRoute(t, func(t *testing.T, a, b *side) {
				r := f.Rules[0]
				r.Select.Probability, r.Select.Nth = 0, 1
				x, err := faults.New(faults.Rules{Rules: []faults.Rule{r}}, "rdma0")
				must(t, err)
				b.Dev.Inject(x)
				for i := range a.mem[:c.size] {
					a.mem[i] = byte(i*7 + c.size)
				}
				b.recv(t, 1, 0, c.size)
				must(t, rig.PostSend(a.qp, rig.Send{Op: c.op, Flags: queue.Signaled, SGEs: []memory.SGE{a.sge(0, c.size)}, Addr: b.mr.Base, RKey: b.mr.Key}))
				expect(t, a, 0, queue.Success)
				expect(t, b, 1, queue.Success)
				if !bytes.Equal(a.mem[:c.size], b.mem[:c.size]) {
					t.Error("the bytes differ")
				}
				if n, m := b.count(reason.FaultAnswer), a.count(reason.NAKNotReady); n != 1 || m != 1 || x.Counts()[0] != 1 {
					t.Errorf("%d hits, %d messages refused, %d RNR NAKs received, expected 1 of each", x.Counts()[0], n, m)
				}
			})
		})
	}
}

// A responder refuses as the rule says, and the requester's work completes as the standard asks.
func TestFaultsOfRespondersAnswer(t *testing.T) {
	for answer, want := range map[string]queue.Status{
		"rnr": queue.Success, "sequence": queue.Success, "invalid request": queue.RemInvReqErr,
		"remote access": queue.RemAccessErr, "remote operational": queue.RemOpErr,
	} {
		t.Run(answer, func(t *testing.T) {
			everyRoute(t, func(t *testing.T, a, b *side) {
				x, err := faults.New(faults.Rules{Rules: []faults.Rule{{
					Action: faults.Answer, Answer: answer, Select: faults.Selector{Opcode: []string{"write"}, Nth: 1},
				}}}, "rdma0")
				must(t, err)
				b.Dev.Inject(x)
				must(t, rig.PostSend(a.qp, rig.Send{Op: queue.Write, Flags: queue.Signaled, SGEs: []memory.SGE{a.sge(0, 8)}, Addr: b.mr.Base, RKey: b.mr.Key}))
				expect(t, a, 0, want)
				if n := b.count(reason.FaultAnswer); n != 1 || x.Counts()[0] != 1 {
					t.Errorf("%d requests refused with %d hits, expected 1 of each", n, x.Counts()[0])
				}
			})
		})
	}
}

func TestFaultsWithOneSeedHitTheSamePackets(t *testing.T) {
	for name, r := range packetFaults {
		t.Run(name, func(t *testing.T) {
			var runs [2][]string
			for i := range runs {
				a, b := connected(t, qp.RC)
				x := set(t, a, r, faults.Sent)
				transfer(t, a, b, 20001)
				for _, h := range x.Hits() {
					h.Time = 0
					runs[i] = append(runs[i], h.What[:10]+h.What[10:len(h.What)-len(", queue pair 0x000000")]+fmt.Sprint(h.Match))
				}
			}
			if len(runs[0]) == 0 || !slices.Equal(runs[0], runs[1]) {
				t.Errorf("hits differ: %q and %q", runs[0], runs[1])
			}
		})
	}
}

// Datagrams come to harm as the rule says, and nothing repairs them.
func TestFaultsOfDatagrams(t *testing.T) {
	for _, x := range []struct {
		r    faults.Rule
		want int // of three
	}{
		{faults.Rule{Action: faults.Drop, Select: faults.Selector{Nth: 2}}, 2},
		{faults.Rule{Action: faults.Duplicate, Select: faults.Selector{Nth: 2}}, 4},
		{faults.Rule{Action: faults.Delay, Time: faults.Duration(time.Second), Select: faults.Selector{Nth: 2}}, 3},
		{faults.Rule{Action: faults.Reorder, Select: faults.Selector{Nth: 1}}, 3},
		{faults.Rule{Action: faults.Corrupt, ICRC: "right", Select: faults.Selector{Nth: 1}}, 3},
	} {
		t.Run(string(x.r.Action), func(t *testing.T) {
			a, b, to := aligned(t, qp.UD)
			in, err := faults.New(faults.Rules{Rules: []faults.Rule{x.r}}, "rdma0")
			must(t, err)
			a.Dev.Inject(in)
			for i := range 5 {
				b.recv(t, uint64(i), i*64, 64)
			}
			for i := range 3 {
				a.mem[i] = byte(i + 1)
				must(t, rig.PostSend(a.qp, rig.Send{ID: uint64(i), Op: queue.Send, SGEs: []memory.SGE{{Addr: a.sge(0, 1).Addr + uint64(i), Length: 1, LKey: a.mr.Key}}, UD: to}))
			}
			_, err = b.Wait(b.cq, x.want)
			must(t, err)
			for b.Net.Step() {
			}
			if n := b.cq.Ring().Len(); n != 0 {
				t.Errorf("%d datagrams more than %d", n, x.want)
			}
			if n := in.Counts()[0]; n != 1 {
				t.Errorf("%d hits, expected 1", n)
			}
		})
	}
}

// Hits of packets, completions, calls and times have comments, also where no packet is.
func TestFaultsAreCommentsOfCaptures(t *testing.T) {
	a, b := connected(t, qp.RC)
	var file bytes.Buffer
	w, err := capture.NewWriter(&file)
	must(t, err)
	defer a.Dev.Trace.Attach(w)()
	rules(t, a,
		faults.Rule{Action: faults.Drop, Select: faults.Selector{Direction: faults.Sent, Nth: 3}},
		faults.Rule{Action: faults.Withhold, Time: faults.Duration(time.Microsecond), Select: faults.Selector{Nth: 2}},
		faults.Rule{Action: faults.Fail, Errno: "ENOMEM"},
		faults.Rule{Action: faults.Event, Event: "SM_CHANGE"})
	transfer(t, a, b, 20001)
	_ = a.Dev.FailCall("ibv_reg_mr")
	must(t, w.Close())
	for _, want := range []string{"rule 1: drop match 3", "rule 2: withhold match 2", "rule 3: fail match 1", "rule 4: event match 1"} {
		if !bytes.Contains(file.Bytes(), []byte("fault "+want)) {
			t.Errorf("the capture has no comment of %s", want)
		}
	}
}

// Rules for packets that arrive see each of them from the moment they are set, whatever shortcuts a connection has
// taken before, and the shortcuts come back without rules.
func TestFaultsOfReceivedPacketsSeeEachPacketOfAConnectionThatRuns(t *testing.T) {
	const size, packets = 20001, 20 // of 1024 bytes
	everyRoute(t, func(t *testing.T, a, b *side) {
		x, y := live(t, a), live(t, b)
		for range 3 {
			transfer(t, a, b, size)
			for _, c := range []struct {
				family string
				at     *faults.Injector
				op     queue.Op
				n      int
				want   uint64
			}{
				{"write", y, queue.Write, size, packets},
				{"write", y, queue.Write, 8, 1},
				{"read request", y, queue.Read, size, 1},
				{"read response", x, queue.Read, size, packets},
				{"send", y, queue.Send, size, packets},
				{"atomic", y, queue.FetchAdd, 8, 1},
				{"atomic response", x, queue.FetchAdd, 8, 1},
			} {
				must(t, c.at.Set(faults.Rules{Rules: []faults.Rule{{
					Action: faults.Delay, Time: faults.Duration(time.Microsecond),
					Select: faults.Selector{Direction: faults.Received, Opcode: []string{c.family}},
				}}}))
				if c.op == queue.Send {
					b.recv(t, 9, 0, c.n)
				}
				must(t, rig.PostSend(a.qp, rig.Send{ID: 1, Op: c.op, Flags: queue.Signaled, SGEs: []memory.SGE{a.sge(0, c.n)}, Addr: b.mr.Base, RKey: b.mr.Key}))
				expect(t, a, 1, queue.Success)
				if c.op == queue.Send {
					expect(t, b, 9, queue.Success)
				}
				if n := c.at.Counts()[0]; n != c.want {
					t.Errorf("%s of %d bytes: %d packets hit, expected %d", c.family, c.n, n, c.want)
				}
				c.at.Clear()
			}
		}
	})
}

// live lets a side have rules later.
func live(t *testing.T, s *side) *faults.Injector {
	t.Helper()
	x, err := faults.New(faults.Rules{}, "rdma0")
	must(t, err)
	s.Dev.Inject(x)
	return x
}
