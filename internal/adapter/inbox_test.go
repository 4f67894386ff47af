package adapter

import (
	"bytes"
	"testing"
)

func TestPacketsComeInOrderWithTheirBytes(t *testing.T) {
	var q inbox
	want := [][]byte{[]byte("first"), {}, []byte("third one")}
	for round := range 2 {
		for i, b := range want {
			if !q.put(arrival{TOS: uint8(i), TTL: uint8(round)}, b) {
				t.Fatalf("no room for packet %d", i)
			}
		}
		n := 0
		for p, b := range q.all() {
			if int(p.TOS) != n || int(p.TTL) != round || !bytes.Equal(b, want[n]) || cap(b) != len(b) {
				t.Errorf("packet %d: %+v %q", n, p, b)
			}
			n++
		}
		if n != len(want) {
			t.Errorf("%d packets, expected %d", n, len(want))
		}
		q.clear()
	}
	for range q.all() {
		t.Error("a packet after Clear")
	}
}

func TestPutStopsAtTheLimit(t *testing.T) {
	var q inbox
	b := make([]byte, inboxLimit/4)
	for i := range 4 {
		if !q.put(arrival{}, b) {
			t.Fatalf("no room for quarter %d", i)
		}
	}
	if q.put(arrival{}, b[:1]) {
		t.Error("took a byte beyond the limit")
	}
	q.clear()
	if !q.put(arrival{}, b) {
		t.Error("no room after Clear")
	}
}
