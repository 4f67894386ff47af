package memory

import (
	"testing"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

func TestVoidRegionHasItsLengthAndLittleMemory(t *testing.T) {
	x := NewTable()
	const length, base = 1 << 40, 0x1000
	r, err := x.RegisterVoid(3, length, base, qp.LocalWrite|qp.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	if r.Len() != length || len(r.mem) != scratch {
		t.Fatalf("%d bytes, %d of memory", r.Len(), len(r.mem))
	}
	data := make([]byte, scratch)
	for _, at := range []uint64{0, 1, scratch - 1, scratch, length / 2, length - scratch} {
		if d := r.Put(base+at, data); d.Reason != reason.None {
			t.Errorf("at %d: %v", at, d)
		}
		if b := r.Bytes(base+at, len(data)); len(b) != len(data) || cap(b) != len(b) {
			t.Errorf("at %d: %d bytes", at, len(b))
		}
		if d := r.CheckRemote(3, 0, base+at, scratch, qp.RemoteWrite); d.Reason != reason.None {
			t.Errorf("at %d: %v", at, d)
		}
	}
	for _, at := range []uint64{length - scratch + 1, length, length + 1, 1<<64 - base} {
		if d := r.Put(base+at, data); d.Reason != reason.KeyBounds {
			t.Errorf("at %d: %v", at, d)
		}
	}
	if b := r.Bytes(base, scratch+1); b != nil {
		t.Errorf("%d bytes at once", len(b))
	}
	small, err := x.RegisterVoid(3, 10, 0, 0)
	if err != nil || small.Len() != 10 || small.Bytes(0, 10) == nil || small.Bytes(1, 10) != nil {
		t.Errorf("a small region: %d bytes, %v", small.Len(), err)
	}
}
