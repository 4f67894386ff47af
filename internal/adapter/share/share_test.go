package share

import (
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/adapter/schedule"
	"softrdma/internal/machine"
)

var at = netip.MustParseAddrPort("192.0.2.1:4791")

// A sender is a queue pair that wants to have many bytes in flight.
type sender struct {
	Member
	port   machine.Port
	entry  schedule.Entry
	flight int64
}

func (s *sender) InFlight() int64                             { return s.flight }
func (s *sender) Next(time.Duration) (packets int, more bool) { return 0, false }
func (s *sender) Expire(time.Duration)                        {}

// Deadline implements schedule.Task.
func (s *sender) Deadline() time.Duration { return s.Member.Deadline() }

// A rig has senders to one peer, under a limit of 1000 bytes.
type rig struct {
	Table
	tasks schedule.Queue
	now   time.Duration
	all   []*sender
}

func newRig(senders int) *rig {
	r := &rig{}
	r.Table.Init(&r.tasks, func() time.Duration { return r.now })
	for range senders {
		s := &sender{}
		s.port.Window = 1 << 20
		s.entry.Init(s)
		s.Member.Init(&s.port, &s.entry)
		r.Join(&s.Member, at, 1000)
		r.all = append(r.all, s)
	}
	return r
}

// try lets a sender ask for room for so many bytes, and reports whether it got it.
func (r *rig) try(i int, bytes int64) bool {
	s := r.all[i]
	ok := s.port.Admits(bytes, 0)
	if ok {
		s.flight = bytes
	}
	r.Count(&s.Member, s)
	return ok
}

// turns returns the senders whose turn it is.
func (r *rig) turns() (list []int) {
	for e := r.tasks.Pop(); e != nil; e = r.tasks.Pop() {
		for i, s := range r.all {
			if e == &s.entry {
				list = append(list, i)
			}
		}
	}
	return list
}

func (r *rig) expect(t *testing.T, what string, senders ...int) {
	t.Helper()
	got := r.turns()
	if len(got) != len(senders) {
		t.Fatalf("%s: turn of %v, expected %v", what, got, senders)
	}
	for i := range got {
		if got[i] != senders[i] {
			t.Fatalf("%s: turn of %v, expected %v", what, got, senders)
		}
	}
}

func TestRefusedSendersGetTheirTurnsInOrder(t *testing.T) {
	r := newRig(4)
	if !r.try(0, 900) || r.try(1, 200) || r.try(2, 200) || r.try(1, 200) {
		t.Fatal("not the first sender alone was admitted")
	}
	r.expect(t, "nothing arrived")
	r.try(0, 850)
	r.expect(t, "some of it arrived", 1)
	if r.try(1, 200) {
		t.Error("1050 bytes were admitted")
	}
	r.expect(t, "refused again")
	r.try(0, 0)
	r.expect(t, "all of it arrived", 2)
	r.try(2, 200)
	r.expect(t, "it found room", 1)
}

func TestBytesWithoutProgressAreForgotten(t *testing.T) {
	r := newRig(2)
	r.try(0, 1000)
	r.now = time.Second
	r.try(1, 200)
	w := r.all[1]
	if d := r.tasks.NextDue(); d != r.now+stallTime || w.Deadline() != d || r.all[0].Deadline() != schedule.Never {
		t.Fatalf("due at %v, the sender that waits at %v, expected %v", d, w.Deadline(), r.now+stallTime)
	}
	r.now += stallTime / 2
	r.Expire(r.now, &w.Member)
	r.expect(t, "half of the time")
	r.now += stallTime / 2
	r.Expire(r.now, &w.Member)
	r.expect(t, "no progress", 1)
	if !r.try(1, 200) {
		t.Error("what made no progress still counts")
	}
}

func TestLeavingMakesRoomAndEndsTheShare(t *testing.T) {
	r := newRig(3)
	r.try(0, 1000)
	r.try(1, 200)
	r.try(2, 200)
	r.Leave(&r.all[1].Member) // the watcher
	if r.all[2].Deadline() == schedule.Never {
		t.Error("nobody watches for stalls")
	}
	r.turns()
	r.try(2, 200)
	r.Leave(&r.all[0].Member)
	r.expect(t, "the holder of all left", 2)
	if o := r.all[2].Others(); o != 0 {
		t.Errorf("%d bytes of others that left", o)
	}
	r.Leave(&r.all[2].Member)
	r.Leave(&r.all[2].Member)
	if n := len(r.peers); n != 0 {
		t.Errorf("%d shares are left", n)
	}
}
