package node

import (
	"testing"
	"time"

	"softrdma/internal/fabric/port"
	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// quiet is a port that sends link packets only when credits change.
var quiet = port.Config{Refresh: port.Never, Buffer: 80}

func TestCorruptedPacketIsDroppedAtTheNextNode(t *testing.T) {
	w := newWorld(t)
	line(w, 2, Config{Port: quiet})
	w.activate(hardware.PortConfig{})
	w.lose = func(e end, frame []byte) bool {
		if e == (end{2, 2}) && len(frame) > ib.FlowControlLen {
			frame[30] ^= 4
		}
		return false
	}
	w.send(0, 1, 0, 0, 100)
	w.run(w.now + 10*time.Microsecond)
	c := w.nodes[3].Counters(1)
	if c.SymbolErrors != 1 || c.RcvErrors != 1 || c.LocalPhysicalErrors != 1 || c.RcvPackets != 0 {
		t.Errorf("counters %+v", c)
	}
	if len(w.drops) != 1 || w.drops[0].Reason != reason.FabricVCRC || len(w.arrived[1]) != 0 {
		t.Errorf("%v dropped, %d arrived", w.drops, len(w.arrived[1]))
	}
}

func TestLatencyOfCutThroughAndStoreAndForward(t *testing.T) {
	for _, c := range []struct {
		store bool
		hops  time.Duration // packet times on the way
	}{{false, 1}, {true, 3}} {
		w := newWorld(t)
		line(w, 2, Config{Port: quiet, StoreAndForward: c.store})
		w.activate(hardware.PortConfig{})
		start := w.now
		frame := w.datagram(0, ib.LID(lidOf(1)), 0, 0, 2048)
		packet := w.nodes[0].ports[1].Duration(len(frame))
		w.nodes[0].Send(w.now, 1, frame)
		w.run(w.now + 20*time.Microsecond)
		if len(w.arrived[1]) != 1 {
			t.Fatalf("%d packets arrived", len(w.arrived[1]))
		}
		want := 3*cable + 2*DefaultHop + c.hops*packet
		if got := w.arrived[1][0].at - start; got != want {
			t.Errorf("store and forward %v: %v, expected %v", c.store, got, want)
		}
	}
}

func TestLinkRateBoundsThroughput(t *testing.T) {
	w := newWorld(t)
	line(w, 2, Config{Port: port.Config{Refresh: port.Never}})
	w.activate(hardware.PortConfig{})
	start := w.now
	const total = 2000
	w.saturate([]*stream{{src: 0, dst: 1, size: 4096, total: total}})
	list := w.arrived[1]
	took := list[len(list)-1].at - start
	rate := float64(total) * 4096 * 8 / float64(took) // Gb/s
	if len(list) != total || rate < 29 || rate > 32 {
		t.Errorf("%d packets at %.1f Gb/s, expected %d at nearly 32", len(list), rate, total)
	}
}

func TestMulticastReachesEachPortOnce(t *testing.T) {
	w := newWorld(t)
	const adapters = 3
	for range adapters {
		w.add(Config{Ports: 1, Port: quiet})
	}
	s := w.add(Config{Switch: true, Ports: 20, Port: quiet})
	for i := range adapters {
		w.join(end{i, 1}, end{s, []int{1, 2, 20}[i]}, linkQDR4x)
	}
	w.routes(s, nil)
	w.activate(hardware.PortConfig{})
	n := w.nodes[s]
	group := smp.MulticastForwarding{3: 1<<0 | 1<<1 | 1<<2}
	n.SetMulticast(1, 0, &group)
	n.SetMulticast(1, 1, &smp.MulticastForwarding{3: 1 << (20 - 16)})
	if n.Multicast(1, 0) != group {
		t.Errorf("table reads %v", n.Multicast(1, 0))
	}
	const lid = ib.MulticastLID + 32 + 3
	w.nodes[0].Send(w.now, 1, w.datagram(0, lid, 0, 0, 256))
	w.run(w.now + 10*time.Microsecond)
	for i, want := range []int{0, 1, 1, 1} { // and port 0 of the switch
		if got := len(w.arrived[i]); got != want {
			t.Errorf("node %d got %d packets, expected %d", i, got, want)
		}
	}
	w.nodes[0].Send(w.now, 1, w.datagram(0, lid+1, 0, 0, 256))
	w.run(w.now + 10*time.Microsecond)
	if len(w.drops) != 1 || w.drops[0].Reason != reason.FabricRoute {
		t.Errorf("packet to an unknown group: dropped %v", w.drops)
	}
	w.checkEmpty(0)
	if c := n.Counters(20); c.MulticastXmit != 1 || n.Counters(1).MulticastRcv != 2 {
		t.Errorf("multicast counters: %d sent, %d received", c.MulticastXmit, n.Counters(1).MulticastRcv)
	}
}

func TestSwitchRefusesByName(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(n *Node)
		dst  int
		want reason.Reason
	}{
		{"no route", func(*Node) {}, 9, reason.FabricRoute},
		{"back where it came from", func(*Node) {}, 0, reason.FabricLoop},
		{"lane 15", func(n *Node) { n.SetSLtoVL(1, 2, &smp.SLtoVL{15}) }, 1, reason.FabricLane},
		{"lane not in operation", func(n *Node) { n.SetSLtoVL(1, 2, &smp.SLtoVL{9}) }, 1, reason.FabricVL},
		{"MTU", func(n *Node) { reconfigure(n, 2, func(c *hardware.PortConfig) { c.MTU = 256 }) }, 1, reason.FabricMTU},
		{"partition out", func(n *Node) {
			reconfigure(n, 2, func(c *hardware.PortConfig) { c.EnforceOutbound = true })
			n.SetPartitions(2, 0, &smp.PKeyTable{0x8001})
		}, 1, reason.FabricPKey},
		{"partition in", func(n *Node) {
			reconfigure(n, 1, func(c *hardware.PortConfig) { c.EnforceInbound = true })
			n.SetPartitions(1, 0, &smp.PKeyTable{0x8001, 0x8002})
		}, 1, reason.FabricPKey},
		{"link down", func(n *Node) { n.SetLink(2, hardware.LinkDisable) }, 1, reason.FabricPortState},
	} {
		w := newWorld(t)
		line(w, 1, Config{Port: quiet})
		w.activate(hardware.PortConfig{})
		c.set(w.nodes[2])
		w.nodes[0].Configure(1, &hardware.PortConfig{MTU: 4096, VLs: portLanes, LID: 40}) // does not deliver to itself
		w.drops = nil
		w.send(0, c.dst, 0, 0, 1024)
		w.run(w.now + 10*time.Microsecond)
		if len(w.drops) != 1 || w.drops[0].Reason != c.want {
			t.Errorf("%s: dropped %v, expected %v", c.name, w.drops, c.want)
		}
		if (w.foreign == 1) != (c.want == reason.FabricPKey) {
			t.Errorf("%s: %d violations of a partition", c.name, w.foreign)
		}
		w.checkEmpty(0)
	}
}

