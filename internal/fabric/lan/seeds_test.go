package lan

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
)

var seeds = flag.Int("seeds", 60, "number of random networks")

func pick[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// randomConfig makes any network that a user could set up.
func randomConfig(t *testing.T, r *rand.Rand) Config {
	speeds := []dcb.Speed{10 * dcb.Mbit, 100 * dcb.Mbit, dcb.Gbit, 10 * dcb.Gbit, 25 * dcb.Gbit, 40 * dcb.Gbit, 100 * dcb.Gbit, 200 * dcb.Gbit, 400 * dcb.Gbit, 800 * dcb.Gbit}
	base := lossless()
	base.Port.Speed = pick(r, speeds...)
	base.Port.MTU = pick(r, 1518, 4200, 9216)
	base.Port.Pause = pick(r, dcb.NoPause, dcb.ByClass, dcb.ByClass, dcb.WholeLink)
	base.Port.Lossless = pick(r, uint8(1<<3), 1<<3|1<<4, 0xff)
	base.Port.Quanta = pick(r, uint16(0), 100, 2000)
	base.Port.Response = pick(r, 0, 100*dcb.Nanosecond, dcb.Microsecond)
	base.Cable = dcb.Time(1+r.IntN(400)) * 5 * dcb.Nanosecond
	for i := range base.Port.Selection.Class {
		base.Port.Selection.Class[i] = uint8(r.IntN(8))
		base.Port.Selection.Percent[i] = uint8(r.IntN(40))
		base.Port.Selection.Algorithm[i] = pick(r, ethernet.Strict, ethernet.Enhanced, ethernet.Enhanced)
	}
	if r.IntN(2) == 0 {
		base.Port.Watchdog = dcb.Watchdog{Detect: 100 * dcb.Microsecond, Restore: pick(r, 0, 50*dcb.Microsecond), Forward: r.IntN(3) == 0}
	}
	text := pick(r, "star:5", "fat-tree:k=4,levels=2", "fat-tree:k=4", "ring:4", "ring:5,hosts=2", "mesh:3x2", "hyperx:3x2,hosts=2", "dragonfly:routers=2,global=1,hosts=2")
	c := Config{Fabric: generate(t, text), Link: base, Seed: r.Uint64()}
	if r.IntN(3) == 0 { // any speed and length of each cable
		c.Each = func(e topology.End, l *Link) {
			peer := c.Fabric.Port(e).Peer
			h := dcb.Mix(c.Seed ^ uint64(min(e.Node*256+e.Port, peer.Node*256+peer.Port)))
			l.Port.Speed = speeds[h%uint64(len(speeds))]
			l.Cable = dcb.Time(1+h>>8%200) * 5 * dcb.Nanosecond
		}
	}
	if r.IntN(4) == 0 {
		c.Link.Headroom = pick(r, -1, 2048)
	}
	c.Switch.Buffer = bridge.BufferConfig{Size: pick(r, 256<<10, 2<<20, 32<<20), Cell: pick(r, 80, 208, 256), Reserve: pick(r, 0, 1024),
		Lossless: bridge.Alpha(r.IntN(8) - 6), Lossy: bridge.Alpha(r.IntN(8) - 4), Queue: bridge.Alpha(r.IntN(8) - 4)}
	for i := range c.Switch.Marking {
		if r.IntN(2) == 0 {
			c.Switch.Marking[i] = bridge.Marking{Min: 5000, Max: 5000 + r.IntN(100000), Most: r.Float64(), Drop: r.IntN(2) == 0}
		}
	}
	c.Switch.StoreAndForward = r.IntN(2) == 0
	c.Switch.Balance = pick(r, bridge.ByFlow, bridge.ByFlowlet, bridge.Spray)
	c.Host.Headroom = pick(r, 0, 1<<20)
	c.UpDown = r.IntN(3) == 0
	if r.IntN(3) == 0 {
		c.Switch.Remark = bridge.RaisePriorities(uint8(r.IntN(4)), 4+uint8(r.IntN(4)))
	}
	return c
}

// random runs random traffic over a random network of a number of parts, with failures and stalls, and
// returns what identifies the run.
func random(t *testing.T, seed uint64, parts int) string {
	r := rand.New(rand.NewPCG(seed, 8))
	c := randomConfig(t, r)
	c.Parts = parts
	w := newWorld(t, c)
	h := w.hosts()
	for range 3 + r.IntN(12) {
		from := pick(r, h...)
		to := pick(r, h...)
		if from == to {
			continue
		}
		w.add(flow{from: from, to: to, priority: uint8(r.IntN(8)), frames: 1 + r.IntN(400), length: int32(dcb.MinFrame + r.IntN(c.Link.Port.MTU-dcb.MinFrame+1)), ecn: uint8(r.IntN(3))})
	}
	var cut []topology.End
	for range r.IntN(12) {
		w.net.Run(w.net.Now() + dcb.Time(r.IntN(60))*dcb.Microsecond)
		switch r.IntN(4) {
		case 0:
			e := w.randomEnd(r)
			w.net.Cut(e)
			cut = append(cut, e)
		case 1:
			w.stall[pick(r, h...)] = true
		case 2:
			w.net.Reroute()
		}
		w.balance()
		w.net.Standstill(0)
	}
	for _, e := range cut {
		w.net.Repair(e)
	}
	w.net.Reroute()
	clear(w.stall)
	for _, k := range h {
		w.net.Resume(w.net.Now(), k)
	}
	w.net.Run(w.net.Now() + 20*dcb.Millisecond)
	// A deadlock ends when a link fails, and can form again from what still comes. Without one, all
	// frames have an end.
	for range 50 {
		s := w.net.Standstill(dcb.Millisecond)
		for _, e := range s.Deadlock {
			w.net.Cut(e.End)
			w.net.Repair(e.End)
		}
		if w.net.Run(w.net.Now() + 20*dcb.Millisecond); len(s.Deadlock) == 0 {
			break
		}
		cut = append(cut, s.Deadlock[0].End)
	}
	w.finish()
	for _, k := range w.all {
		if k.disorder > 0 && w.net.config.Switch.Balance == bridge.ByFlow && len(cut) == 0 {
			t.Errorf("%d frames from %d to %d out of order", k.disorder, k.from, k.to)
		}
	}
	if n := w.drops[reason.EthernetHeadroom]; n > 0 && c.Link.Headroom == 0 && len(cut) == 0 && !c.Link.Port.Watchdog.Forward && c.Link.Port.Lossless == 1<<3 && !w.host(reason.EthernetHeadroom) && w.room() {
		t.Errorf("%d frames lost with the headroom of their cables", n)
	}
	id := fmt.Sprint(w.net.Events(), w.drops)
	for _, k := range w.all {
		id += fmt.Sprintf(" %d+%d,%d,%d,%d", k.delivered, k.dropped, k.disorder, k.marked, k.done)
	}
	return id
}

// randomEnd returns a port.
func (w *world) randomEnd(r *rand.Rand) topology.End {
	nodes := w.net.Fabric().Nodes
	for {
		if i := r.IntN(len(nodes)); nodes[i].NumPorts() > 0 {
			return topology.End{Node: i, Port: 1 + r.IntN(nodes[i].NumPorts())}
		}
	}
}

// host reports whether the last drop for a reason was at a host.
func (w *world) host(r reason.Reason) bool { return w.net.Host(w.where[r].Node) != nil }

// room reports whether the buffers of all switches have room for their headroom.
func (w *world) room() bool {
	for i := range w.net.nodes {
		if s := w.net.nodes[i].sw; s != nil && !s.Reserve() {
			return false
		}
	}
	return true
}

func TestRandomNetworksKeepEachFrameAccountedFor(t *testing.T) {
	for seed := range uint64(*seeds) {
		first := random(t, seed, 1)
		if seed%8 == 0 { // a network in parts is the same, and so is a repetition
			if again := random(t, seed, 1+int(seed/8)%6); again != first {
				t.Errorf("seed %d: %s, then %s", seed, first, again)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
