package trunk

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"softrdma/internal/reason"
)

func TestLinkComesUp(t *testing.T) {
	w := newWorld(t, 1)
	w.run(10 * time.Millisecond)
	if !w.up() {
		t.Fatal("no link")
	}
	for i, j := range w.jacks {
		if p, ok := j.trunk.Peer(); !ok || p.Process != uint64(2-i) || p.Fabric != "fab" || p.Port != "switch-0:1" {
			t.Errorf("peer %+v %v", p, ok)
		}
		if len(j.nodes) != len(w.jacks[1-i].trunk.config.GUIDs) {
			t.Errorf("%d GUIDs, expected %d", len(j.nodes), len(w.jacks[1-i].trunk.config.GUIDs))
		}
	}
	sent := w.sent
	w.run(10 * time.Second)
	if n := w.sent - sent; n > 45 {
		t.Errorf("%d packets in ten idle seconds", n)
	}
	if !w.up() {
		t.Error("an idle session ended")
	}
}

// Frames of each link arrive once and in their order, whatever the network and the ports do.
// The jacks check that.
func TestFramesSurviveABadNetwork(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		w := newWorld(t, seed)
		w.loss, w.copies, w.reorders = w.random.Float64()*0.2, w.random.Float64()*0.2, w.random.Float64()*0.5
		for range 200 {
			w.disturb()
			for range w.random.IntN(40) {
				w.jacks[w.random.IntN(2)].send(8 + w.random.IntN(4200))
			}
			w.run(time.Duration(w.random.IntN(int(20 * time.Millisecond))))
		}
		w.settle()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// disturb sometimes does something to the ends.
func (w *world) disturb() {
	i := w.random.IntN(2)
	j := w.jacks[i]
	switch w.random.IntN(60) {
	case 0:
		j.down()
	case 1:
		j.disabled = true
		j.down()
	case 2, 3:
		j.disabled = false
		if !j.state.Up {
			j.down()
		}
	case 4:
		w.start(i)
	case 5:
		w.cut = true
		w.run(3 * time.Second)
		w.cut = false
	case 6:
		j.disabled = true
		j.down()
		w.flush()
		j.disabled = false
		j.down()
	}
}

// settle ends all disturbances, and checks that the link comes up and carries frames.
func (w *world) settle() {
	w.t.Helper()
	w.loss, w.copies, w.reorders = 0, 0, 0
	for _, j := range w.jacks {
		if j.disabled = false; !j.state.Up {
			j.down()
		}
	}
	w.run(10 * time.Second)
	if !w.up() {
		a, b := w.jacks[0], w.jacks[1]
		w.t.Fatalf("no link: %+v %+v, sessions %+v %+v", a.state, b.state, a.trunk.session, b.trunk.session)
	}
	for _, j := range w.jacks {
		before := w.jacks[0].arrived + w.jacks[1].arrived
		for range 100 {
			j.send(4000)
		}
		w.run(time.Second)
		if n := w.jacks[0].arrived + w.jacks[1].arrived - before; n != 100 {
			w.t.Errorf("%d of 100 frames arrived", n)
		}
		if d := j.trunk.Deadline(); d < w.now {
			w.t.Errorf("deadline %v at %v", d, w.now)
		}
	}
}

func TestSilentPeerTakesTheLinkDown(t *testing.T) {
	w := newWorld(t, 3)
	w.run(time.Second)
	w.cut = true
	w.run(silence + aliveEvery)
	for i, j := range w.jacks {
		if j.state.Up || len(j.ends) != 1 || j.ends[0].Reason != reason.FabricTrunkSilent {
			t.Errorf("end %d: up %v, ends %v", i, j.state.Up, j.ends)
		}
	}
	w.cut = false
	w.run(time.Second)
	if !w.up() {
		t.Error("the link did not come back")
	}
}

func TestCloseTellsThePeer(t *testing.T) {
	w := newWorld(t, 4)
	w.run(time.Second)
	w.jacks[0].trunk.Close(w.now)
	w.run(time.Millisecond)
	if j := w.jacks[1]; j.state.Up || len(j.ends) != 1 || j.ends[0].Reason != reason.FabricTrunkClosed {
		t.Errorf("up %v, ends %v", j.state.Up, j.ends)
	}
	w.start(0)
	w.run(5 * time.Second)
	if !w.up() {
		t.Error("no link with the next process")
	}
}

func TestRefusedNodesKeepTheLinkDown(t *testing.T) {
	w := newWorld(t, 5)
	w.jacks[0].refuse = reason.Detail{Reason: reason.FabricTrunkNode, Found: 7}
	w.run(10 * time.Second)
	if a, b := w.jacks[0], w.jacks[1]; a.state.Up || b.state.Up || len(a.ends) == 0 || len(b.ends) == 0 || a.ends[0] != a.refuse ||
		b.ends[0].Reason != reason.FabricTrunkClosed || b.ends[0].Found != uint64(reason.FabricTrunkNode) {
		t.Errorf("ends %v, %v", a.ends, b.ends)
	}
	if n := len(w.jacks[0].ends); n > 6 {
		t.Errorf("%d sessions in ten seconds", n)
	}
	w.jacks[0].refuse = reason.Detail{}
	w.run(10 * time.Second)
	if !w.up() {
		t.Error("no link after the refusal ended")
	}
}

func TestAnotherSecretVersionOrNetworkOpensNoSession(t *testing.T) {
	for _, want := range []reason.Reason{reason.FabricTrunkSecret, reason.FabricTrunkVersion, reason.FabricTrunkNetwork} {
		w := newWorld(t, 6)
		if want == reason.FabricTrunkSecret {
			w.jacks[0].trunk.config.Secret = []byte("y")
		}
		if want == reason.FabricTrunkNetwork {
			w.jacks[0].trunk.config.Use = Ethernets
		}
		a := w.jacks[0].trunk
		b := bytes.Clone(a.Next(0))
		if want == reason.FabricTrunkVersion {
			b[0] = Version + 1
		}
		if d := w.jacks[1].trunk.Receive(0, b); d.Reason != want {
			t.Errorf("%v, expected %v", d, want)
		} else if want == reason.FabricTrunkNetwork && !strings.HasSuffix(d.String(), "expected an InfiniBand fabric, found an Ethernet fabric") {
			t.Error(d)
		}
		if w.jacks[1].trunk.answer {
			t.Error("answered")
		}
	}
}

// An attacker who can send from the peer's address, but cannot read packets, changes nothing.
func TestBlindForgeriesDoNotDisturbASession(t *testing.T) {
	w := newWorld(t, 7)
	w.run(time.Second)
	victim := w.jacks[0].trunk
	for range 10000 {
		forged := make([]byte, headerLen+w.random.IntN(100))
		for i := range forged {
			forged[i] = byte(w.random.Uint32())
		}
		h := header{version: Version, kind: kind(w.random.IntN(4)), source: w.random.Uint64() | 1, dest: w.random.Uint64()}
		h.put(forged)
		if h.kind == hello {
			forged = appendHello(nil, h, &Peer{Process: 9}, nil)
		}
		if d := victim.Receive(w.now, forged); d.Reason == reason.None {
			t.Fatalf("accepted %x", forged)
		}
	}
	// Without a secret a Hello is authentic. It still proves nothing.
	forged := appendHello(nil, header{version: Version, kind: hello, source: 1, dest: 2}, &Peer{Process: 9}, victim.config.Secret)
	victim.Receive(w.now, forged)
	w.jacks[0].send(100)
	w.run(10 * time.Second)
	if !w.up() || len(w.jacks[0].ends)+len(w.jacks[1].ends) != 0 || w.jacks[1].arrived != 1 {
		t.Errorf("up %v, ends %v %v, arrived %d", w.up(), w.jacks[0].ends, w.jacks[1].ends, w.jacks[1].arrived)
	}
}

func TestAPeerThatAcknowledgesNothingIsRefused(t *testing.T) {
	w := newWorld(t, 8)
	w.run(time.Second)
	j := w.jacks[0]
	f := make([]byte, 4096)
	for range 3 * mostWaiting {
		if d := j.trunk.Send(w.now, f); d.Reason == reason.FabricTrunkOverrun {
			if j.state.Up {
				t.Error("the link is still up")
			}
			return
		}
	}
	t.Error("no limit")
}
