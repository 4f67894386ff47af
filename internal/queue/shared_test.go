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
			t.Errorf("the %s ring wrote behind its end", name)
		}
		h := (*header)(unsafe.Pointer(&b[0]))
		if h.indexMask != 7 {
			t.Errorf("the %s ring tells a mask of %d", name, h.indexMask)
		}
	}
	send.Publish(3)
	if p := (*header)(unsafe.Pointer(&s[0])).producer.Load(); p != 3 {
		t.Errorf("the index was published elsewhere: found %d", p)
	}
}
