package faults

import (
	"encoding/json"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/wire/ib"
)

var peer = netip.MustParseAddr("127.0.0.9")

// write is a WRITE with 8 bytes of payload as its bytes.
func write(psn uint32) []byte {
	b := make([]byte, ib.RCWriteOnly.Info().Len+8+ib.ICRCLen)
	b[0] = byte(ib.RCWriteOnly)
	b[9], b[10], b[11] = byte(psn>>16), byte(psn>>8), byte(psn)
	return b
}

// send gives an injector n packets, a millisecond apart.
func send(x *Injector, n int) (verdicts []Verdict) {
	for i := range n {
		f := PacketFacts{Peer: peer, QPN: 17}
		f.Read(write(uint32(i)))
		verdicts = append(verdicts, x.Packet(time.Hour+time.Duration(i)*time.Millisecond, &f))
	}
	return verdicts
}

func injector(t *testing.T, seed uint64, rules ...Rule) *Injector {
	t.Helper()
	x, err := New(Rules{seed, rules}, "rdma0")
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func lost(verdicts []Verdict) (at []int) {
	for i, v := range verdicts {
		if v.Drop {
			at = append(at, i)
		}
	}
	return at
}

var random = Rule{Select: Selector{Probability: 0.1}, Action: Drop}

func TestInjectorSameSeedGivesSameHits(t *testing.T) {
	a, b, c := injector(t, 1, random), injector(t, 1, random), injector(t, 2, random)
	x, y, z := send(a, 1000), send(b, 1000), send(c, 1000)
	if !reflect.DeepEqual(x, y) || !reflect.DeepEqual(a.Hits(), b.Hits()) {
		t.Fatal("one seed gave different hits")
	}
	if slices.Equal(lost(x), lost(z)) {
		t.Fatal("two seeds gave equal hits")
	}
	if n := len(lost(x)); n < 60 || n > 140 {
		t.Fatalf("probability 0.1 hit %d of 1000", n)
	}
	if n := a.Counts(); n[0] != uint64(len(lost(x))) {
		t.Fatalf("counted %d hits, expected %d", n[0], len(lost(x)))
	}
}

func TestInjectorRulesAreIndependent(t *testing.T) {
	jitter := Rule{Select: Selector{Probability: 0.5}, Action: Delay, Time: Duration(time.Millisecond), Jitter: Duration(time.Second)}
	alone := send(injector(t, 3, random), 500)
	both := send(injector(t, 3, random, jitter, Rule{Action: Drop, Select: Selector{Nth: 499}}), 498)
	if !slices.Equal(lost(alone[:498]), lost(both)) {
		t.Fatal("another rule changed which packets a rule hits")
	}
}

func TestInjectorSelectsMatches(t *testing.T) {
	for _, x := range []struct {
		name string
		s    Selector
		want []int
	}{
		{"nth", Selector{Nth: 3}, []int{2}},
		{"every", Selector{Every: 4}, []int{3, 7}},
		{"count", Selector{Count: 2}, []int{0, 1}},
		{"window", Selector{From: Duration(3 * time.Millisecond), Until: Duration(5 * time.Millisecond)}, []int{3, 4, 5}},
		{"psn", Selector{PSN: []uint32{0, 8}}, []int{0, 8}},
		{"family", Selector{Opcode: []string{"write"}, Nth: 1}, []int{0}},
		{"opcode", Selector{Opcode: []string{"rc write only"}, Nth: 1}, []int{0}},
		{"other opcode", Selector{Opcode: []string{"rc write first", "ack", "nak", "cm", "mad"}}, nil},
		{"service", Selector{Service: []string{"ud", "uc"}}, nil},
		{"peer", Selector{Peer: "127.0.0.8"}, nil},
		{"peer", Selector{Peer: "127.0.0.9", Count: 1}, []int{0}},
		{"queue pair", Selector{QP: 18}, nil},
		{"size", Selector{MinSize: 9}, nil},
		{"size", Selector{MaxSize: 7}, nil},
		{"size", Selector{MinSize: 8, MaxSize: 8, Nth: 9}, []int{8}},
		{"direction", Selector{Direction: Received}, nil},
		{"device", Selector{Device: "rdma1"}, nil},
		{"message", Selector{Message: []string{"REQ"}}, nil},
	} {
		if got := lost(send(injector(t, 1, Rule{Select: x.s, Action: Drop}), 10)); !slices.Equal(got, x.want) {
			t.Errorf("%s: %+v hit %v, expected %v", x.name, x.s, got, x.want)
		}
	}
}

// A responder refuses a message at its first packet. It says that it is not ready at the packet that takes a
// receive. A rule that refuses must not count the others, at which nothing happens.
func TestAnswersHitThePacketsThatRespondersRefuse(t *testing.T) {
	access, rnr := injector(t, 1, Rule{Action: Answer, Answer: "remote access"}), injector(t, 1, Rule{Action: Answer, Answer: "rnr"})
	for o, want := range map[ib.Opcode]struct{ access, rnr int }{
		ib.RCSendFirst: {1, 1}, ib.RCSendMiddle: {}, ib.RCSendLast: {}, ib.RCSendLastImm: {}, ib.RCSendOnlyImm: {1, 1},
		ib.RCWriteFirst: {1, 1}, ib.RCWriteMiddle: {}, ib.RCWriteLast: {}, ib.RCWriteLastImm: {0, 1},
		ib.RCWriteOnly: {1, 1}, ib.RCWriteOnlyImm: {1, 1}, ib.RCWriteLastImm.Of(ib.XRC): {0, 1}, ib.UCWriteLastImm: {},
		ib.RCReadRequest: {1, 1}, ib.RCReadResponseOnly: {},
	} {
		b := make([]byte, o.Info().Len+8+ib.ICRCLen)
		b[0] = byte(o)
		f := PacketFacts{Peer: peer, Received: true}
		f.Read(b)
		if n, m := access.Packet(0, &f).Hits, rnr.Packet(0, &f).Hits; n != want.access || m != want.rnr {
			t.Errorf("%v: found %d hits and %d of rnr, expected %+v", o, n, m, want)
		}
	}
}

func TestInjectorTellsAcknowledgesApart(t *testing.T) {
	for name, want := range map[string][]bool{"ack": {true, false, false}, "nak": {false, true, true}} {
		x := injector(t, 1, Rule{Select: Selector{Opcode: []string{name}}, Action: Drop})
		for i, s := range []ib.Syndrome{ib.ACKNoCredits, ib.NAKSequence, ib.RNRNAK | 1} {
			b := make([]byte, ib.RCAcknowledge.Info().Len+ib.ICRCLen)
			b[0], b[ib.BTHLen] = byte(ib.RCAcknowledge), byte(s)
			var f PacketFacts
			f.Read(b)
			if got := x.Packet(0, &f).Drop; got != want[i] {
				t.Errorf("%s of syndrome %#x: hit %v, expected %v", name, s, got, want[i])
			}
		}
	}
}

func TestInjectorDecidesAboutObjects(t *testing.T) {
	x := injector(t, 1,
		Rule{Select: Selector{Call: []string{"ibv_reg_mr"}, Nth: 2}, Action: Fail, Errno: "ENOMEM"},
		Rule{Select: Selector{Completion: []string{"recv"}}, Action: Complete, Status: "loc_len_err"},
		Rule{Select: Selector{Message: []string{"REQ"}}, Action: Reject},
		Rule{Select: Selector{From: Duration(time.Second), Until: Duration(5 * time.Second), Count: 2}, Action: PortDown})
	x.Call(0, "ibv_alloc_pd")
	x.Call(0, "ibv_reg_mr")
	if e := x.Call(0, "ibv_reg_mr"); e.Action != Fail || e.Errno != syscall.ENOMEM {
		t.Errorf("call: %+v", e)
	}
	if e := x.Completion(0, CompletionFacts{Opcode: 128}); e.Action != Complete || e.Status != 1 {
		t.Errorf("completion: %+v", e)
	}
	if e := x.Completion(0, CompletionFacts{Opcode: 1}); e.Action != "" {
		t.Errorf("completion of a WRITE: %+v", e)
	}
	if e := x.Connection(0, "REQ", "127.0.0.9"); e.Action != Reject || e.Reason != 28 {
		t.Errorf("connection: %+v", e)
	}
	var at []time.Duration
	for now := time.Duration(0); ; {
		e, next := x.Due(now)
		if e.Action == PortDown {
			at = append(at, now)
		}
		if next < 0 {
			break
		}
		now = next
	}
	if want := []time.Duration{time.Second, 3 * time.Second}; !slices.Equal(at, want) {
		t.Errorf("port went down at %v, expected %v", at, want)
	}
}

func TestRulesRefuseWhatIsWrong(t *testing.T) {
	for _, x := range []struct {
		r    Rule
		want string
	}{
		{Rule{Action: "dorp"}, `rule 1: action "dorp": expected one of drop, delay`},
		{Rule{Action: Delay}, `rule 1: action "delay": expected time beside it`},
		{Rule{Action: Drop, Behind: 2}, `rule 1: behind "2": expected no behind of action drop`},
		{Rule{Action: Drop, Select: Selector{Opcode: []string{"writing"}}}, `opcode "writing": expected one of ack`},
		{Rule{Action: Drop, Select: Selector{Probability: 1.5}}, `probability "1.5": expected a number above 0`},
		{Rule{Action: Delay, Time: -1}, `time "-1ns": expected nothing negative`},
		{Rule{Action: Fail, Errno: "EWHAT"}, `errno "EWHAT": expected one of`},
	} {
		_, err := New(Rules{Rules: []Rule{x.r}}, "rdma0")
		if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, expected %s", err, x.want)
		}
	}
}

func TestParseReadsWhatMarshalWrites(t *testing.T) {
	want := Rules{7, []Rule{random, {Action: Delay, Time: Duration(time.Millisecond)}}}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Parse(b); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%s became %+v, %v", b, got, err)
	}
}

func TestClearEndsRules(t *testing.T) {
	x := injector(t, 1, Rule{Action: Drop})
	changes := 0
	x.Changed = func() { changes++ }
	send(x, 2)
	x.Clear()
	if x.OnSent() || len(lost(send(x, 3))) > 0 || len(x.Hits()) != 2 || changes != 1 {
		t.Fatalf("rules stayed: %v, %d changes", x.Hits(), changes)
	}
}
