//go:build linux

package umad

import (
	"syscall"
	"testing"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/mad"
)

// What programs leave unread, what arrives for them and what they send counts as memory of
// their user.
func TestMemoryOfTheUserBoundsWhatWaits(t *testing.T) {
	const limit = 64 << 10
	a, b := newRig(t, false), newRig(t, false)
	p, asks := a.open(), b.open()
	p.memory = &client.NewBudget(limit / 2 * 3).NewAccount().Memory
	k := vendorClass(mad.MethodGet)
	k.transfers = 1
	id, own := p.newAgent(k), asks.newAgent(&registration{qpn: 1, transfers: 1})
	long := append(written(id, mad.MethodGet, 1, 100, 0), make([]byte, limit)...)
	long[64+mad.HeaderLen], long[64+mad.HeaderLen+1], long[64+transferFlags] = 1, 1, 1 // the first of its data

	p.write(long, syscall.ENOMEM)
	m := MAD{QPN: 1}
	copy(m.Data[:], written(0, mad.MethodGet, 1, 0, 0)[64:])
	for p.memory.Held()+recordBytes+mad.Len <= limit {
		a.arrive(&m, true, reason.None)
	}
	a.arrive(&m, true, reason.ClientLimit)
	p.write(written(id, mad.MethodGet, 1, 100, 0), syscall.ENOMEM)
	p.read()
	p.write(written(id, mad.MethodGet, 1, 100, 0), nil)
	a.advance(100 * time.Millisecond) // its time-out is not lost
	for p.readable {
		p.read()
	}
	if n := p.memory.Held(); n != 0 {
		t.Fatalf("%d bytes are counted", n)
	}

	// A transfer that does not fit ends, and the memory that it had is there again.
	long[0], long[1], long[2], long[3] = byte(own), 0, 0, 0
	asks.write(long, nil)
	refused := false
	for range 1000 {
		b.advance(time.Millisecond)
		sent := b.port.sent
		b.port.sent = nil
		for i := range sent {
			_, d := a.all.receive(a.now, &sent[i])
			refused = refused || d.Reason == reason.ClientLimit
		}
		a.advance(time.Millisecond)
		for i := range a.port.sent {
			_, _ = b.all.receive(b.now, &a.port.sent[i])
		}
		a.port.sent = nil
	}
	if !refused {
		t.Error("a transfer beyond the limit has arrived")
	}
	p.close()
	if n := p.memory.Held(); n != 0 {
		t.Errorf("%d bytes are counted in the end", n)
	}
}
