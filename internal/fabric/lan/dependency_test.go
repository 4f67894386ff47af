package lan

import (
	"flag"
	"math/rand/v2"
	"testing"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/topology"
	"softrdma/internal/waitgraph"
	"softrdma/internal/wire/ethernet"
)

var deadlockSeeds = flag.Int("deadlock-seeds", 40, "number of random networks in which deadlocks are compared with those that are possible")

func TestPossibleDeadlocksFollowFromRoutes(t *testing.T) {
	raise := bridge.Config{Remark: bridge.RaisePriorities(3, 6)}
	for _, c := range []struct {
		text   string
		upDown bool
		sw     bridge.Config
		sets   int // of channels in circles
		length int // of the circle, if it is certain
	}{
		{text: "star:5"},
		{text: "fat-tree:k=4"},
		{text: "leaf-spine:leaves=5,spines=3,hosts=2"},
		{text: "ring:3"},                                // each switch is beside each other one
		{text: "ring:5", sets: 2, length: 5},            // both directions
		{text: "ring:5", sw: raise},                     // a path has three switches at most
		{text: "ring:9", sw: raise, sets: 2, length: 9}, // and here five: the last priority stays
		{text: "ring:9", upDown: true},                  // one link is not passed through
		{text: "torus:5x5", sets: 1, length: 4},         // any turn is allowed
		{text: "torus:5x5", upDown: true},
		{text: "mesh:4x4", sets: 1, length: 4},
		{text: "mesh:4x4", upDown: true},
		{text: "hyperx:3x3", sets: 1, length: 4},
		{text: "hyperx:3x3", sw: raise},
		{text: "dragonfly:routers=4,global=2,hosts=2", sets: 1},
		{text: "dragonfly:routers=4,global=2,hosts=2", sw: raise},
		{text: "fat-tree:k=4,failed=12,seed=1", upDown: true}, // leaves with one way up
	} {
		link := lossless()
		link.Port.Lossless = 0xf8
		n := New(Config{Fabric: generate(t, c.text), Link: link, Switch: c.sw, UpDown: c.upDown})
		d := n.Dependencies(1 << 3)
		sets := d.Circles()
		if len(sets) != c.sets {
			t.Errorf("%s, up and down %v: %d sets of circles, expected %d: %v", c.text, c.upDown, len(sets), c.sets, sets)
			continue
		}
		for _, s := range sets {
			circle := d.Circle(s)
			if c.length != 0 && len(circle) != c.length {
				t.Errorf("%s: a circle of %d channels, expected %d: %v", c.text, len(circle), c.length, circle)
			}
			n.follows(t, d, circle)
		}
	}
}

// Lossy priorities and links without pauses wait for nothing.
func TestOnlyPausesDeadlock(t *testing.T) {
	for _, change := range []func(l *Link){
		func(l *Link) { l.Port.Pause = dcb.NoPause },
		func(l *Link) { l.Port.Lossless = 1 << 4 },
	} {
		link := lossless()
		change(&link)
		if sets := New(Config{Fabric: generate(t, "ring:6"), Link: link}).Dependencies(1 << 3).Circles(); len(sets) != 0 {
			t.Errorf("%+v: %v", link.Port, sets)
		}
	}
	link := lossless()
	link.Port.Pause = dcb.WholeLink
	if sets := New(Config{Fabric: generate(t, "ring:6"), Link: link}).Dependencies(1 << 3).Circles(); len(sets) != 2 {
		t.Errorf("802.3x: %v", sets)
	}
}

// follows checks that each channel of a circle can wait for the next one.
func (n *Network) follows(t testing.TB, d *Dependencies, circle []Channel) {
	t.Helper()
	for i, c := range circle {
		if next := circle[(i+1)%len(circle)]; !d.Wait(c, next) {
			t.Errorf("%s on priority %d waits for %s on %d, which the routes do not let it", n.config.Fabric.EndName(c.End), c.Priority, n.config.Fabric.EndName(next.End), next.Priority)
		}
	}
}

// tight gives switches little room beside their headroom.
func tight(c *Config, room int) {
	ports := 0
	for i := range c.Fabric.Nodes {
		ports = max(ports, c.Fabric.Nodes[i].NumPorts())
	}
	c.Switch.Buffer.Size = 5*ports*dcb.Headroom(&c.Link.Port, bridge.DefaultCell, dcb.MinFrame, DefaultCable, 0) + room
}

