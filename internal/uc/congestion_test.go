package uc

import (
	"testing"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/machine"
	"softrdma/internal/machine/machinetest"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// notification returns a notification for end a of a pair.
func notification(a *end) *machine.In {
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.CongestionNotify, BECN: true, DestQPN: a.QPN}, Payload: make([]byte, 16)}
	return machinetest.Decode(append(p.Append(nil), 0, 0, 0, 0), machinetest.AddrB, machinetest.AddrA)
}

func TestMarkedPacketIsNotifiedOncePerInterval(t *testing.T) {
	a, b := pair(t)
	now := time.Second
	arrive := func(tos uint8) {
		a.PostSend(write(queue.Write, 1, b.target.Base, b.target.Key), machinetest.SGE(a.src, 0, 8))
		for _, p := range machinetest.Drain(a.m, 0) {
			in := machinetest.Decode(p, machinetest.AddrA, machinetest.AddrB)
			in.TOS = tos
			b.m.Receive(now, in)
		}
	}
	notifications := func() (n int) {
		for _, p := range machinetest.Drain(b.m, 0) {
			h := header(p)
			// Annex A17.9.3.
			if h.Opcode != ib.CongestionNotify || !h.BECN || h.PSN != 0 || h.DestQPN != a.QPN || len(h.Payload) != 16 {
				t.Errorf("%+v with %d bytes", h.BTH, len(h.Payload))
			}
			n++
		}
		return n
	}
	for _, tos := range []uint8{0, 1, 2} {
		arrive(tos)
	}
	if n := notifications(); n != 0 {
		t.Fatalf("%d notifications without a mark", n)
	}
	for range 5 {
		arrive(3)
	}
	if n := notifications(); n != 1 {
		t.Fatalf("%d notifications for five marks", n)
	}
	now += congestion.NotifyInterval
	arrive(3)
	if n := notifications(); n != 1 {
		t.Fatalf("%d notifications an interval later", n)
	}
	wantReasons(t, b, reason.CongestionMarked, reason.CongestionMarked)
	b.Move(b.m, qp.Err)
	arrive(3)
	if n := notifications(); n != 0 {
		t.Errorf("%d notifications in the error state", n)
	}
}

// TestNotificationPacesTheSender checks that the next packets are paced, that Deadline returns
// their times, and that none is lost or reordered.
func TestNotificationPacesTheSender(t *testing.T) {
	a, b := pair(t)
	const n = 60
	for i := range n {
		a.PostSend(write(queue.Write, uint64(i), b.target.Base, b.target.Key), machinetest.SGE(a.src, 0, 256))
	}
	var out machine.Out
	now := time.Duration(0)
	for range 20 { // 256 bytes per microsecond
		if !a.m.Next(now, &out) || !out.Markable {
			t.Fatalf("packet at %v: markable %v", now, out.Markable)
		}
		now += time.Microsecond
	}
	a.m.Receive(now, notification(a))
	wantReasons(t, a, reason.CongestionNotified)
	begun, sent := now, 0
	for sent < n-20 {
		if a.m.Next(now, &out) {
			sent++
			continue
		}
		a.m.Sent()
		d := a.m.Deadline()
		if d <= now || d == machine.Never {
			t.Fatalf("%d packets sent, deadline %v at %v", sent, d, now)
		}
		now = d
		a.m.Expire(now)
	}
	a.m.Sent()
	// Half of the previous rate, except for the initial burst.
	if took := now - begun; took < 5*time.Microsecond || took > 200*time.Microsecond {
		t.Errorf("%d packets took %v", sent, took)
	}
	l := a.Port.Sent.Take()
	if len(l) != n {
		t.Fatalf("%d completions", len(l))
	}
	for i, c := range l {
		if c.WRID != uint64(i) || c.Status != queue.Success {
			t.Errorf("completion %d: %+v", i, c)
		}
	}
	if a.m.Deadline() != machine.Never {
		t.Errorf("deadline %v with nothing to send", a.m.Deadline())
	}
}

func TestNotificationWithoutControlIsNamed(t *testing.T) {
	a, b := pair(t)
	a.m = New(&a.Port.Port, congestion.None)
	a.m.Transition(0, qp.RTR)
	a.PostSend(write(queue.Write, 1, b.target.Base, b.target.Key), machinetest.SGE(a.src, 0, 8))
	var out machine.Out
	if !a.m.Next(0, &out) || out.Markable { // annex A17, CA17-5
		t.Errorf("markable %v without control", out.Markable)
	}
	a.m.Receive(0, notification(a))
	wantReasons(t, a, reason.CongestionIgnored)
	a.m.Receive(0, func() *machine.In { in := notification(a); in.Src = machinetest.AddrA; return in }())
	wantReasons(t, a, reason.PacketSource)
}
