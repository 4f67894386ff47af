package lan

import (
	"testing"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
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
