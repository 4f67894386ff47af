//go:build linux

package umad

import (
	"encoding/binary"
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/uapi"
)

func TestTransfersAreThePortsIfTheAgentAsks(t *testing.T) {
	a, b := newRig(t, false), newRig(t, false)
	server, asks := a.open(), b.open()
	k := vendorClass(mad.MethodGet)
	k.transfers = 1
	id, own := server.newAgent(k), asks.newAgent(&registration{qpn: 1, transfers: 1})
	asks.write(written(own, mad.MethodGet, 1, 500, 5), nil)
	n := 0
	lost := func(*MAD) bool { n++; return n%23 == 3 }
	carry(a, b, lost)
	h, data := server.read()
	data[3] |= mad.ResponseBit
	data[24], data[25], data[transferFlags] = 1, 1, 1
	data = append(data[:40], make([]byte, 20000)...)
	for i := range data[40:] {
		data[40+i] = byte(i * 7)
	}
	h.ID, h.TimeoutMS, h.Retries = id, 20, 50
	server.write(append(uapi.Bytes(&h), data...), nil)
	carry(a, b, lost)
	if !asks.readable {
		t.Fatal("no response")
	}
	short, err := asks.next(64 + mad.Len)
	if got, _ := uapi.Parse[uapi.MADHeader](short); !errors.Is(err, syscall.ENOSPC) || len(short) != 64+mad.Len || got.Length != 64+40+20000 {
		t.Fatalf("too little room: %d bytes, length %d, %v", len(short), got.Length, err)
	}
	got, whole := asks.next(64 + 40 + 20000)
	if whole != nil || !slices.Equal(got[64+40:], data[40:]) {
		t.Fatalf("%d bytes, %v", len(got), whole)
	}
	asks.remove()
	for _, r := range []*rig{a, b} {
		r.advance(2 * arrivalTime)
		r.advance(time.Millisecond)
	}
	for server.readable { // the response's time-out
		server.read()
	}
	if asks.readable || a.all.deadline() != never || b.all.deadline() != never || server.count+asks.count+server.transfers+asks.transfers != 0 {
		t.Errorf("left: %d and %d requests", server.count, asks.count)
	}
}

// Transfers that have arrived stay for a time to acknowledge repetitions, and take no room.
func TestTransfersInARowArrive(t *testing.T) {
	a, b := newRig(t, false), newRig(t, false)
	server, asks := a.open(), b.open()
	k := vendorClass(mad.MethodGet)
	k.transfers = 1
	id, own := server.newAgent(k), asks.newAgent(&registration{qpn: 1, transfers: 1})
	for n := range 3 * maxTransfers {
		asks.write(written(own, mad.MethodGet, uint64(n+1), 500, 5), nil)
		carry(a, b, func(*MAD) bool { return false })
		h, data := server.read()
		for len(data) == mad.HeaderLen { // the time-out of a response
			h, data = server.read()
		}
		data[3] |= mad.ResponseBit
		data[24], data[25], data[transferFlags] = 1, 1, 1
		h.ID, h.TimeoutMS, h.Retries = id, 20, 3
		server.write(append(uapi.Bytes(&h), append(data[:40], make([]byte, 1000)...)...), nil)
		carry(a, b, func(*MAD) bool { return false })
		if !asks.readable {
			t.Fatalf("no response to request %d", n+1)
		}
		asks.next(64 + 40 + 1000)
	}
	if n := len(b.all.inbound); n > maxTransfers {
		t.Errorf("%d transfers stay, expected at most %d", n, maxTransfers)
	}
	b.advance(2 * arrivalTime)
	if n := len(b.all.inbound); n != 0 || asks.transfers != 0 || len(asks.arrivals) != 0 {
		t.Errorf("left in the end: %d, %d and %d transfers", n, asks.transfers, len(asks.arrivals))
	}
}

