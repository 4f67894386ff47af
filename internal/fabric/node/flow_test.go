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

// ring is four switches in a ring, each with an adapter: adapters 0 to 3, switches 4 to 7.
// Packets go round in one direction, from port 2 to port 1 of the next switch.
func ring(w *world) []*stream {
	const n = 4
	for range n {
		w.add(Config{Ports: 1, Port: quiet})
	}
	for range n {
		w.add(Config{Switch: true, Ports: 3, Port: quiet})
	}
	var streams []*stream
	for i := range n {
		w.join(end{i, 1}, end{n + i, 3}, linkQDR4x)
		w.join(end{n + i, 2}, end{n + (i+1)%n, 1}, linkQDR4x)
		ports := map[int]int{}
		for to := range n {
			ports[to] = 2
		}
		ports[i] = 3
		w.routes(n+i, ports)
		streams = append(streams, &stream{src: i, dst: (i + 2) % n, size: 2048, total: 200})
	}
	return streams
}

func TestRingWithOneLaneDeadlocks(t *testing.T) {
	w := newWorld(t)
	streams := ring(w)
	w.activate(hardware.PortConfig{VLs: 1})
	if w.saturate(streams) {
		t.Fatal("all streams ended: expected a deadlock")
	}
	for i := range 4 {
		if c := w.nodes[4+i].Counters(2); c.XmitDiscards != 0 {
			t.Errorf("switch %d discarded %d packets, expected all to wait", i, c.XmitDiscards)
		}
	}
	if len(w.drops) != 0 {
		t.Errorf("dropped: %v", w.drops)
	}
}

// Streams that cross the link from the last switch to the first one have a lane of their
// own, so that no lane's links form a cycle.
func TestRingWithTwoLanesDoesNotDeadlock(t *testing.T) {
	w := newWorld(t)
	streams := ring(w)
	w.activate(hardware.PortConfig{VLs: 2})
	for _, s := range streams {
		if s.dst < s.src {
			s.sl = 1
		}
	}
	if !w.saturate(streams) {
		t.Fatal("streams stand still")
	}
	if n := w.checkOrder(); n != 4*200 {
		t.Errorf("%d packets arrived, expected 800", n)
	}
	w.checkCounters()
}

func TestStalledReceiverFillsItsLaneAndLosesNothing(t *testing.T) {
	w := newWorld(t)
	line(w, 2, Config{Port: quiet})
	w.activate(hardware.PortConfig{})
	stalled := true
	w.refuse = func(node int, frame []byte) bool {
		return stalled && node == 1 && frame[0]>>4 == 0
	}
	first, second := &stream{src: 0, dst: 1, size: 2048, total: 500}, &stream{src: 0, dst: 1, sl: 1, size: 2048, total: 500}
	w.saturate([]*stream{first, second})
	if second.next != second.total || len(w.arrived[1]) != 500 {
		t.Fatalf("stream of the other lane: %d sent, %d arrived, expected 500", second.next, len(w.arrived[1]))
	}
	if first.next == first.total {
		t.Fatal("all of the stalled stream was sent: no buffer has filled")
	}
	if c := w.nodes[3].Counters(2); c.VLXmitWait[0] != 0 { // it counts once the wait is over
		t.Errorf("waits of %d ticks counted before their end", c.VLXmitWait[0])
	}
	stalled = false
	w.nodes[1].Resume(w.now, 1)
	if !w.saturate([]*stream{first}) || w.checkOrder() != 1000 {
		t.Errorf("%d packets arrived, expected 1000", len(w.arrived[1]))
	}
	if c := w.nodes[3].Counters(2); c.VLXmitWait[0] == 0 || c.XmitWait == 0 {
		t.Errorf("waits: %d of the lane, %d of the port, expected both", c.VLXmitWait[0], c.XmitWait)
	}
	if len(w.drops) != 0 {
		t.Errorf("dropped: %v", w.drops)
	}
	w.checkCounters()
}

func TestRandomTrafficIsCompleteAndInOrder(t *testing.T) {
	for _, seed := range seeds {
		w := newWorld(t)
		r := newRand(seed)
		adapters := tree(w, r)
		w.activate(hardware.PortConfig{VLs: portLanes})
		var streams []*stream
		total := 0
		for src := range adapters {
			for sl := range uint8(portLanes) {
				dst := (src + 1 + r.IntN(adapters-1)) % adapters
				streams = append(streams, &stream{src: src, dst: dst, sl: sl, size: 8 + r.IntN(4088), total: uint32(20 + r.IntN(60))})
				total += int(streams[len(streams)-1].total)
			}
		}
		if !w.saturate(streams) {
			t.Fatalf("seed %d: traffic stands still", seed)
		}
		if n := w.checkOrder(); n != total || len(w.drops) != 0 {
			t.Fatalf("seed %d: %d packets arrived, %d dropped, expected %d", seed, n, len(w.drops), total)
		}
		w.checkCounters()
		w.checkEmpty(seed)
	}
}

