package uc

import (
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/machine/machinetest"
	"softrdma/internal/psn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// An unreliable connection accepts a message with any PSN, so an attacker who spoofs the
// peer's address needs the source port, or the next PSN.
func TestPacketFromAnotherPortNeedsTheNextPSN(t *testing.T) {
	const next = psn.PSN(0xfffffe)
	_, b := pair(t)
	for i := range uint64(9) {
		b.PostRecv(i, machinetest.SGE(b.dst, 0, 100))
	}
	at := next
	give := func(now time.Duration, port uint16, d int, why ...reason.Reason) {
		t.Helper()
		in := &machine.In{Src: netip.AddrPortFrom(machinetest.AddrA.Addr(), port), Dst: machinetest.AddrB}
		in.Opcode, in.PSN, in.Payload = ib.UCSendOnly, at.Add(d), []byte{1}
		b.m.Receive(now, in)
		wantReasons(t, b, why...)
		taken := len(why) == 0 || why[0] != reason.PacketSourcePort
		if l := b.Received.Take(); (len(l) == 1) != taken {
			t.Errorf("port %d: completions %+v, expected one: %v", port, l, taken)
		}
		if taken {
			at = in.PSN.Next()
		}
	}
	give(0, 50001, 0)
	give(0, 50001, 5, reason.SequenceGap)
	give(0, 50002, 5, reason.PacketSourcePort)
	give(originQuiet-1, 50002, 1, reason.PacketSourcePort)
	give(originQuiet, 50002, 1, reason.SequenceGap) // the peer was silent
	give(originQuiet, 50001, 1, reason.PacketSourcePort)
	give(originQuiet, 50003, 0)
	give(originQuiet, 50004, 0) // the third change: the peer spreads its packets
	give(originQuiet, 50005, 3, reason.SequenceGap)
}
