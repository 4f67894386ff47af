package adapter

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/wire/ib"
)

// A program unmaps memory between the request's turn and the copy of its payload.
func TestPacketOfUnmappedMemoryLeavesTheBatchAndFailsItsQueuePair(t *testing.T) {
	e := newEnd(t, "192.0.2.1:4791", Config{Manual: true}, qp.UD, 64)
	l := e.dev.lanes[0]
	other := e.create(qp.RC, e.cq)
	page := unix.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	e.check(err)
	defer unix.Munmap(mem)
	_, err = e.pd.RegisterUnpinned(mem, memory.Addr(mem), qp.LocalWrite)
	e.check(err)
	e.check(unix.Mprotect(mem[page:], unix.PROT_NONE))

	for _, length := range []int{64, 2048} { // copied to the arena, and sent from where it lies
		q := e.create(qp.RC, e.cq)
		l.Lock()
		f, before := q.flow, len(e.link.sent)
		add := func(q *QP, payload []byte) {
			l.out.Opcode, l.out.Pieces, l.out.Len, l.out.Path = ib.RCSendOnly, append(l.out.Pieces[:0], payload), len(payload), nil
			l.addUnpinned(0, q, f)
		}
		add(other, mem[:length])
		add(q, mem[page-8:][:length])
		if q.Attr.State != qp.Err {
			t.Errorf("%d bytes: expected ERR, found %v", length, q.Attr.State)
		}
		add(other, mem[8:][:length])
		l.tx.flush()
		l.Unlock()
		want := 2 * (ib.BTHLen + length + ib.ICRCLen)
		if sent := bytes.Join(e.link.sent[before:], nil); len(sent) != want {
			t.Errorf("%d bytes: expected the 2 packets of mapped memory, %d bytes, found %d", length, want, len(sent))
		}
	}
}
