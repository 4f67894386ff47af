package lan

import (
	"flag"
	"math/rand/v2"
	"testing"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/waitgraph"
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
func (n *Network) follows(t *testing.T, d *Dependencies, circle []Channel) {
	t.Helper()
	for i, c := range circle {
		if next := circle[(i+1)%len(circle)]; !d.Wait(c, next) {
			t.Errorf("%s on priority %d waits for %s on %d, which the routes do not let it", n.config.Fabric.EndName(c.End), c.Priority, n.config.Fabric.EndName(next.End), next.Priority)
		}
	}
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
	ports := 0
	for i := range c.Fabric.Nodes {
		ports = max(ports, c.Fabric.Nodes[i].NumPorts())
	}
	c.Switch.Buffer.Size = 5*ports*dcb.Headroom(&link.Port, bridge.DefaultCell, dcb.MinFrame, DefaultCable, 0) + pick(r, 64<<10, 256<<10)
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

// TestDeadlocksAreAmongThePossibleOnes runs random networks until they deadlock or some time is over.
// The pauses of each deadlock are ones that can wait for each other by the routes, and one forms only
// where the routes have a circle.
func TestDeadlocksAreAmongThePossibleOnes(t *testing.T) {
	deadlocks, possible := 0, 0
	for seed := range uint64(*deadlockSeeds) {
		w := deadlocking(t, seed)
		d := w.net.Dependencies(1<<2 | 1<<3)
		sets := len(d.Circles())
		if sets > 0 {
			possible++
		}
		for w.net.Now() < 400*dcb.Microsecond {
			w.net.Run(w.net.Now() + 50*dcb.Microsecond)
			s := w.net.Standstill(0)
			if len(s.Deadlock) == 0 {
				continue
			}
			deadlocks++
			if sets == 0 {
				t.Errorf("seed %d: a deadlock of %v, which the routes exclude", seed, s.Deadlock)
			}
			w.net.follows(t, d, s.Deadlock)
			for _, k := range s.Waits {
				for _, next := range k.Next {
					if k.Cause == waitgraph.Deadlock && !d.Wait(k.Channel, next) {
						t.Errorf("seed %d: %v waits for %v, which the routes do not let it", seed, k.Channel, next)
					}
				}
			}
			break
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	t.Logf("%d networks, %d can deadlock, %d did", *deadlockSeeds, possible, deadlocks)
	if *deadlockSeeds >= 40 && (deadlocks < 5 || possible == *deadlockSeeds) {
		t.Errorf("%d of %d networks can deadlock, and %d did: expected some of each kind", possible, *deadlockSeeds, deadlocks)
	}
}
