package fabric

import (
	"bytes"
	"testing"

	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// native returns a packet of n bytes to a LID, with a GRH if global.
func native(n int, dlid ib.LID, sl uint8, global bool, fill byte) []byte {
	b := bytes.Repeat([]byte{fill}, n)
	h := ib.LRH{SL: sl, Next: ib.LocalBTH, DLID: dlid, SLID: 7, Words: uint16(n / 4)}
	if global {
		h.Next = ib.GlobalGRH
		g := ib.GRH{NextHeader: ib.NextBTH, PayLen: uint16(n - ib.LRHLen - ib.GRHLen)}
		g.Put(b[ib.LRHLen:])
	}
	h.Put(b)
	return b
}

func TestOnlyPacketsWithTheSameHeadersFollow(t *testing.T) {
	local, global := native(128, 3, 1, false, 1), native(128, 3, 1, true, 1)
	change := func(p []byte, at int, bit byte) []byte {
		p = bytes.Clone(p)
		p[at] ^= bit
		return p
	}
	for _, c := range []struct {
		name         string
		packet, next []byte
		want         bool
	}{
		{"same", local, local, true},
		{"shorter", local, native(64, 3, 1, false, 9), true},
		{"longer", native(64, 3, 1, false, 1), local, false},
		{"other destination", local, native(128, 4, 1, false, 1), false},
		{"other service level", local, native(128, 3, 2, false, 1), false},
		{"other source", local, change(local, 7, 1), false},
		{"other lane", local, change(local, 0, 0x10), false},
		{"wrong length", local, change(local, 5, 1), false},
		{"cut", local, local[:124], false},
		{"no LRH", local, local[:4], false},
		{"global behind local", local, global, false},
		{"global", global, global, true},
		{"global and shorter", global, native(96, 3, 1, true, 1), true},
		{"other GID", global, change(global, ib.LRHLen+39, 1), false},
		{"other hop limit", global, change(global, ib.LRHLen+7, 1), false},
		{"other traffic class", global, change(global, ib.LRHLen, 1), false},
		{"wrong length in the GRH", global, change(global, ib.LRHLen+5, 4), false},
		{"too short for a GRH", global, native(40, 3, 1, false, 0x60), false},
	} {
		if got := Follows(c.packet, c.next); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// Packets of one message arrive together if their headers are equal, whatever the other side
// has put into one message.
func TestPacketsArriveInBatches(t *testing.T) {
	l, far, _ := pair(t)
	const size = 1024
	var want [][]byte
	for i := range 20 {
		want = append(want, native(size, 3, 0, false, byte(i)))
	}
	want = append(want, native(size, 4, 0, false, 20), native(size, 4, 0, false, 21), native(64, 4, 0, false, 22))
	all := bytes.Join(want, nil)
	if !far.Put(0, size, want, len(all)) {
		t.Fatal("no room")
	}
	var rx link.Rx
	var got []byte
	batches := 0
	for len(got) < len(all) {
		if ok, err := l.Receive(&rx); !ok || err != nil {
			t.Fatal(ok, err)
		}
		first := rx.Data[:rx.Size]
		for b := rx.Data; len(b) > 0; b = b[min(rx.Size, len(b)):] {
			if !Follows(first, b[:min(rx.Size, len(b))]) {
				t.Fatalf("batch %d has packets with other headers", batches)
			}
		}
		got = append(got, rx.Data...)
		batches++
	}
	if !bytes.Equal(got, all) || batches < 2 || batches > 4 {
		t.Errorf("%d batches, %d of %d bytes", batches, len(got), len(all))
	}
	if ok, _ := l.Receive(&rx); ok {
		t.Error("received more than was sent")
	}
}

// A sleeper is woken once, and only for the levels that it waits for.
func TestArmedLevelsRingOnce(t *testing.T) {
	l, far, _ := pair(t)
	send := func(sl uint8) {
		p := packet(sl, 100)
		if !l.end.PutOne(sl, p) {
			t.Fatal("no room")
		}
	}
	if !far.Arm(1 << 3) {
		t.Fatal("not empty")
	}
	send(3)
	if l.end.Sleeps(3) {
		t.Error("rang for a level that was excepted")
	}
	send(5)
	if !l.end.Sleeps(5) {
		t.Error("did not ring")
	}
	send(5)
	if l.end.Sleeps(5) || l.end.Sleeps(6) {
		t.Error("rang twice")
	}
	if far.Arm(1 << 3) {
		t.Error("armed although level 5 has messages")
	}
	if levels := far.Waiting(); levels != 1<<3|1<<5 {
		t.Errorf("levels %b", levels)
	}
	var b Batch
	for _, sl := range []uint8{3, 5, 5} {
		if ok, fault := far.Next(sl, &b); !ok || fault.Reason != reason.None {
			t.Fatal(ok, fault)
		}
		far.Release(sl)
	}
	if !far.Arm(0) {
		t.Error("not empty at the end")
	}
	far.Disarm()
	if send(0); l.end.Sleeps(0) {
		t.Error("rang for somebody who is awake")
	}
}

// An index that announces missing messages does not keep the receiver polling.
func TestIndexWithoutMessages(t *testing.T) {
	l, far, _ := pair(t)
	far.sent.published[2].Add(3)
	var rx link.Rx
	if ok, err := l.Receive(&rx); ok || err != nil {
		t.Fatal(ok, err)
	}
	if !l.end.Arm(0) {
		t.Error("still expects messages")
	}
}
