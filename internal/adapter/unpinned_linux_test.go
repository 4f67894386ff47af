package adapter

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/wire/ib"
)

// A program unmaps memory between the request's turn and the copy of its payload.
func TestPacketOfUnmappedMemoryLeavesTheBatchAndFailsItsQueuePair(t *testing.T) {
	e := newEnd(t, "192.0.2.1:4791", Config{Manual: true}, qp.UD, 64)
	l := e.dev.packets[0]
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
		before := len(e.link.sent)
		add := func(q *QP, payload []byte) {
			l.out.Opcode, l.out.Pieces, l.out.Len, l.out.Path = ib.RCSendOnly, append(l.out.Pieces[:0], payload), len(payload), nil
			l.sendUnpinned(0, q, q.route(), 1)
		}
		add(other, mem[:length])
		add(q, mem[page-8:][:length])
		if q.Attr.State != qp.Err {
			t.Errorf("%d bytes: expected ERR, found %v", length, q.Attr.State)
		}
		add(other, mem[8:][:length])
		l.network.flush()
		l.Unlock()
		want := 2 * (ib.BTHLen + length + ib.ICRCLen)
		if sent := bytes.Join(e.link.sent[before:], nil); len(sent) != want {
			t.Errorf("%d bytes: expected the 2 packets of mapped memory, %d bytes, found %d", length, want, len(sent))
		}
	}
}

// followers is a machine whose short messages have these payloads.
type followers struct {
	machine.Follower
	payloads [][]byte
}

func (f *followers) Follow(_ time.Duration, out *machine.Out) bool {
	if len(f.payloads) == 0 {
		return false
	}
	out.Pieces, out.Len = append(out.Pieces[:0], f.payloads[0]), len(f.payloads[0])
	f.payloads = f.payloads[1:]
	return true
}

// The same with messages that follow one through memory.
func TestMessageOfUnmappedMemoryThroughMemoryFailsItsQueuePair(t *testing.T) {
	e := newEnd(t, "192.0.2.1:4791", Config{Manual: true}, qp.RC, 64)
	shared := make([]byte, hostmem.AreaSize(1, 1))
	out := hostmem.NewArea(shared, 1, 1)
	in, err := hostmem.OpenArea(shared, 1, 1)
	e.check(err)
	c := &hostmem.Channel{
		Peer: netip.MustParseAddrPort("192.0.2.9:4791"), Out: out, In: in, Lanes: 1, Far: new(withdrawals),
	}
	e.dev.AttachHost(c)
	defer e.dev.DetachHost(c)
	page := unix.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	e.check(err)
	defer unix.Munmap(mem)
	e.check(unix.Mprotect(mem[page:], unix.PROT_NONE))

	q, other, l := e.qp, e.create(qp.RC, e.cq), e.dev.packets[0]
	l.Lock()
	defer l.Unlock()
	send := func(q *QP, payloads ...[]byte) (sent uint64) {
		t.Helper()
		q.can.Follower = &followers{payloads: payloads[1:]}
		r := q.route().(*hostRoute)
		before := r.sender.Sent()
		l.out.Train = 1
		l.out.Opcode, l.out.Pieces, l.out.Len, l.out.Path = ib.RCSendOnly, append(l.out.Pieces[:0], payloads[0]), len(payloads[0]), nil
		l.sendUnpinned(0, q, r, maxBurst)
		return r.sender.Sent() - before
	}
	if n := send(q, mem[:64], mem[64:][:64], mem[page-8:][:64], mem[:64]); n != 2 || q.Attr.State != qp.Err {
		t.Errorf("%d messages sent and the queue pair in %v, expected the 2 before the unmapped one, and ERR", n, q.Attr.State)
	}
	if n := send(other, mem[:64], mem[64:][:64]); n != 2 || other.Attr.State != qp.RTS {
		t.Errorf("%d messages of another queue pair sent, which is in %v, expected 2 and RTS", n, other.Attr.State)
	}
}
