package simnet_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

// A bond is the memory path between two hosts of a world, which may be joined and parted.
type bond struct {
	w    *world
	a, b *host
	rng  *rand.Rand
	path *rig.Bond // nil while there is none
	due  time.Duration
}

// joinHosts connects most pairs of hosts through memory, permanently or at intervals.
func (w *world) joinHosts() {
	rng := w.net.Random(4 << 32)
	for i, a := range w.hosts {
		for _, b := range w.hosts[:i] {
			if rng.IntN(5) == 0 {
				continue
			}
			x := &bond{w: w, a: a, b: b, rng: rng, due: machine.Never}
			x.change()
			if rng.IntN(2) == 0 {
				x.due = 0
				w.profile.lossy, w.profile.disorder = true, true // when the path changes
				w.net.Drive(x)
			}
			w.bonds = append(w.bonds, x)
		}
	}
}

// change ends the path if there is one, else begins one.
func (x *bond) change() {
	if x.path != nil {
		x.path.Part()
		x.w.stats.referred += x.path.Referred()
		x.path = nil
		return
	}
	var err error
	c := rig.BondConfig{Offer: x.rng.IntN(3) > 0}
	if x.rng.IntN(4) == 0 {
		c.Fails = func() bool { return x.rng.IntN(8) == 0 }
	}
	if x.path, err = rig.Join(x.a.Host, x.b.Host, c); err != nil {
		x.w.fail("joining: %v", err)
	}
	x.w.stats.bonds++
}

// Progress implements simnet.Driver.
func (x *bond) Progress() time.Duration {
	now := x.w.net.Clock()
	if x.w.ending && x.due > 0 {
		return machine.Never
	}
	if now >= x.due {
		if x.due > 0 {
			x.change()
		}
		x.due = now + 1 + time.Duration(x.rng.Int64N(int64(20*time.Millisecond)))
	}
	return x.due
}

// endBonds ends all paths, before the devices close.
func (w *world) endBonds() {
	for _, x := range w.bonds {
		w.net.Release(x)
		if x.path != nil {
			x.change()
		}
	}
}

// TestSeedsThroughMemory runs worlds whose devices reach each other through memory,
// permanently or at intervals, with the same transports and the same model.
func TestSeedsThroughMemory(t *testing.T) {
	if *oneSeed != 0 {
		replay(t, throughMemory)
		return
	}
	n := uint64(*seedCount)
	if testing.Short() {
		n = min(n, 100)
	}
	sum := tally{manners: make(map[manner]int)}
	failed := 0
	for i := range n {
		seed := mixed(3_000_000 + *firstSeed + i)
		w := newWorldOver(seed, throughMemory)
		if err := w.run(); err != nil {
			t.Errorf("%s: %v\n\tgo test ./internal/simnet -run TestSeedsThroughMemory -seed=%#x", w.profile.name, err, seed)
			if failed++; failed == 10 {
				t.Fatal("giving up")
			}
		}
		sum.add(&w.stats)
		sum.bonds += w.stats.bonds
		sum.referred += w.stats.referred
	}
	t.Logf("%d seeds, %d paths, %d references: %v", n, sum.bonds, sum.referred, &sum)
	for op := range queue.AtomicWrite + 1 {
		if op.Known() && sum.ops[op] == 0 {
			t.Errorf("operation %d never succeeded", op)
		}
	}
	if sum.referred == 0 {
		t.Error("no payload was referred to")
	}
	for _, r := range []reason.Reason{reason.SequenceAhead, reason.PacketRepeated, reason.CongestionNotified} {
		if sum.refusals[r] == 0 {
			t.Errorf("nothing was refused for %v", r)
		}
	}
}

// A flap ends and begins a path at intervals.
type flap struct {
	t     *testing.T
	net   *simnet.Network
	hosts [2]*rig.Host
	rng   *rand.Rand
	path  *rig.Bond
	due   time.Duration
}

func (f *flap) change() {
	if f.path != nil {
		f.path.Part()
		f.path = nil
		return
	}
	var err error
	c := rig.BondConfig{Offer: f.rng.IntN(2) > 0}
	if f.rng.IntN(2) == 0 {
		c.Fails = func() bool { return f.rng.IntN(8) == 0 }
	}
	if f.path, err = rig.Join(f.hosts[0], f.hosts[1], c); err != nil {
		f.t.Fatal(err)
	}
}

// Progress implements simnet.Driver.
func (f *flap) Progress() time.Duration {
	if now := f.net.Clock(); now >= f.due {
		f.change()
		f.due = now + 1 + time.Duration(f.rng.Int64N(int64(100*time.Microsecond)))
	}
	return f.due
}

// TestMemoryChangesNoStatusAndNoByte checks that a program sees the same completions in the
// same order through memory, permanently or at intervals, as over the network, and leaves the
// same memory.
func TestMemoryChangesNoStatusAndNoByte(t *testing.T) {
	n := uint64(*seedCount)
	if testing.Short() {
		n = min(n, 50)
	}
	const requests = 40
	for i := range n {
		seed := mixed(4_000_000 + *firstSeed + i)
		rng := rand.New(rand.NewPCG(seed, 0))
		faults := simnet.Faults{Delay: 10 * time.Microsecond}
		if rng.IntN(2) == 0 {
			faults.Loss = 0.02
		}
		perform := func(join func(p *performance)) *performance {
			p := newPerformance(t, manner{}, faults)
			p.draw = seed
			join(p)
			p.run(t, p.program(requests))
			return p
		}
		network := perform(func(*performance) {})
		want := network.bytes()
		for name, join := range map[string]func(p *performance){
			"all the time": func(p *performance) { (&flap{t: t, net: p.net, hosts: p.hosts, rng: rng}).change() },
			"now and then": func(p *performance) { p.net.Drive(&flap{t: t, net: p.net, hosts: p.hosts, rng: rng}) },
		} {
			p := perform(join)
			p.compare(t, fmt.Sprintf("seed %#x, memory %s", seed, name), network, want)
			if sent, _ := p.hosts[0].Link.Stats(); name == "all the time" && sent.Packets != 0 {
				t.Fatalf("%d packets took the network", sent.Packets)
			}
		}
	}
}