func reconfigure(n *Node, number int, change func(*hardware.PortConfig)) {
	c := *n.PortConfig(number)
	change(&c)
	n.Configure(number, &c)
}

func TestHeadOfQueueLifeDiscardsForAStalledReceiver(t *testing.T) {
	w := newWorld(t)
	line(w, 1, Config{Port: quiet})
	w.activate(hardware.PortConfig{HOQLife: 10 * time.Microsecond, StallCount: 3})
	w.refuse = func(node int, _ []byte) bool { return node == 1 }
	s := &stream{src: 0, dst: 1, size: 2048, total: 100}
	if !w.saturate([]*stream{s}) && s.next != s.total {
		t.Fatalf("%d packets left, expected all", s.next)
	}
	w.run(w.now + time.Millisecond)
	c := w.nodes[2].Counters(2)
	if c.HOQDiscards == 0 || c.HOQDiscards != c.XmitDiscards {
		t.Errorf("%d discards for the life time, %d in all", c.HOQDiscards, c.XmitDiscards)
	}
	seen := map[reason.Reason]int{}
	for _, d := range w.drops {
		seen[d.Reason]++
	}
	if seen[reason.FabricHOQLife] == 0 || seen[reason.FabricStalled] == 0 {
		t.Errorf("reasons %v", seen)
	}
}

