package recorder

import (
	"net/netip"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// mapped is a device's recorders in a Memory.
type mapped struct {
	*Memory
	r        Recorder
	refusals Refusals
	pairs    Pairs
}

func newMapped() *mapped {
	m := &mapped{Memory: &SlotIn(make([]byte, SlotSize)).Memory}
	m.Use(time.Unix(100, 5), &m.r, &m.refusals, &m.pairs)
	return m
}

func TestMemoryHasWhatTheRecordersHave(t *testing.T) {
	m := newMapped()
	peer := netip.MustParseAddr("127.0.0.9")
	m.pairs.Add(5)
	m.pairs.Connect(5, peer)
	m.pairs.Connect(6, netip.MustParseAddr("fe80::1"))
	for i := range 600 {
		now := time.Duration(i) * time.Microsecond
		m.r.Packet(Sent, now, 5, packet(ib.RCWriteOnly, psn.PSN(2*i)), 8, 1)
		m.r.Add(Record{Kind: Completed, Time: now, QPN: 5, WRID: uint64(i), Status: uint8(queue.RemAccessErr), Said: reason.Detail{Reason: reason.KeyAccess}})
		m.refusals.Add(now, uint32(i%7), reason.Detail{Reason: reason.KeyBounds, Expected: 1, Found: uint64(i)})
		m.refusals.Add(now, 9, reason.Detail{Reason: reason.PacketQPN})
	}
	own, lost := m.r.Records()
	others, n := m.refusals.Records()
	s, unsaved := m.Unsaved()
	want := Merge(own, others)
	if !unsaved || !s.Tells() || s.Latest() != 5 || s.Lost != lost+n || s.Made != m.r.Made()+m.refusals.Made() || !s.Zero.Equal(time.Unix(100, 5)) || len(s.Records) != len(want) {
		t.Errorf("%d records, %d lost of %d since %v, expected %d and %d", len(s.Records), s.Lost, s.Made, s.Zero, len(want), lost+n)
	}
	count := map[Kind]int{}
	for _, x := range s.Records {
		count[x.Kind]++
	}
	if count[Sent] != Size || count[Completed] != ringSize || count[Refused] != ringSize+1 {
		t.Errorf("kinds %v", count)
	}
	if last := s.Records[len(s.Records)-1]; last.Time != 599*time.Microsecond {
		t.Errorf("the last record is of %v", last.Time)
	}
	if p := map[uint32]netip.Addr{5: peer, 6: netip.MustParseAddr("fe80::1")}; !reflect.DeepEqual(s.Peers, p) {
		t.Errorf("peers %v, expected %v", s.Peers, p)
	}
	m.Saved(s.Made)
	if _, unsaved := m.Unsaved(); unsaved {
		t.Error("what is in files is written again")
	}
	if m.Left() {
		t.Error("left before Leave")
	}
	if m.Leave(); !m.Left() {
		t.Error("not left after Leave")
	}
}

// What is in cache lines stays there, and all is within memory that has no pointers.
func TestMemoryIsLaidOutInCacheLines(t *testing.T) {
	const line = 64
	var m Slot
	if unsafe.Sizeof(run{}) != line || unsafe.Sizeof(pair{}) != line {
		t.Errorf("sizes %d, %d", unsafe.Sizeof(run{}), unsafe.Sizeof(pair{}))
	}
	if a, b := unsafe.Offsetof(m.runs), unsafe.Offsetof(m.Memory.pairs); a%line != 0 || b%line != 0 {
		t.Errorf("runs at %d, pairs at %d", a, b)
	}
	var walk func(reflect.Type)
	walk = func(x reflect.Type) {
		switch x.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map, reflect.String, reflect.Interface, reflect.Func, reflect.Chan:
			t.Errorf("%v has a pointer", x)
		case reflect.Array:
			walk(x.Elem())
		case reflect.Struct:
			for f := range x.Fields() {
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[Memory]())
}

// Changes of state that the program asks for, refused calls and forged packets explain no end.
func TestOnlyPacketsAndFailuresExplainAnEnd(t *testing.T) {
	failed := reason.Detail{Reason: reason.RetryExceeded}
	for name, x := range map[string]struct {
		do   func(m *mapped)
		want bool
	}{
		"nothing":      {func(*mapped) {}, false},
		"states":       {func(m *mapped) { m.r.Add(Record{Kind: State, QPN: 300, To: uint8(qp.RTS)}) }, false},
		"refused call": {func(m *mapped) { m.refusals.Add(1, 0, failed) }, false},
		"forged":       {func(m *mapped) { m.refusals.Add(1, 300, reason.Detail{Reason: reason.PacketQPN}) }, false},
		"failure":      {func(m *mapped) { m.r.Add(Record{Kind: State, QPN: 300, To: uint8(qp.Err), Detail: failed}) }, true},
		"completion":   {func(m *mapped) { m.r.Add(Record{Kind: Completed, QPN: 300}) }, true},
		"refusal":      {func(m *mapped) { m.refusals.Add(1, 300, failed) }, true},
		"packet":       {func(m *mapped) { m.r.Packet(Received, 1, 300, packet(ib.RCWriteOnly, 1), 8, 1) }, true},
	} {
		m := newMapped()
		x.do(m)
		if s, _ := m.Unsaved(); s.Tells() != x.want || x.want && s.Latest() != 300 {
			t.Errorf("%s: tells %v of queue pair %d", name, s.Tells(), s.Latest())
		}
	}
}

// A record whose making was interrupted is left out, and others stay.
func TestTornRecordsAreLeftOut(t *testing.T) {
	m := newMapped()
	for i := range 3 {
		m.r.Packet(Sent, time.Duration(i), 5, packet(ib.RCWriteOnly, psn.PSN(2*i)), 8, 1)
		m.r.Add(Record{Kind: State, Time: time.Duration(i)})
	}
	m.runs.n++
	m.runs.kept[1].count = 0
	m.other.n = ^uint64(0) - 1
	m.other.kept[0].detail.Reason = 1 << 31
	m.other.kept[1].kind = Sent
	s, _ := m.Unsaved()
	if len(s.Records) != 3 {
		t.Errorf("%d records, expected 2 of packets and one of a state: %+v", len(s.Records), s.Records)
	}
}

func TestPairsOfTwoProcesses(t *testing.T) {
	m := newMapped()
	theirs := m.Pairs()
	why, said := reason.Detail{Reason: reason.RetryExceeded, Expected: 7, Found: 8}, reason.Detail{Reason: reason.CMEnded, Expected: 1, Found: 2}
	theirs.Leave(5, said) // no such queue pair
	m.pairs.Add(5)
	if theirs.Why(5) != (reason.Detail{}) || m.pairs.Said(5) != (reason.Detail{}) {
		t.Error("something is known of a new queue pair")
	}
	m.pairs.Fail(5, why)
	theirs.Leave(5, said)
	if theirs.Why(5) != why || m.pairs.Said(5) != said {
		t.Errorf("found %v and %v", theirs.Why(5), m.pairs.Said(5))
	}
	m.pairs.Forget(5)
	if theirs.Why(5) != (reason.Detail{}) || m.pairs.Said(5) != (reason.Detail{}) {
		t.Error("a reset queue pair is remembered")
	}
	for i := range uint32(pairsSize) {
		m.pairs.Add(10 + i)
	}
	if theirs.find(5) != nil {
		t.Error("the oldest queue pair is not forgotten")
	}
	if m.pairs.Fail(5, why); theirs.Why(5) != why {
		t.Errorf("found %v of a queue pair that was forgotten", theirs.Why(5))
	}
	m.pairsMade = ^uint64(0)
	m.Memory.pairs[3].why = 1 << 30
	theirs.Why(m.Memory.pairs[3].qpn)
	theirs.Leave(4711, said)
	theirs.Peers()
}

func TestPairsGrowWithQueuePairs(t *testing.T) {
	var p Pairs
	p.Forget(1)
	if d := p.Why(1); d != (reason.Detail{}) {
		t.Error(d)
	}
	for i := range uint32(3 * pairsSize) {
		p.Add(i + 1)
		p.Connect(i+1, netip.AddrFrom4([4]byte{127, 0, byte(i >> 8), byte(i)}))
	}
	peers := p.Peers()
	if len(peers) != pairsSize || len(p.ring.kept) != pairsSize || !peers[3*pairsSize].IsValid() || peers[2*pairsSize].IsValid() {
		t.Errorf("%d peers of %d entries", len(peers), len(p.ring.kept))
	}
}
