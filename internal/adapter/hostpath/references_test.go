package hostpath

import (
	"slices"
	"testing"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// A region that is taken away revokes the references to its own memory and no others.
func TestRegionTakesBackReferencesToItsMemoryAlone(t *testing.T) {
	table := memory.NewTable()
	for _, c := range []struct {
		name        string
		from, to    int // of the region in mapped
		wait        bool
		got, revoke int
	}{
		{name: "memory behind the payloads", from: 30000, to: 40000, got: 2},
		{name: "no memory", from: 0, to: 0, got: 2},
		{name: "the first payload's last byte", from: 8999, to: 9000, revoke: 1},
		{name: "the second payload", from: 0, to: 20000, revoke: 1},
		{name: "payloads that the peer has used", from: 0, to: 20000, wait: true, got: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := table.Register(1, mapped[c.from:c.to], 1<<20, qp.RemoteRead)
			if err != nil {
				t.Fatal(err)
			}
			a, b := newPair(t)
			a.send(t, 9000, true)
			a.send(t, 20000, true)
			if c.wait {
				for b.Receive(0) {
				}
			}
			a.RevokeRegion(r)
			for b.Receive(0) {
			}
			if len(b.got) != c.got || a.revoked != c.revoke {
				t.Errorf("%d payloads arrived, expected %d; revoked %d times, expected %d", len(b.got), c.got, a.revoked, c.revoke)
			}
			if c.revoke == 0 && len(b.refused) > 0 || c.revoke > 0 && !slices.Contains(b.refused, reason.HostRevoked) {
				t.Errorf("refused %v", b.refused)
			}
		})
	}
}

// A reference that the peer reads by the key of a region ends with that region, and not with another of the
// same memory.
func TestRegionLeavesReferencesByKeysOfOthers(t *testing.T) {
	table := memory.NewTable()
	var regions [2]*memory.Region
	for i := range regions {
		r, err := table.Register(1, mapped[:9000], 1<<20, qp.RemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		regions[i] = r
	}
	for i, r := range regions {
		a, b := newPair(t)
		s := a.Find(place, 5).To(5)
		s.Longest(1024)
		s.Post(&Item{Header: []byte("header"), Pieces: [][]byte{mapped[:9000]}, Len: 9000, Stable: true, Region: regions[0]})
		a.Flush()
		a.RevokeRegion(r)
		for b.Receive(0) {
		}
		if got, revoked := len(b.got), a.revoked; got != i || revoked != 1-i {
			t.Errorf("region %d of the same memory: %d payloads arrived, revoked %d times", i, got, revoked)
		}
	}
}

// References that the peer has used are forgotten, however many there were; the others are not.
func TestReferencesAreFoundWhileTheyAreUnused(t *testing.T) {
	a, b := newPair(t)
	s := a.Find(place, 5).To(5)
	other := make([]byte, 100)
	for i := range 20 * hostmem.Slots {
		a.send(t, 9000, true)
		if i%300 == 299 {
			for b.Receive(0) {
			}
			b.got = nil
			if n := s.references.last(s.Consumed(), mapped, 0); n != 0 {
				t.Fatalf("message %d refers to memory, and the peer has used all %d", n, s.Sent())
			}
			continue
		}
		if n := s.references.last(s.Consumed(), mapped[8990:], 0); n != s.Sent() {
			t.Fatalf("message %d is the last that refers to memory, expected %d", n, s.Sent())
		}
		if n := s.references.last(s.Consumed(), other, 0); n != 0 {
			t.Fatalf("message %d refers to memory that was not sent", n)
		}
	}
	if n := cap(s.references); n > 2*hostmem.Slots {
		t.Errorf("memory of %d references, expected at most %d", n, 2*hostmem.Slots)
	}
}