func TestSwitchLifeTimeDiscards(t *testing.T) {
	w := newWorld(t)
	line(w, 1, Config{Port: quiet})
	w.activate(hardware.PortConfig{})
	w.nodes[2].ConfigureSwitch(&hardware.SwitchConfig{LinearTop: 63, LifeTime: 20 * time.Microsecond})
	w.refuse = func(node int, _ []byte) bool { return node == 1 }
	w.saturate([]*stream{{src: 0, dst: 1, size: 2048, total: 60}})
	w.run(w.now + time.Millisecond)
	if c := w.nodes[2].Counters(2); c.LifeTimeDiscards == 0 || c.LifeTimeDiscards != c.XmitDiscards {
		t.Errorf("%d discards for the life time, %d in all", c.LifeTimeDiscards, c.XmitDiscards)
	}
}

func TestTablesReadAsTheyWereSet(t *testing.T) {
	n := New(Config{Switch: true, Ports: 36})
	if f := n.Forwarding(7); f[0] != smp.NoPort || f[63] != smp.NoPort {
		t.Errorf("unset block %v", f)
	}
	var f smp.LinearForwarding
	for i := range f {
		f[i] = uint8(i)
	}
	n.SetForwarding(7, &f)
	if n.Forwarding(7) != f || n.Forwarding(6)[5] != smp.NoPort {
		t.Error("forwarding table reads otherwise")
	}
	m := smp.MulticastForwarding{1: 0x8001, 31: 7}
	n.SetMulticast(2, 1, &m)
	if n.Multicast(2, 1) != m || n.Multicast(2, 0) != (smp.MulticastForwarding{}) || n.Multicast(9, 3) != (smp.MulticastForwarding{}) {
		t.Error("multicast table reads otherwise")
	}
	var v smp.SLtoVL
	for i := range v {
		v[i] = uint8(15 - i)
	}
	n.SetSLtoVL(3, 4, &v)
	if n.SLtoVL(3, 4) != v || n.SLtoVL(5, 4) == v {
		t.Error("SL to VL table reads otherwise")
	}
	p := smp.PKeyTable{0x8001, 0, 2}
	n.SetPartitions(0, 1, &p)
	n.SetPartitions(5, 1, &p)
	if n.Partitions(0, 1) != p || n.Partitions(5, 1) != p || n.Partitions(5, 0) != (smp.PKeyTable{smp.DefaultPKey}) {
		t.Error("partition table reads otherwise")
	}
	a := smp.VLArbitration{{VL: 1, Weight: 9}}
	n.SetArbitration(2, smp.ArbitrationHighUpper, &a)
	if n.Arbitration(2, smp.ArbitrationHighUpper) != a || n.Arbitration(2, smp.ArbitrationHigh) != (smp.VLArbitration{}) {
		t.Error("arbitration table reads otherwise")
	}
}

func TestAdapterTakesTheLIDsOfItsMask(t *testing.T) {
	for lid, want := range map[ib.LID]bool{0x10: true, 0x13: true, 0x14: false, 0x0f: false, ib.PermissiveLID: true} {
		if got := owns(&hardware.PortConfig{LID: 0x10, LMC: 2}, lid); got != want {
			t.Errorf("LID %#04x of 0x10 to 0x13: %v, expected %v", lid, got, want)
		}
	}
	if owns(&hardware.PortConfig{}, 0) {
		t.Error("a port without a LID has LID 0")
	}
	w := newWorld(t)
	line(w, 1, Config{Port: quiet})
	w.activate(hardware.PortConfig{})
	w.routes(2, map[int]int{0: 1, 1: 2, 5: 2})
	w.send(0, 5, 0, 0, 8)
	w.send(0, 0, 0, 0, 8) // to itself
	w.run(w.now + 10*time.Microsecond)
	if len(w.drops) != 1 || w.drops[0].Reason != reason.FabricForeign || len(w.arrived[0]) != 1 {
		t.Errorf("dropped %v, %d packets came back", w.drops, len(w.arrived[0]))
	}
}

