package hosts

import (
	"testing"

	"softrdma/internal/congestion"
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
	now      dcb.Time
	sent     int
	received int
	last     dcb.Time
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
	w.last = now
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
	c := w.Connect(0, n[0], n[1], 1, &Sender{Control: congestion.None})
	c.Post(0, 7, 1<<20)
	w.Network().Run(10 * dcb.Millisecond)
	t.Log(w.last.Duration(), w.sent, w.received, w.Reasons(), w.Traffic())
	if w.sent != 1 || w.received != 1 {
		t.Errorf("%d sent, %d received", w.sent, w.received)
	}
}
