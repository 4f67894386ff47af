package adapter

import "testing"

func TestBulkNapsInLongStreamsOnly(t *testing.T) {
	var b bulk
	b.add(bulkAfter - 1)
	if b.dry() {
		t.Error("a nap in what may be a message that somebody waits for")
	}
	b.add(1)
	for range 3 {
		if !b.dry() {
			t.Fatal("no nap in a long stream")
		}
		b.add(bulkLeast)
	}
	if !b.dry() {
		t.Fatal("no nap in a long stream")
	}
	b.add(bulkLeast - 1)
	if b.dry() || b.dry() {
		t.Error("a nap after one that brought little: the stream is over")
	}
	b.add(bulkAfter - 1)
	if b.dry() {
		t.Error("a nap before the next stream is long")
	}
}
