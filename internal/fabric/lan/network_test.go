package lan

import (
	"testing"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
)

func TestFrameTakesTheTimeOfItsPath(t *testing.T) {
	w := newWorld(t, Config{Fabric: generate(t, "star:2"), Link: lossless()})
	h := w.hosts()
	k := w.add(flow{from: h[0], to: h[1], priority: 3, frames: 1})
	w.finish()
	// 230 ns in the switch, two cables, and the frame's 1,518 bytes once: it is cut through.
	if want := 230*dcb.Nanosecond + 2*DefaultCable + dcb.DefaultMTU*80; k.done != want {
		t.Errorf("arrived after %d ps, expected %d", k.done, want)
	}
}

// The time follows from the speeds and the lengths that the fabric has. A frame is cut through unless
// it comes from a slower link: then its last byte leaves no sooner than it has arrived.
func TestFrameTakesTheTimeOfTheLinksOfItsFabric(t *testing.T) {
	for _, c := range []struct {
		text string
		want dcb.Time
	}{
		{"star:2,speed=10G", 230*dcb.Nanosecond + 2*DefaultCable + dcb.DefaultMTU*800},
		{"star:2,speed=400G,length=2.5m", 230*dcb.Nanosecond + 2*12500*dcb.Nanosecond/1000 + dcb.DefaultMTU*20},
		{"leaf-spine:leaves=2,spines=1,hosts=1,speed=100G,length=3m,switch-length=30m", 3*230*dcb.Nanosecond + (2*15+2*150)*dcb.Nanosecond + dcb.DefaultMTU*80},
		{"leaf-spine:leaves=2,spines=1,hosts=1,speed=25G,switch-speed=100G", 3*230*dcb.Nanosecond + 4*DefaultCable + dcb.DefaultMTU*(320-80) + dcb.DefaultMTU*320},
	} {
		w := newWorld(t, Config{Fabric: generate(t, c.text), Link: lossless()})
		h := w.hosts()
		k := w.add(flow{from: h[0], to: h[1], priority: 3, frames: 1})
		w.finish()
		if k.done != c.want {
			t.Errorf("%s: arrived after %d ps, expected %d", c.text, k.done, c.want)
		}
	}
}

func TestOneFlowHasTheWholeLink(t *testing.T) {
	w := newWorld(t, Config{Fabric: generate(t, "fat-tree:k=4"), Link: lossless()})
	h := w.hosts()
	k := w.add(flow{from: h[0], to: h[15], priority: 3, frames: 1000})
	w.finish()
	if wire := dcb.Time(1000*dcb.WireLen(dcb.DefaultMTU)) * 80; k.done < wire || k.done > wire+5*dcb.Microsecond || k.disorder != 0 {
		t.Errorf("done after %d ps with %d frames out of order, expected %d and a little more", k.done, k.disorder, wire)
	}
}

func TestIncastWithPFCLosesNothing(t *testing.T) {
	for _, c := range []struct {
		priority uint8
		lossless bool
	}{{3, true}, {0, false}} {
		cfg := Config{Fabric: generate(t, "star:16"), Link: lossless()}
		cfg.Switch.Buffer.Size = 4 << 20
		w := newWorld(t, cfg)
		h := w.hosts()
		for _, from := range h[1:] {
			w.add(flow{from: from, to: h[0], priority: c.priority, frames: 400})
		}
		w.finish()
		lost := 0
		for _, n := range w.drops {
			lost += n
		}
		if c.lossless != (lost == 0) {
			t.Errorf("priority %d: dropped %v", c.priority, w.drops)
		}
		if !c.lossless && w.drops[reason.EthernetQueueFull]+w.drops[reason.EthernetBufferFull] != lost {
			t.Errorf("dropped %v, expected full queues and buffers alone", w.drops)
		}
	}
}

