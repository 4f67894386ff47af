package node

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"softrdma/internal/eventqueue"
	"softrdma/internal/fabric/port"
	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// linkQDR4x is 32 Gb/s of data: 0.25 ns a byte.
var linkQDR4x = hardware.Link{Width: smp.Width4x, Speed: smp.SpeedQDR}

const (
	cable     = 25 * time.Nanosecond // the delay of each link
	portLanes = 4
)

// An end is a port of a node.
type end struct{ node, port int }

// A world is nodes joined by links on virtual time.
type world struct {
	t       testing.TB
	now     time.Duration
	frames  eventqueue.Queue[flight]
	nodes   []*Node
	peers   map[end]end
	arrived [][]arrival // by node
	sent    map[end]uint64
	drops   []reason.Detail
	foreign int                               // packets whose P_Key a port refused
	refuse  func(node int, frame []byte) bool // whether a host does not take a frame
	deliver func(at end, frame []byte)        // gets frames that a host takes
	lose    func(e end, frame []byte) bool    // whether a frame is lost on the link that it leaves by
	pool    port.Pool
}

type flight struct {
	to    end
	frame []byte
}

type arrival struct {
	at       time.Duration
	src, seq uint32
	lrh      ib.LRH
}

func newWorld(t testing.TB) *world {
	return &world{t: t, peers: map[end]end{}, sent: map[end]uint64{}}
}

// add makes a node.
func (w *world) add(c Config) int {
	i := len(w.nodes)
	c.Pool = &w.pool
	if c.Port.VLs == 0 {
		c.Port.VLs = portLanes
	}
	c.Dropped = func(_ int, d reason.Detail) { w.drops = append(w.drops, d) }
	c.Violated = func(_ int, frame []byte) {
		var n ib.Native
		if n.Parse(frame) == ib.OK {
			w.foreign++
		}
	}
	c.Deliver = func(number int, frame []byte) bool {
		if w.refuse != nil && w.refuse(i, frame) {
			return false
		}
		if w.deliver != nil {
			w.deliver(end{i, number}, frame)
		}
		a := arrival{at: w.now}
		a.lrh.Parse(frame)
		if body := frame[a.lrh.HeaderLen():]; len(body) >= 28 {
			a.src, a.seq = binary.BigEndian.Uint32(body[20:]), binary.BigEndian.Uint32(body[24:])
		}
		w.arrived[i] = append(w.arrived[i], a)
		w.pool.Recycle(frame)
		return true
	}
	w.nodes = append(w.nodes, New(c))
	w.arrived = append(w.arrived, nil)
	return i
}

// join connects two ports.
func (w *world) join(a, b end, l hardware.Link) {
	w.peers[a], w.peers[b] = b, a
	w.nodes[a.node].Connect(w.now, a.port, l)
	w.nodes[b.node].Connect(w.now, b.port, l)
}

// activate brings every joined port to ACTIVE, with a LID for adapters.
func (w *world) activate(c hardware.PortConfig) {
	if c.MTU == 0 {
		c.MTU = 4096
	}
	if c.VLs == 0 {
		c.VLs = portLanes
	}
	if c.HOQLife == 0 {
		c.HOQLife = hardware.Unlimited
	}
	w.run(w.now + time.Microsecond)
	for e := range w.peers {
		own := c
		if n := w.nodes[e.node]; !n.config.Switch {
			own.LID = lidOf(e.node)
		}
		w.nodes[e.node].Configure(e.port, &own)
		if !w.nodes[e.node].SetLink(e.port, hardware.LinkArm) || !w.nodes[e.node].SetLink(e.port, hardware.LinkActivate) {
			w.t.Fatalf("port %v: %+v", e, w.nodes[e.node].Link(e.port))
		}
	}
	w.run(w.now + time.Microsecond)
}

func lidOf(node int) uint16 { return uint16(node + 1) }

// routes sets a switch's linear table: the port to each adapter.
func (w *world) routes(node int, ports map[int]int) {
	var t smp.LinearForwarding
	for i := range t {
		t[i] = smp.NoPort
	}
	for to, out := range ports {
		t[lidOf(to)] = uint8(out)
	}
	w.nodes[node].SetForwarding(0, &t)
	w.nodes[node].ConfigureSwitch(&hardware.SwitchConfig{LinearTop: 63, LifeTime: hardware.Unlimited,
		DefaultMulticastPrimary: smp.NoPort, DefaultMulticastNotPrimary: smp.NoPort})
}

// drain moves the frames that leave now onto their links.
func (w *world) drain(i int) {
	for {
		number, frame := w.nodes[i].Next(w.now)
		if frame == nil {
			return
		}
		from := end{i, number}
		if len(frame) > ib.FlowControlLen {
			w.sent[from] += uint64(len(frame) - ib.VCRCLen)
		}
		if w.lose != nil && w.lose(from, frame) {
			w.pool.Recycle(frame)
			continue
		}
		w.frames.Push(w.now+cable, flight{w.peers[from], frame})
	}
}

