package compare

import (
	"encoding/json"
	"testing"
	"time"

	"softrdma/bench/relay"

	"softrdma/bench/loop"
)

// Both ends run in this process and send TCP through a relay between two namespaces.
func TestRelayAccountsForEveryFrame(t *testing.T) {
	asRoot(t)
	r, err := NewRelay()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, loss := range []float64{0, .05} {
		c := relay.Config{Rate: 100e6, Queue: 1 << 20, Delay: 100 * time.Microsecond, Loss: loss, Seed: 1}
		if err := r.Start(c); err != nil {
			t.Fatal(err)
		}
		g := saturateInside(t, r)
		a, err := r.Stop()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("loss %v: %.0f Mbit/s; %v", loss, g.Bits/1e6, a.String())
		// Bytes that were buffered before the interval count when they are read.
		if g.Bits <= 0 || g.Bits > 150e6 {
			t.Errorf("loss %v: %v bit/s over a relay of 100 Mbit/s", loss, g.Bits)
		}
		for direction, s := range map[string]relay.Stats{"forward": a.Forward, "back": a.Back} {
			if s.Entered == 0 || s.Waiting() < 0 || s.Waiting() > s.Entered/10+100 {
				t.Errorf("loss %v, %s: %+v", loss, direction, s)
			}
			if (s.Lost > 0) != (loss > 0) {
				t.Errorf("loss %v, %s: %d lost", loss, direction, s.Lost)
			}
		}
		if a.InterfaceDrops != 0 {
			t.Errorf("loss %v: %d frames were lost by the interfaces", loss, a.InterfaceDrops)
		}
	}
}

// saturateInside saturates a relay with TCP from one end to the other.
func saturateInside(t *testing.T, r *Relay) (g Goodput) {
	t.Helper()
	c := loop.Config{Op: loop.OpTCP, Kind: loop.Saturate, Local: r.Path.Client, Peer: r.Path.Server, Port: loop.FreePort(), Bytes: 4096, Segment: 1056,
		Control: "cubic", Flows: 2, Seconds: .3, Margin: .05}
	s := c
	s.Server, s.Local, s.Peer = true, c.Peer, c.Local
	ready, ended := make(chan any, 1), make(chan error, 1)
	// A socket belongs to the namespace of the thread that creates it.
	go func() {
		ended <- r.taps[server].in.Enter(func() error { return loop.Run(t.Context(), &s, func(v any) error { ready <- v; return nil }) })
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("server: %v", err)
	}
	err := r.taps[client].in.Enter(func() error {
		return loop.Run(t.Context(), &c, func(v any) error {
			text, err := json.Marshal(v)
			if err != nil {
				return err
			}
			var rates loop.Rates
			err = json.Unmarshal(text, &rates)
			g = newGoodput(rates.Shares)
			return err
		})
	})
	if err != nil {
		t.Fatalf("client: %v", err)
	}
	if err := <-ended; err != nil {
		t.Fatalf("server: %v", err)
	}
	return g
}

func TestRelayShowsEachEndItsInterfaces(t *testing.T) {
	asRoot(t)
	r, err := NewRelay()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for end, name := range r.Path.Device {
		if got := interfacesOf(t, r.Path, end); len(got) != 2 || got[1] != name {
			t.Errorf("end %d sees %v, expected lo and %s", end, got, name)
		}
	}
}