// busy makes two switches of which one sends to the other as fast as it can, on a cable of a delay,
// while frames go the other way as well. The receiving host stalls at times.
func busy(t *testing.T, delay dcb.Time, speed dcb.Speed, mtu int, headroom int) *world {
	t.Helper()
	link := lossless()
	link.Port.Speed, link.Port.MTU, link.Cable, link.Headroom = speed, mtu, delay, headroom
	if headroom == 0 {
		headroom = dcb.Headroom(&link.Port, 256, dcb.MinFrame, delay, 0)
	}
	c := Config{Fabric: generate(t, "mesh:2,hosts=3"), Link: link}
	c.Switch.Buffer.Size = 5*headroom + 256<<10 // the shared part is always the same
	c.Switch.Buffer.Lossless = -8
	w := newWorld(t, c)
	h := w.hosts()
	frames := 40 + int(6*delay/(dcb.Time(dcb.WireLen(mtu))*speed.PerByte()))
	for i := range 3 {
		w.add(flow{from: h[i], to: h[3], priority: 3, frames: frames, length: int32(mtu)})
		w.add(flow{from: h[3+i], to: h[i], priority: uint8(i), frames: frames, length: int32(mtu)})
	}
	return w
}

// lost returns the number of frames of a priority that were dropped.
func (w *world) lost(priority uint8) (n int) {
	for _, k := range w.all {
		if k.priority == priority {
			n += k.dropped
		}
	}
	return n
}

// peak returns the most headroom that a port of the network has used.
func (w *world) peak() (most int) {
	for i := range w.net.nodes {
		if s := w.net.nodes[i].sw; s != nil {
			for p := 1; p <= s.Ports(); p++ {
				_, _, peak := s.Held(p, 3)
				most = max(most, peak)
			}
		}
	}
	return most
}

// TestPFCLosesNothingWithTheHeadroomOfItsCable runs the same traffic with the computed headroom,
// with what the traffic needs, and with one cell less. Only the last one loses frames, for a reason
// that names the headroom. Lossy frames go the other way, so that pauses wait for them.
func TestPFCLosesNothingWithTheHeadroomOfItsCable(t *testing.T) {
	for _, c := range []struct {
		metres int
		speed  dcb.Speed
		mtu    int
	}{{1, 100, 1518}, {5, 25, 1518}, {30, 100, 4200}, {100, 400, 1518}, {300, 100, 9216}, {2000, 100, 1518}, {10000, 10, 1518}, {3, 800, 9216}, {100, 1, 1518}} {
		delay, speed := dcb.Time(c.metres)*5*dcb.Nanosecond, c.speed*dcb.Gbit
		w := busy(t, delay, speed, c.mtu, 0)
		w.finish()
		need := w.peak()
		port := w.net.ends[0].link.Port
		least, most := dcb.Headroom(&port, 256, c.mtu, delay, 0), dcb.Headroom(&port, 256, dcb.MinFrame, delay, 0)
		if w.lost(3) != 0 || need == 0 || need > least || least > most {
			t.Errorf("%d m, %d Gbit/s: %d bytes of headroom used, computed %d for such frames and %d for all, drops %v", c.metres, c.speed, need, least, most, w.drops)
			continue
		}
		if w = busy(t, delay, speed, c.mtu, need); true {
			if w.finish(); w.lost(3) != 0 {
				t.Errorf("%d m, %d Gbit/s: %d bytes are enough, dropped %v", c.metres, c.speed, need, w.drops)
			}
		}
		w = busy(t, delay, speed, c.mtu, need-256)
		if w.finish(); w.lost(3) == 0 || w.drops[reason.EthernetHeadroom] != w.lost(3) {
			t.Errorf("%d m, %d Gbit/s: one cell less than %d bytes, dropped %v", c.metres, c.speed, need, w.drops)
		}
	}
}