// run runs the world until a time, or until nothing is left to do.
func (w *world) run(until time.Duration) {
	for steps := 0; ; steps++ {
		for i := range w.nodes {
			w.drain(i)
		}
		next := until
		if at, ok := w.frames.Next(); ok {
			next = min(next, at)
		}
		for _, n := range w.nodes {
			next = min(next, n.Deadline())
		}
		if next >= until && until != port.Never || next == port.Never {
			w.now = max(w.now, min(until, next))
			if until != port.Never {
				w.now = until
			}
			return
		}
		if steps > 10_000_000 {
			w.t.Fatalf("no end at %v", w.now)
		}
		w.now = next
		for {
			f, _, ok := w.frames.Pop(w.now)
			if !ok {
				break
			}
			w.nodes[f.to.node].Receive(w.now, f.to.port, f.frame)
		}
	}
}

// datagram is a packet with its source and a number in the payload.
func (w *world) datagram(src int, dst ib.LID, sl uint8, seq uint32, size int) []byte {
	payload := make([]byte, max(8, size&^3))
	binary.BigEndian.PutUint32(payload, uint32(src))
	binary.BigEndian.PutUint32(payload[4:], seq)
	h := ib.LRH{SL: sl, Next: ib.LocalBTH, DLID: dst, SLID: ib.LID(lidOf(src))}
	frame := ib.AppendNative(w.pool.Buffer(0), h, nil,
		&ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: 0xffff, DestQPN: 5}, Payload: payload})
	return frame
}

// send sends a datagram and reports whether the node took it.
func (w *world) send(src, dst int, sl uint8, seq uint32, size int) bool {
	ok := w.nodes[src].Send(w.now, 1, w.datagram(src, ib.LID(lidOf(dst)), sl, seq, size))
	w.drain(src)
	return ok
}

// A stream sends datagrams from one adapter to another as fast as they are taken.
type stream struct {
	src, dst int
	sl       uint8
	size     int
	total    uint32
	next     uint32
}

// saturate runs streams until they have ended or nothing moves for a while.
func (w *world) saturate(streams []*stream) (finished bool) {
	const pause = 2 * time.Microsecond
	for idle := 0; idle < 50; {
		before := 0
		for _, a := range w.arrived {
			before += len(a)
		}
		left := false
		for _, s := range streams {
			for s.next < s.total && w.send(s.src, s.dst, s.sl, s.next, s.size) {
				s.next++
			}
			left = left || s.next < s.total
		}
		w.run(w.now + pause)
		after := 0
		for _, a := range w.arrived {
			after += len(a)
		}
		if idle++; after > before {
			idle = 0
		}
		if !left && idle == 20 {
			return true
		}
	}
	return false
}

// checkOrder checks that each node got the numbers of each source and service level from 0 on
// without a gap, and returns how many packets arrived.
func (w *world) checkOrder() (total int) {
	for node, list := range w.arrived {
		next := map[string]uint32{}
		for _, a := range list {
			flow := fmt.Sprint(a.src, a.lrh.SL)
			if a.seq != next[flow] {
				w.t.Fatalf("node %d: packet %d of flow %s, expected %d", node, a.seq, flow, next[flow])
			}
			next[flow]++
			total++
		}
	}
	return total
}

// checkCounters compares the counters of both ends of each link with the bytes sent.
func (w *world) checkCounters() {
	for a, b := range w.peers {
		out, in := w.nodes[a.node].Counters(a.port), w.nodes[b.node].Counters(b.port)
		if 4*out.XmitData != w.sent[a] || 4*in.RcvData != w.sent[a] || out.XmitPackets != in.RcvPackets {
			w.t.Errorf("link %v to %v: %d bytes, counted %d and %d; packets %d and %d",
				a, b, w.sent[a], 4*out.XmitData, 4*in.RcvData, out.XmitPackets, in.RcvPackets)
		}
		if in.ExcessiveBufferOverruns != 0 {
			w.t.Errorf("%v sent %d packets without credit", a, in.ExcessiveBufferOverruns)
		}
	}
}

// line is n switches in a row with an adapter at each end: adapters 0 and 1, switches from 2
// on. Port 1 of a switch leads to adapter 0, port 2 to adapter 1.
func line(w *world, switches int, c Config) {
	a, b := w.add(Config{Ports: 1, Port: c.Port}), w.add(Config{Ports: 1, Port: c.Port})
	last := end{a, 1}
	c.Switch, c.Ports = true, 2
	for range switches {
		s := w.add(c)
		w.join(last, end{s, 1}, linkQDR4x)
		w.routes(s, map[int]int{a: 1, b: 2})
		last = end{s, 2}
	}
	w.join(last, end{b, 1}, linkQDR4x)
}

var seeds = func() (all []uint64) {
	for s := range uint64(30) {
		all = append(all, s)
	}
	return all
}()

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
