package hosts

import (
	"math/rand/v2"
	"testing"

	"softrdma/internal/congestion"
	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/fabric/station"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

// A world is hosts whose connections send messages.
type world struct {
	*Hosts
	t        testing.TB
	sent     int
	received int
	alarm    func(now dcb.Time, timer int)
}

func newWorld(t testing.TB, text string, c lan.Config) *world {
	w := &world{t: t}
	var err error
	if c.Fabric, err = topology.Generate(text); err != nil {
		t.Fatal(err)
	}
	if c.Link.Port.Speed == 0 {
		c.Link.Port.Speed = 100 * dcb.Gbit
	}
	c.Host = station.Config{Queue: 1}
	if w.Hosts, err = New(Config{Network: c, Handler: w}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) Sent(now dcb.Time, c *Conn, _ uint64) {
	w.sent++
	c.Close(now)
}
func (w *world) Received(dcb.Time, *Conn, uint32) { w.received++ }
func (w *world) Failed(now dcb.Time, c *Conn, d reason.Detail) {
	w.t.Errorf("at %v: connection from %d to %d failed: %v", now, c.From(), c.To(), d)
}
func (w *world) Alarm(now dcb.Time, timer int) { w.alarm(now, timer) }

func TestMessageArrives(t *testing.T) {
	w := newWorld(t, "star:2", lan.Config{Seed: 1})
	n := w.Nodes()
	w.Connect(0, n[0], n[1], 1, &Sender{Control: congestion.None}).Post(0, 7, 1<<20)
	w.Network().Run(10 * dcb.Millisecond)
	if w.sent != 1 || w.received != 1 || w.Traffic().Received != 1<<20 {
		t.Errorf("%d sent, %d received, %+v", w.sent, w.received, w.Traffic())
	}
}

// Whatever the network loses, delays and reorders, each message arrives once, and nothing is left.
func TestMessagesArriveOverRandomNetworks(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := lan.Config{Seed: seed, Switch: bridge.Config{Balance: bridge.Balance(r.IntN(3))}}
		c.Switch.Telemetry, c.Switch.Buffer = true, bridge.BufferConfig{Size: 20<<10 + r.IntN(200<<10)}
		c.Link.Cable = dcb.Time(1+r.IntN(2000)) * dcb.Nanosecond
		c.Link.Port.Speed = dcb.Gbit * dcb.Speed(1+r.IntN(200))
		if r.IntN(2) == 0 {
			c.Link.Port.Pause, c.Link.Port.Lossless = dcb.ByClass, 1<<3
		}
		c.Switch.Marking[3] = bridge.Marking{Min: r.IntN(50 << 10), Max: 50<<10 + r.IntN(50<<10), Most: r.Float64()}
		w := newWorld(t, []string{"star:5", "fat-tree:k=4", "mesh:2x2,hosts=2", "ring:4"}[r.IntN(4)], c)
		nodes := w.Nodes()
		const messages = 12
		for i := range messages {
			from := r.IntN(len(nodes))
			to := (from + 1 + r.IntN(len(nodes)-1)) % len(nodes)
			s := Sender{
				Control: congestion.Kind(r.IntN(int(congestion.HPCC) + 1)), GoBackN: r.IntN(2) == 0, Priority: 3,
				MTU: 256 << r.IntN(3), Timeout: uint8(8 + r.IntN(4)),
			}
			w.Connect(0, nodes[from], nodes[to], 1, &s).Post(0, uint64(i), uint32(r.IntN(200<<10)))
		}
		w.Network().Run(20 * dcb.Second)
		if w.sent != messages || w.received != messages {
			t.Errorf("seed %d: %d of %d sent, %d received", seed, w.sent, messages, w.received)
		}
		if free := len(w.packets.free); free != slab*len(w.packets.slabs) || w.Network().Pool().Used() != 0 {
			t.Errorf("seed %d: %d packets of %d are free, %d frames are left", seed, free, slab*len(w.packets.slabs), w.Network().Pool().Used())
		}
		if len(w.spare) != 2*messages {
			t.Errorf("seed %d: %d timers of %d are free", seed, len(w.spare), 2*messages)
		}
	}
}