func TestSharesOfTheLinkComeOut(t *testing.T) {
	link := lossless()
	link.Port.Selection = ethernet.ETS{Class: [8]uint8{0, 1, 2, 3, 4, 5, 6, 7}, Percent: [8]uint8{10, 20, 70},
		Algorithm: [8]ethernet.Selection{0: ethernet.Enhanced, 1: ethernet.Enhanced, 2: ethernet.Enhanced, 7: ethernet.Strict}}
	link.Port.Lossless = 0xff
	w := newWorld(t, Config{Fabric: generate(t, "star:5"), Link: link})
	h := w.hosts()
	var flows []*flow
	for i, length := range []int32{200, 1518, 700} { // shares are of bytes, whatever the length of frames
		flows = append(flows, w.add(flow{from: h[1+i], to: h[0], priority: uint8(i), frames: 100000, length: length}))
	}
	w.net.Run(500 * dcb.Microsecond)
	total := 0
	for _, k := range flows {
		total += k.bytes
	}
	for i, k := range flows {
		want := float64(link.Port.Selection.Percent[i]) / 100
		if share := float64(k.bytes) / float64(total); share < want-.01 || share > want+.01 {
			t.Errorf("priority %d has %.3f of the link, expected %.2f", i, share, want)
		}
	}
	// A strict class takes what it wants, the others share the rest.
	before := [3]int{flows[0].bytes, flows[1].bytes, flows[2].bytes}
	strict := w.add(flow{from: h[4], to: h[0], priority: 7, frames: 100000})
	begin := w.net.Now()
	w.net.Run(begin + 100*dcb.Microsecond)
	if want := int(100 * dcb.Microsecond / 80 * dcb.DefaultMTU / dcb.Time(dcb.WireLen(dcb.DefaultMTU))); strict.bytes < want*98/100 {
		t.Errorf("the strict class had %d bytes, expected %d", strict.bytes, want)
	}
	for i, k := range flows {
		if got := k.bytes - before[i]; got > 40*dcb.DefaultMTU {
			t.Errorf("priority %d had %d bytes beside a strict class", i, got)
		}
	}
}

// TestVictimOfAPause has senders to one receiver, and a flow that shares a link with some of them but
// not the receiver. The link has room for all. With PFC it is paused for all.
func TestVictimOfAPause(t *testing.T) {
	rate := func(pause dcb.Mode) float64 {
		link := lossless()
		link.Port.Pause = pause
		c := Config{Fabric: generate(t, "mesh:2,hosts=3"), Link: link}
		c.Switch.Buffer.Size = 2 << 20
		c.Each = func(e topology.End, l *Link) {
			if p := c.Fabric.Port(e).Peer; c.Fabric.Nodes[e.Node].Kind == c.Fabric.Nodes[p.Node].Kind {
				l.Port.Speed = 400 * dcb.Gbit
			}
		}
		w := newWorld(t, c)
		h := w.hosts()
		// h[0] and h[1] send to h[3], which h[4] and h[5] load as well; h[2] sends to h[4].
		for _, from := range []int{h[0], h[1], h[4], h[5]} {
			w.add(flow{from: from, to: h[3], priority: 3, frames: 1 << 16})
		}
		victim := w.add(flow{from: h[2], to: h[4], priority: 3, frames: 1 << 16})
		w.net.Run(2 * dcb.Millisecond)
		before := victim.bytes
		w.net.Run(4 * dcb.Millisecond)
		return float64(victim.bytes-before) * 8 / (2e-3 * 100e9)
	}
	with, without := rate(dcb.ByClass), rate(dcb.NoPause)
	if without < .95 || with > .6 {
		t.Errorf("the victim has %.2f of the link with PFC and %.2f without", with, without)
	}
}

// newStalledStar returns a switch with three hosts, the first of which takes no frames.
func newStalledStar(t *testing.T) (w *world, hosts []int) {
	t.Helper()
	c := Config{Fabric: generate(t, "star:3"), Link: lossless()}
	c.Host.Headroom = 1 << 20
	c.Switch.Buffer.Size = 1 << 20
	w = newWorld(t, c)
	hosts = w.hosts()
	w.stall[hosts[0]] = true
	return w, hosts
}

func TestHostThatTakesNothingPausesItsPriority(t *testing.T) {
	w, h := newStalledStar(t)
	slow := w.add(flow{from: h[1], to: h[0], priority: 3, frames: 3000})
	other := w.add(flow{from: h[1], to: h[2], priority: 0, frames: 500})
	w.net.Run(dcb.Millisecond)
	if slow.delivered != 0 || slow.sent == slow.frames || other.delivered != 500 || len(w.drops) != 0 {
		t.Errorf("%d of %d frames arrived at the stalled host, %d sent, %d at the other, dropped %v", slow.delivered, slow.frames, slow.sent, other.delivered, w.drops)
	}
	delete(w.stall, h[0])
	w.net.Resume(w.net.Now(), h[0])
	w.finish()
	if slow.delivered != slow.frames || slow.disorder != 0 {
		t.Errorf("%d frames arrived, %d out of order", slow.delivered, slow.disorder)
	}
}