// The ACK of a transfer leaves before its program can read it and send the next request.
// Otherwise a program that asks in a loop makes its peer keep one transfer for each request.
func TestTransferIsAcknowledgedBeforeItIsRead(t *testing.T) {
	a, b := newRig(t, false), newRig(t, false)
	server, asks := a.open(), b.open()
	k := vendorClass(mad.MethodGet)
	k.transfers = 1
	id, own := server.newAgent(k), asks.newAgent(&registration{qpn: 1, transfers: 1})
	asks.write(written(own, mad.MethodGet, 1, 500, 5), nil)
	carry(a, b, func(*MAD) bool { return false })
	h, data := server.read()
	data[3] |= mad.ResponseBit
	data[24], data[25], data[transferFlags] = 1, 1, 1
	h.ID, h.TimeoutMS, h.Retries = id, 20, 3
	server.write(append(uapi.Bytes(&h), append(data[:40], make([]byte, 100)...)...), nil)
	acknowledged := false
	b.port.onSend = func() {
		acknowledged = true
		if asks.readable {
			t.Error("the transfer was readable before its ACK left")
		}
	}
	carry(a, b, func(*MAD) bool { return false })
	if !acknowledged || !asks.readable {
		t.Errorf("acknowledged: %t, readable: %t", acknowledged, asks.readable)
	}
}

func TestTransferWithoutAnswerTimesOut(t *testing.T) {
	r := newRig(t, false)
	p := r.open()
	k := vendorClass()
	k.transfers = 1
	b := written(p.newAgent(k), mad.MethodGet, 1, 100, 0)
	b[64+24], b[64+25], b[64+transferFlags] = 1, 1, 1
	p.write(append(b, make([]byte, 5000)...), nil)
	for range 20 {
		r.advance(100 * time.Millisecond)
	}
	if h, data := p.read(); h.Status != uint32(syscall.ETIMEDOUT) || len(data) != mad.HeaderLen || r.all.deadline() != never {
		t.Errorf("status %d, %d bytes", h.Status, len(data))
	}
	p.write(append(b, make([]byte, maxTransfer)...), syscall.EINVAL)
	// No request waits for this response.
	var m MAD
	m.QPN = 1
	copy(m.Data[:], b[64:])
	m.Data[3] |= mad.ResponseBit
	binary.BigEndian.PutUint32(m.Data[8:], p.agent(0).tid)
	r.arrive(&m, true, reason.MADNoRequest)
}

func TestProgramMayCarryOutTransfersItself(t *testing.T) {
	r := newRig(t, false)
	p := r.open()
	b := written(p.newAgent(vendorClass()), mad.MethodSet, 2, 1000, 0)
	b[64+transferFlags] = 1
	p.write(b, nil)
	p.write(b, nil)
	response := r.answer()
	for range 3 {
		r.arrive(response, true, reason.None)
	}
}

// FuzzFile registers, writes and delivers anything: nothing may panic, and nothing may be
// left after the file is closed.
func FuzzFile(f *testing.F) {
	f.Add([]byte{1, testClass, 1, 0xff}, written(0, mad.MethodGet, 1, 10, 1))
	f.Add([]byte{1, mad.ClassAdministration, 2, 0xff}, written(0, mad.MethodGetResponse, 1, 10, 1))
	f.Fuzz(func(t *testing.T, registered, b []byte) {
		r := newRig(t, true)
		p := r.open()
		for ; len(registered) >= 4; registered = registered[4:] {
			mask := registered[3]
			_, _ = p.register(&registration{
				qpn: uint32(registered[0] & 1), class: registered[1], version: registered[2], oui: testOUI, transfers: registered[3] & 1,
				methods: func(m uint8) bool { return mask>>(m%8)&1 != 0 },
			})
		}
		_ = p.send(0, b)
		_ = p.send(0, b)
		for _, m := range r.port.sent {
			_, _ = r.all.receive(r.now, &m)
			m.Data[3] ^= mad.ResponseBit
			_, _ = r.all.receive(r.now, &m)
		}
		r.advance(time.Hour)
		for p.readable {
			p.read()
		}
		p.close()
		if len(r.all.byTID) != 0 || len(r.all.methods) != 1 || len(r.all.requests)+len(r.all.inbound)+len(r.all.outbound) != 0 || p.count+p.transfers != 0 || p.memory.Held() != 0 {
			t.Errorf("left: %d agents, %d methods, %d requests", len(r.all.byTID), len(r.all.methods), len(r.all.requests))
			t.Errorf("left: %d bytes", p.memory.Held())
		}
	})
}