// tree is a random tree of switches with adapters, which are the first nodes.
func tree(w *world, r interface{ IntN(int) int }) (adapters int) {
	c := port.Config{Refresh: port.Never, Buffer: 67 + r.IntN(200)}
	adapters = 3 + r.IntN(6)
	switches := 1 + r.IntN(4)
	for range adapters {
		w.add(Config{Ports: 1, Port: c})
	}
	used := make([]int, switches) // ports of each switch
	parent := make([]int, switches)
	for i := range switches {
		w.add(Config{Switch: true, Ports: 16, Port: c, StoreAndForward: r.IntN(2) == 0})
		if i > 0 {
			parent[i] = r.IntN(i)
		}
	}
	next := func(s int) end { used[s]++; return end{adapters + s, used[s]} }
	up := make([]int, switches) // the port to the parent
	down := make([]map[int]int, switches)
	at := make([]int, adapters)
	for i := range switches {
		down[i] = map[int]int{}
		if i > 0 {
			a, b := next(i), next(parent[i])
			up[i] = a.port
			w.join(a, b, linkQDR4x)
			down[parent[i]][adapters+i] = b.port
		}
	}
	for a := range adapters {
		at[a] = r.IntN(switches)
		e := next(at[a])
		w.join(end{a, 1}, e, hardware.Link{Width: smp.Width4x, Speed: []smp.Speed{smp.SpeedSDR, smp.SpeedQDR}[r.IntN(2)]})
		down[at[a]][a] = e.port
	}
	for s := range switches {
		ports := map[int]int{}
		for a := range adapters {
			ports[a] = up[s]
			for below, via := at[a], a; ; below, via = parent[below], adapters+below {
				if below == s {
					ports[a] = down[s][via]
					break
				}
				if below == 0 {
					break
				}
			}
		}
		w.routes(adapters+s, ports)
	}
	return adapters
}

// checkEmpty checks that all buffers are free and all credits are back.
func (w *world) checkEmpty(seed uint64) {
	for i, n := range w.nodes {
		for number := 1; number <= n.Ports(); number++ {
			for vl := range uint8(portLanes) {
				if b := n.ports[number].Buffered(vl); b != 0 {
					w.t.Errorf("seed %d: %d blocks of port %d of node %d, lane %d, are in use", seed, b, number, i, vl)
				}
			}
		}
	}
}

// Lost packets take their credits with them until the next link packet says how many
// blocks were sent.
func TestCreditsOfLostPacketsComeBack(t *testing.T) {
	for _, seed := range seeds {
		w := newWorld(t)
		r := newRand(seed)
		line(w, 2, Config{Port: port.Config{Buffer: 80, Refresh: 5 * time.Microsecond}})
		w.activate(hardware.PortConfig{VLs: 1})
		lost := 0
		w.lose = func(_ end, frame []byte) bool {
			if r.IntN(4) > 0 {
				return false
			}
			if len(frame) > ib.FlowControlLen {
				lost++
			}
			return true
		}
		const total = 300
		s := &stream{src: 0, dst: 1, size: 2048, total: total}
		w.saturate([]*stream{s})
		w.run(w.now + 10*time.Millisecond) // a packet can wait for several link packets that are lost
		if s.next != total {
			t.Fatalf("seed %d: only %d packets left, %d lost", seed, s.next, lost)
		}
		if n := len(w.arrived[1]); n+lost != total {
			t.Errorf("seed %d: %d arrived and %d lost, expected %d in all", seed, n, lost, total)
		}
	}
}

// Two adapters send to one by links of the same rate. With credits the senders wait; without flow
// control the switch drops what it has no room for, by name.
func TestFlowControlDecidesWhetherACrowdedPortLosesPackets(t *testing.T) {
	for _, c := range []struct {
		flow port.Flow
		lost bool
	}{{port.Credits, false}, {port.NoFlow, true}} {
		w := newWorld(t)
		ports := port.Config{Refresh: port.Never, Buffer: 80, Flow: c.flow}
		for range 3 {
			w.add(Config{Ports: 1, Port: ports})
		}
		s := w.add(Config{Switch: true, Ports: 3, Port: ports})
		for i := range 3 {
			w.join(end{i, 1}, end{s, i + 1}, linkQDR4x)
		}
		w.routes(s, map[int]int{0: 1, 1: 2, 2: 3})
		w.activate(hardware.PortConfig{})
		const total = 200
		w.saturate([]*stream{{src: 0, dst: 2, size: 4096, total: total}, {src: 1, dst: 2, size: 4096, total: total}})
		got := len(w.arrived[2])
		if got+len(w.drops) != 2*total || (len(w.drops) > 0) != c.lost {
			t.Errorf("flow control %d: %d arrived, %d dropped, expected %d in all", c.flow, got, len(w.drops), 2*total)
		}
		for _, d := range w.drops {
			if d.Reason != reason.FabricBufferFull {
				t.Fatalf("dropped for %v, expected FABRIC_BUFFER_FULL", d)
			}
		}
	}
}