// deadlocking makes a network, most of which deadlock if their routes allow it: with little shared
// room, and flows over many hops.
func deadlocking(t *testing.T, seed uint64) *world {
	r := rand.New(rand.NewPCG(seed, 5))
	link := lossless()
	link.Port.Lossless = 0x7c
	link.Port.Pause = pick(r, dcb.ByClass, dcb.ByClass, dcb.WholeLink)
	c := Config{Link: link, Seed: r.Uint64(), UpDown: r.IntN(4) == 0}
	c.Fabric = generate(t, pick(r, "ring:4,hosts=2", "ring:5,hosts=2", "ring:6,hosts=2", "ring:7", "torus:3x3", "torus:4x3", "mesh:3x3,hosts=2", "hyperx:3x3",
		"dragonfly:routers=3,global=1,hosts=2", "leaf-spine:leaves=5,spines=3,hosts=3,failed=6", "fat-tree:k=4,failed=12"))
	if r.IntN(3) == 0 {
		c.Switch.Remark = bridge.RaisePriorities(2, 2+uint8(r.IntN(5)))
	}
	c.Switch.Balance = pick(r, bridge.ByFlow, bridge.Spray)
	tight(&c, pick(r, 64<<10, 256<<10))
	c.Switch.Buffer.Lossless = bridge.Alpha(-1 - r.IntN(5))
	w := newWorld(t, c)
	h := w.hosts()
	for i, from := range h {
		for _, to := range []int{h[(i+len(h)/2-r.IntN(2))%len(h)], h[(i+len(h)/3)%len(h)], pick(r, h...)} {
			if to != from {
				w.add(flow{from: from, to: to, priority: 2 + uint8(r.IntN(2)), frames: 100000})
			}
		}
	}
	return w
}

