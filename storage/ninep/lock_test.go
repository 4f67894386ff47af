package ninep

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
)

// TestLocksAreThoseOfBytes compares locks with those of a table with an entry for each byte.
func TestLocksAreThoseOfBytes(t *testing.T) {
	const bytes = 24
	r := rand.New(rand.NewPCG(1, 2))
	owners := make([]owner, 3)
	for i := range owners {
		owners[i] = owner{session: new(session), client: "host"}
	}
	files := []*file{new(file), new(file), new(file)}
	type state struct{ read, write bool }
	var l locks
	var table [3][bytes]state
	for step := range 20000 {
		who := r.IntN(3)
		first := r.Uint64N(bytes)
		x := lock{owner: owners[who], by: files[who], first: first, last: first + r.Uint64N(bytes-first), write: r.IntN(2) == 0}
		unlock := r.IntN(3) == 0
		want := true
		for i, other := range table {
			for b := x.first; b <= x.last && !unlock && i != who; b++ {
				if other[b].write || x.write && other[b].read {
					want = false
				}
			}
		}
		if r.IntN(50) == 0 {
			l.end("file", files[who])
			table[who] = [bytes]state{}
			continue
		}
		ok, err := l.set("file", x, unlock)
		if ok != want || err != nil {
			t.Fatalf("step %d: expected %v, found %v, %v", step, want, ok, err)
		}
		for b := x.first; b <= x.last && ok; b++ {
			table[who][b] = state{!unlock && !x.write, !unlock && x.write}
		}
		for i, o := range owners {
			count := 0
			var found [bytes]state
			for _, held := range l.files["file"] {
				if held.owner == o {
					count++
					for b := held.first; b <= held.last; b++ {
						if found[b] != (state{}) {
							t.Fatalf("step %d: byte %d is locked twice", step, b)
						}
						found[b] = state{!held.write, held.write}
					}
				}
			}
			if found != table[i] || count != o.session.locks {
				t.Fatalf("step %d: owner %d: expected %v, found %v; %d locks, counted %d", step, i, table[i], found, count, o.session.locks)
			}
		}
	}
	for _, f := range files {
		l.end("file", f)
	}
	if l.count != 0 || len(l.files) != 0 || slices.ContainsFunc(owners, func(o owner) bool { return o.session.locks != 0 }) {
		t.Errorf("locks are left: %v", l.files)
	}
}

func TestLocksOfClientAreLimited(t *testing.T) {
	var l locks
	o := owner{session: new(session)}
	f := new(file)
	for i := range uint64(maxLocks) {
		if ok, err := l.set(fmt.Sprint(i%256), lock{owner: o, by: f, first: 2 * i, last: 2 * i}, false); !ok || err != nil {
			t.Fatal(i, ok, err)
		}
	}
	if _, err := l.set("0", lock{owner: o, by: f, first: 1 << 40, last: math.MaxUint64}, false); !errors.Is(err, syscall.ENOLCK) {
		t.Errorf("one more: %v", err)
	}
	if ok, err := l.set("0", lock{owner: owner{session: new(session)}, by: f, first: 1 << 40, last: math.MaxUint64}, false); !ok || err != nil {
		t.Errorf("another client: %v, %v", ok, err)
	}
	if ok, err := l.set("0", lock{owner: o, last: math.MaxUint64}, true); !ok || err != nil {
		t.Errorf("an unlock: %v, %v", ok, err)
	}
}

// A client can attach again and again.
func TestLocksOfAllAttachmentsAreLimited(t *testing.T) {
	var l locks
	f := new(file)
	set := 0
	for i := range uint64(2 * maxAllLocks) {
		o := owner{session: new(session)}
		ok, err := l.set(i%1024, lock{owner: o, by: f, first: i, last: i}, false)
		if errors.Is(err, syscall.ENOLCK) {
			break
		}
		if !ok || err != nil {
			t.Fatal(i, ok, err)
		}
		set++
	}
	if set != maxAllLocks {
		t.Errorf("expected %d locks, found %d", maxAllLocks, set)
	}
	for key := range uint64(1024) {
		l.end(key, f)
	}
	if l.count != 0 {
		t.Errorf("%d locks are counted at the end", l.count)
	}
}
