package live

import (
	"testing"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/subnet"
	"softrdma/internal/link/fabric"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
)

// A program that is slower than its peers fills its ring again and again, within one turn of the
// loop as well.
func TestBlockedProgramIsListedOnce(t *testing.T) {
	f := new(Fabric)
	a := &attachment{fabric: f, share: attach.Share{Of: 2}}
	for now := range stopTime / 2 {
		if !a.hold(now, 3) {
			t.Fatalf("dropped after %v", now)
		}
		if a.full = 0; now == 99 { // there was room
			break
		}
	}
	if n := len(f.todo.blocked); n != 1 {
		t.Errorf("listed %d times", n)
	}
}

// A copy for which a ring has no room behind what waits for it is lost, and counted. It says nothing
// about how long the program has taken no packet.
func TestSpreadPacketWithoutRoomIsDropped(t *testing.T) {
	shape, err := topology.Generate("star:2")
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	f := &Fabric{managed: managed{subnet: subnet.New(subnet.Config{Fabric: shape})}}
	f.config.Dropped = func(_ topology.End, d reason.Detail) {
		if d.Reason == reason.FabricFull {
			lost++
		}
	}
	end, err := fabric.NewEnd(fabric.NoHeaders)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = end.CloseFD(); _ = end.Close() })
	a := &attachment{fabric: f, share: attach.Share{Of: 2}, end: end}
	// Packets of other lengths than the first's are no train with it.
	packet := func(words int) []byte {
		p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, DestQPN: 0xffffff}, Payload: make([]byte, 4*words)}
		return ib.AppendNative(nil, ib.LRH{Next: ib.LocalBTH, DLID: 0xc001}, nil, &p)
	}
	if !a.put(1, packet(1)) {
		t.Fatal("no room")
	}
	for end.Room(0, 2, 0) {
		if b := packet(2); !end.PutOne(0, b[:len(b)-ib.VCRCLen]) {
			t.Fatal("no room")
		}
	}
	shared := tenants{lanes: []*attachment{a, nil}}
	shared.spread(packet(2), nil)
	if lost != 1 || a.full != 0 || len(f.todo.blocked) != 0 {
		t.Errorf("lost %d, full %#x, blocked %d: expected one loss", lost, a.full, len(f.todo.blocked))
	}
}
