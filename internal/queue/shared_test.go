package queue

import (
	"testing"
	"unsafe"

	"softrdma/internal/memory"
)

func TestRingOnGivenMemoryStaysInIt(t *testing.T) {
	mem := func(n int) []byte {
		words := make([]uint64, n/8+2)
		words[n/8], words[n/8+1] = 0x5a5a5a5a5a5a5a5a, 0x5a5a5a5a5a5a5a5a
		return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), n+16)
	}
	s, r, c := mem(SendRingLen(5, 3, 100)), mem(RecvRingLen(5, 3)), mem(CompletionRingLen(5))
	send, recv, comp := SendRingOn(s, 5, 3, 100), RecvRingOn(r, 5, 3), CompletionRingOn(c, 5)
	for i := range uint32(16) {
		*send.At(i) = SendWQE{WRID: 1}
		for k := range send.SGERoom(i) {
			send.SGERoom(i)[k] = memory.SGE{Addr: 1}
		}
		copy(send.InlineRoom(i), make([]byte, 100))
		*recv.At(i) = RecvWQE{WRID: 2}
		for k := range recv.SGERoom(i) {
			recv.SGERoom(i)[k] = memory.SGE{Addr: 2}
		}
		*comp.At(i) = CQE{WRID: 3}
	}
	for name, b := range map[string][]byte{"send": s, "receive": r, "completion": c} {
		if string(b[len(b)-16:]) != "ZZZZZZZZZZZZZZZZ" {
			t.Errorf("the %s ring wrote beyond its end", name)
		}
		h := (*header)(unsafe.Pointer(&b[0]))
		if h.indexMask != 7 {
			t.Errorf("the %s ring has a mask of %d", name, h.indexMask)
		}
	}
	send.Publish(3)
	if p := (*header)(unsafe.Pointer(&s[0])).producer.Load(); p != 3 {
		t.Errorf("the index was published elsewhere: found %d", p)
	}
}

// Memory that another process has lent is freed with its queue pair. Requests in the rings,
// and those already removed, are still executed afterwards.
func TestDetachedRingKeepsItsEntries(t *testing.T) {
	mem := func(n int) []byte {
		words := make([]uint64, n/8)
		return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), n)
	}
	s, r := mem(SendRingLen(5, 3, 100)), mem(RecvRingLen(5, 3))
	send, recv := SendRingOn(s, 5, 3, 100), RecvRingOn(r, 5, 3)
	for _, step := range []struct{ from, to uint32 }{{6, 6}, {6, 3}} { // empty, and around the end
		send.Release(step.from)
		recv.Release(step.from)
		for i := step.from; i != step.to; i = send.Next(i) {
			*send.At(i) = SendWQE{WRID: uint64(i), NumSGE: 1}
			send.SGERoom(i)[0] = memory.SGE{Addr: uint64(i)}
			*recv.At(i) = RecvWQE{WRID: uint64(i), NumSGE: 1}
			recv.SGERoom(i)[0] = memory.SGE{Addr: uint64(i)}
		}
		send.Publish(step.to)
		recv.Publish(step.to)
	}
	send.Detach()
	recv.Detach()
	for i := range s {
		s[i] = 0xff
	}
	for i := range r {
		r[i] = 0xff
	}
	if send.Len() != 5 || recv.Len() != 5 || send.Consumer() != 6 || recv.Consumer() != 6 {
		t.Fatalf("found %d and %d entries from %d and %d on", send.Len(), recv.Len(), send.Consumer(), recv.Consumer())
	}
	for i := uint32(6); i != 3; i = send.Next(i) {
		if w, q := send.At(i), recv.At(i); w.WRID != uint64(i) || q.WRID != uint64(i) || send.SGERoom(i)[0].Addr != uint64(i) || recv.SGERoom(i)[0].Addr != uint64(i) {
			t.Errorf("entry %d: found %+v and %+v", i, *w, *q)
		}
	}
	send.Release(3)
	if h := (*header)(unsafe.Pointer(&s[0])); h.consumer.Load() != 0xffffffff {
		t.Error("a detached ring wrote to the memory that it had")
	}
	send.Detach() // again
	own := NewSendRing(5, 3, 0)
	own.At(0).WRID = 7
	own.Publish(1)
	own.Detach()
	if own.Len() != 1 || own.At(0).WRID != 7 {
		t.Error("a ring of its own memory lost its entries")
	}
}