// An agent answers from within Deliver.
func TestDeliverMaySend(t *testing.T) {
	w := newWorld(t)
	line(w, 1, Config{Port: quiet})
	w.activate(hardware.PortConfig{})
	n := w.nodes[1]
	first := true
	w.refuse = func(node int, _ []byte) bool {
		if node == 1 && first {
			first = false
			n.Send(w.now, 1, w.datagram(1, ib.LID(lidOf(0)), 0, 0, 64))
			n.Send(w.now, 1, w.datagram(1, ib.LID(lidOf(1)), 0, 1, 64)) // to itself
		}
		return false
	}
	w.send(0, 1, 0, 0, 64)
	w.run(w.now + 20*time.Microsecond)
	if len(w.arrived[0]) != 1 || len(w.arrived[1]) != 2 {
		t.Errorf("%d and %d packets arrived, expected 1 and 2", len(w.arrived[0]), len(w.arrived[1]))
	}
}

// The ICRC covers reserved bits of the LRH, which a switch must not change with the lane.
func TestChangeOfLaneKeepsTheICRC(t *testing.T) {
	w := newWorld(t)
	line(w, 1, Config{Port: quiet})
	w.activate(hardware.PortConfig{})
	w.nodes[2].SetSLtoVL(1, 2, &smp.SLtoVL{3})
	var got []byte
	w.refuse = func(_ int, frame []byte) bool {
		got = append([]byte(nil), frame...)
		return false
	}
	frame := w.datagram(0, ib.LID(lidOf(1)), 0, 0, 64)
	frame[1] |= 0xc
	frame[4] |= 0xf8
	end := len(frame) - ib.VCRCLen
	ib.PutICRC(frame[end-ib.ICRCLen:], ib.NativeICRC(frame[:end]))
	ib.PutVCRC(frame)
	w.nodes[0].Send(w.now, 1, frame)
	w.run(w.now + 20*time.Microsecond)
	if got == nil || got[0]>>4 != 3 {
		t.Fatalf("frame % x, expected one on lane 3", got)
	}
	if sum := ib.NativeICRC(got[:end]); sum != ib.ICRC(got[:end]) {
		t.Errorf("ICRC %#08x, the packet has %#08x", sum, ib.ICRC(got[:end]))
	}
}

// FuzzSwitch sends arbitrary packets with a right VCRC through a switch.
func FuzzSwitch(f *testing.F) {
	w := newWorld(f)
	f.Add(w.datagram(0, 2, 0, 0, 64))
	f.Add(w.datagram(0, 0xc003, 0, 0, 64))
	f.Add(management())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < ib.VCRCLen || len(b) > ib.MaxNativeLen {
			return
		}
		w := newWorld(t)
		line(w, 1, Config{Port: quiet})
		w.activate(hardware.PortConfig{EnforceInbound: true})
		s := w.nodes[2]
		s.SetMulticast(0, 0, &smp.MulticastForwarding{3: 7})
		for _, number := range []int{1, 2} {
			frame := w.pool.Buffer(len(b))
			copy(frame, b)
			ib.PutVCRC(frame)
			s.Receive(w.now, number, frame)
		}
		own := append([]byte(nil), b...)
		ib.PutVCRC(own)
		s.Send(w.now, 0, own)
		w.run(w.now + 100*time.Microsecond)
		w.checkEmpty(0)
	})
}

// A frame that its LRH describes wrongly must not wait for credit that no peer can grant.
func TestSendDropsFramesOfAnotherLength(t *testing.T) {
	w := newWorld(t)
	line(w, 1, Config{Port: quiet})
	w.activate(hardware.PortConfig{})
	long := w.datagram(0, ib.LID(lidOf(1)), 0, 0, 64)
	long[4], long[5] = 0x07, 0xff
	for _, frame := range [][]byte{nil, long[:5], long, long[:len(long)-1]} {
		w.drops = nil
		if !w.nodes[0].Send(w.now, 1, append([]byte(nil), frame...)) || len(w.drops) != 1 || w.drops[0].Reason != reason.FabricLength {
			t.Errorf("%d bytes: dropped %v", len(frame), w.drops)
		}
	}
}
