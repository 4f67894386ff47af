package lan

import (
	"testing"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
)

// A host that pauses its switch without end stops the traffic to it, and what is behind that at the same
// ports. Watchdogs at the switch drop what is for the host, so the others continue. Pauses of lossy
// priorities are ignored.
func TestPausesWithoutEndAreControlled(t *testing.T) {
	for _, c := range []struct {
		priorities uint8 // that the host pauses
		watchdog   bool
		harm       bool // the victim does not arrive
		storms     bool
	}{
		{1 << 3, false, true, false},
		{1 << 3, true, false, true},
		{^uint8(1 << 3), false, false, false},
	} {
		ring := generate(t, "star:3")
		config := Config{Link: lossless()}
		config.Fabric = ring
		config.Switch.Buffer.Size, config.Switch.Buffer.Lossless = 512<<10, -3
		config.Each = func(e topology.End, l *Link) {
			if c.watchdog && ring.Nodes[e.Node].Kind == topology.Switch {
				l.Port.Watchdog = dcb.Watchdog{Detect: 200 * dcb.Microsecond, Restore: 200 * dcb.Microsecond}
			}
		}
		w := newWorld(t, config)
		h := w.hosts()
		storm := ethernet.Control{Src: w.net.MAC(h[0]).MAC(), Op: ethernet.OpPFC, Enable: c.priorities}
		for i := range storm.Quanta {
			storm.Quanta[i] = ethernet.MaxQuanta
		}
		pause := func() {
			f := w.net.Pool().Frame()
			f.Data = storm.Append(f.Data[:0])
			if d := f.Parse(); d.Reason != reason.None {
				t.Fatal(d)
			}
			w.net.Send(w.net.Now(), h[0], f)
		}
		pause()
		w.net.Run(10 * dcb.Microsecond)
		w.add(flow{from: h[1], to: h[0], priority: 3, frames: 2000})
		victim := w.add(flow{from: h[1], to: h[2], priority: 3, frames: 2000})
		for range 20 {
			pause()
			w.net.Run(w.net.Now() + 100*dcb.Microsecond)
		}
		if harm := victim.delivered < victim.frames; harm != c.harm {
			t.Errorf("%+v: %d of %d frames of the victim arrived", c, victim.delivered, victim.frames)
		}
		if (w.drops[reason.EthernetPauseStorm] > 0) != c.storms {
			t.Errorf("%+v: dropped %v", c, w.drops)
		}
		w.finish() // the last pause ends
	}
}
