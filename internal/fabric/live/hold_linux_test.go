package live

import (
	"slices"
	"testing"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
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

// A program that was not alone at its host, and is now, makes its port pause for as long as it takes
// nothing. When another one comes, its packets are dropped after stopTime.
func TestOnlyProgramsBesideOthersLosePackets(t *testing.T) {
	f := &Fabric{programs: make(map[int]*program)}
	p := &program{fabric: f, ports: make([]tenants, 2), services: []served{{}, {}}}
	f.programs[0] = p
	a, b := &attachment{fabric: f, share: wholePort}, &attachment{fabric: f, share: wholePort}
	a.at.Port, b.at.Port = 1, 1
	p.services[0].enter(a)
	for _, now := range []time.Duration{1, 1 + stopTime, 2 * stopTime} {
		if !a.hold(now, 3) {
			t.Errorf("alone, it loses a packet after %v", now)
		}
	}
	p.services[1].enter(b)
	f.joined(3*stopTime, b)
	if f.joined(3*stopTime, b); len(f.todo.blocked) != 1 || f.unblockAt() != 4*stopTime {
		t.Errorf("%d are listed, until %v", len(f.todo.blocked), f.unblockAt())
	}
	if !a.hold(4*stopTime-1, 3) || a.hold(4*stopTime, 3) {
		t.Errorf("beside another program it loses packets after another time than %v", stopTime)
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

// A program that has taken no long packet does not count as one that takes packets because there is room
// for a short one: the packet that waits would be offered again and again, and never dropped.
func TestBlockedProgramIsOfferedNothingWithoutRoomForTheLongest(t *testing.T) {
	shape, err := topology.Generate("star:2")
	if err != nil {
		t.Fatal(err)
	}
	f := &Fabric{config: Config{Fabric: shape, Ethernet: &Ethernet{Link: lan.Link{Port: dcb.PortConfig{Speed: dcb.Gbit}}}}}
	f.network = newEthernet(f)
	end, err := fabric.NewEnd(fabric.DatagramHeaders)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = end.CloseFD(); _ = end.Close() })
	short := make([]byte, 1000)
	for end.Room(0, 1, fabric.MaxFrame) {
		end.Deliver(0, new(fabric.Datagram), nil, short)
	}
	if !end.Room(0, 1, ib.MaxNativeLen) {
		t.Fatal("there is no room for a short packet")
	}
	host := slices.IndexFunc(shape.Nodes, func(n topology.Node) bool { return n.Kind != topology.Switch })
	a := &attachment{fabric: f, at: topology.End{Node: host, Port: 1}, end: end, full: 1}
	if a.resume(0) || a.full != 1 {
		t.Error("there is room for each packet, as the port sees it")
	}
}