// TestDeadlocksAreThoseThatAreFound runs random networks for some time, and then until nothing moves,
// without new traffic. Hosts take everything, so frames that are left are in a deadlock, whatever the
// analyses say:
//
//   - Standstill names one then, and at no time one in a network that becomes empty.
//   - What it says to wait for a deadlock never moves again.
//   - Pauses wait for each other only where the routes let them, and a deadlock forms only if the routes
//     have a circle. If there is one, traffic can be chosen that deadlocks.
func TestDeadlocksAreThoseThatAreFound(t *testing.T) {
	var n struct{ possible, deadlocks, others, provoked int }
	for k := range uint64(*deadlockSeeds) + 1 {
		seed := k
		if k == uint64(*deadlockSeeds) {
			seed = 4351 // the end of a pause of the circle is under way
		}
		w := deadlocking(t, seed)
		d := w.net.Dependencies(1<<2 | 1<<3)
		sets := d.Circles()
		var named []still
		for w.net.Now() < 400*dcb.Microsecond && len(named) == 0 {
			w.net.Run(w.net.Now() + 50*dcb.Microsecond)
			named = w.named(d)
		}
		left := w.drain()
		switch {
		case len(named) > 0 && left == 0:
			t.Errorf("a deadlock of %v, and then all frames arrived", named)
		case left > 0 && len(w.named(d)) == 0:
			t.Errorf("%d frames never arrive, and no deadlock is found: %+v", left, w.net.Standstill(0))
		case left > 0 && len(sets) == 0:
			t.Errorf("a deadlock, which the routes exclude: %+v", w.net.Standstill(0))
		}
		for _, k := range named {
			if sent := w.net.port(w.net.end(k.End)).Counters(k.Priority).Sent.Frames; sent != k.sent {
				t.Errorf("%v was said to wait for a deadlock, and %d frames moved", k.Channel, sent-k.sent)
			}
		}
		switch {
		case left > 0:
			n.deadlocks++
		case len(sets) > 0 && seed%4 == 0:
			n.others++
			if provoke(t, w.net.config, 1<<2|1<<3, d.Circle(sets[0])) {
				n.provoked++
			}
		}
		if len(sets) > 0 {
			n.possible++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d networks, %d can deadlock, %d did; of %d others %d did with chosen traffic", *deadlockSeeds, n.possible, n.deadlocks, n.others, n.provoked)
	if *deadlockSeeds >= 40 && (n.deadlocks < 5 || n.possible == *deadlockSeeds) {
		t.Errorf("%d of %d networks can deadlock, and %d did: expected some of each kind", n.possible, *deadlockSeeds, n.deadlocks)
	}
}

// A still is a channel that waits for a deadlock, and what it had sent before.
type still struct {
	Channel
	sent uint64
}

// named returns the channels of which Standstill says that they wait for a deadlock, and checks that the
// routes let them.
func (w *world) named(d *Dependencies) (all []still) {
	w.t.Helper()
	s := w.net.Standstill(0)
	for _, k := range s.Waits {
		if k.Cause != waitgraph.Deadlock {
			continue
		}
		all = append(all, still{k.Channel, w.net.port(w.net.end(k.End)).Counters(k.Priority).Sent.Frames})
		for _, next := range k.Next {
			if !d.Wait(k.Channel, next) {
				w.t.Errorf("%v waits for %v, which the routes do not let it", k.Channel, next)
			}
		}
	}
	if (len(all) > 0) != (len(s.Deadlock) > 0) {
		w.t.Errorf("the deadlock is %v, and %v wait for one", s.Deadlock, all)
	}
	w.net.follows(w.t, d, s.Deadlock)
	return all
}

// drain sends nothing new, runs until nothing moves for longer than a pause lasts, and returns the number of
// frames that are left.
func (w *world) drain() (left int) {
	for _, k := range w.all {
		k.frames = k.sent
		k.fate = k.fate[:k.sent]
	}
	moved := func() (n uint64) {
		for i := range w.net.ends {
			for priority := range uint8(ethernet.Priorities) {
				n += w.net.port(&w.net.ends[i]).Counters(priority).Sent.Frames
			}
		}
		return n
	}
	for before := uint64(0); before != moved(); w.net.Run(w.net.Now() + dcb.Millisecond) {
		before = moved()
	}
	for _, k := range w.all {
		left += k.sent - k.delivered - k.dropped
	}
	return left
}

// provoke reports whether a network deadlocks if flows are chosen that fill the channels of a circle: of each
// two that follow each other some flows use both. Priorities are those on which hosts may send.
func provoke(t *testing.T, c Config, priorities uint8, circle []Channel) bool {
	for number := range 3 {
		w := newWorld(t, c)
		for i, at := range circle {
			w.fill(at, circle[(i+1)%len(circle)], priorities, 1+2*number)
		}
		for w.net.Now() < 2*dcb.Millisecond {
			w.net.Run(w.net.Now() + 100*dcb.Microsecond)
			if len(w.net.Standstill(0).Deadlock) > 0 {
				return w.drain() > 0
			}
		}
	}
	return false
}

// fill adds a number of flows that use a channel and then another one, each from another host if possible.
func (w *world) fill(at, next Channel, priorities uint8, number int) {
	hosts := w.hosts()
	for port := uint16(1); port < 8 && number > 0; port++ {
		for k := range hosts {
			from := hosts[(k+int(port))%len(hosts)]
			for _, to := range hosts {
				if from == to || number == 0 {
					continue
				}
				for priority := range uint8(ethernet.Priorities) {
					if priorities&(1<<priority) == 0 || !w.uses(from, to, port, priority, at, next) {
						continue
					}
					w.add(flow{from: from, to: to, priority: priority, port: port, frames: 100000})
					number--
					break
				}
			}
		}
	}
}

// uses reports whether the path of a flow leads over a channel and then over another one.
func (w *world) uses(from, to int, port uint16, priority uint8, at, next Channel) bool {
	n := w.net
	f := n.Pool().Frame()
	defer n.Pool().Put(f)
	n.Address(f, from, to, port)
	f.DSCP = priority << 3
	before := Channel{topology.End{Node: from, Port: 1}, priority}
	for {
		in := n.ends[n.end(before.End).peer].at
		sw := n.Switch(in.Node)
		if sw == nil {
			return false
		}
		h, among, _ := sw.Path(f)
		if len(among) == 0 {
			return false
		}
		f.DSCP = sw.Remarked(f.DSCP)
		c := Channel{topology.End{Node: in.Node, Port: h.Port}, sw.PriorityOf(in.Port, f.DSCP)}
		a, _ := n.channel(before)
		b, _ := n.channel(c)
		if a == at && b == next {
			return true
		}
		before = c
	}
}

// Circles of what the routes allow are no false alarm: flows that fill one deadlock.
func TestPossibleDeadlocksCanBeProvoked(t *testing.T) {
	raise := bridge.Config{Remark: bridge.RaisePriorities(3, 6)}
	for _, c := range []struct {
		text  string
		sw    bridge.Config
		pause dcb.Mode
	}{
		{text: "ring:4"}, {text: "ring:5"}, {text: "ring:8,hosts=2"}, {text: "ring:9", sw: raise}, {text: "ring:6", pause: dcb.WholeLink},
		{text: "torus:5x5"}, {text: "mesh:4x4"}, {text: "hyperx:3x3"}, {text: "dragonfly:routers=4,global=2,hosts=2"},
		{text: "leaf-spine:leaves=5,spines=3,hosts=3,failed=6,seed=3"},
	} {
		link := lossless()
		link.Port.Lossless = 0xf8
		link.Port.Selection = ethernet.ETS{} // in turn: strict ones would let the last priority of ring:9 drain first
		if c.pause != 0 {
			link.Port.Pause = c.pause
		}
		config := Config{Fabric: generate(t, c.text), Link: link, Switch: c.sw}
		tight(&config, 64<<10)
		config.Switch.Buffer.Lossless = -3
		d := New(config).Dependencies(1 << 3)
		for _, set := range d.Circles() {
			if circle := d.Circle(set); !provoke(t, config, 1<<3, circle) {
				t.Errorf("%s: no deadlock of %v", c.text, circle)
			}
		}
	}
}
