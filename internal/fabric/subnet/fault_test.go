package subnet

import (
	"testing"
	"time"

	"softrdma/internal/fabric/port"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/mad/smp"
)

// A frame that a cable has changed is dropped for its VCRC, also if none is computed.
func TestFaultsOfACable(t *testing.T) {
	for _, noVCRC := range []bool{false, true} {
		f, err := topology.Generate("star:2")
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t}
		r.Subnet = New(Config{Fabric: f, Port: port.Config{Refresh: port.Never, NoVCRC: noVCRC}, Dropped: func(_ topology.End, d reason.Detail) { r.drops = append(r.drops, d) }})
		r.Run(10 * time.Microsecond)
		a := r.adapters()
		ask := func() bool { return r.get(a[0], []uint8{1}, smp.AttrNodeInfo, 0) != nil }
		if !ask() || len(r.drops) > 0 {
			t.Fatalf("no VCRC %v: no answer over a good cable: %v", noVCRC, r.drops)
		}
		at := topology.End{Node: a[0], Port: 1}
		r.SetFaults(r.now, at, Faults{BitErrors: .01})
		if ask() {
			t.Errorf("no VCRC %v: an answer over a cable that changes each frame", noVCRC)
		}
		for _, d := range r.drops {
			if d.Reason != reason.FabricVCRC {
				t.Errorf("no VCRC %v: %v", noVCRC, d)
			}
		}
		r.drops = nil
		r.SetFaults(r.now, at, Faults{})
		if !ask() {
			t.Errorf("no VCRC %v: no answer over the repaired cable: %v", noVCRC, r.drops)
		}
	}
}

// A lane whose grants are lost, and a cable that changes most packets, count as errors of the
// link, which stays up. A good cable counts none.
func TestLinksInTroubleCount(t *testing.T) {
	r := newManaged(t, "star:2")
	at := topology.End{Node: r.ends[1], Port: 1}
	far := r.config.Fabric.Port(at).Peer
	counts := func() (watchdog, integrity uint64) {
		c := r.Node(far.Node).Counters(far.Port)
		return c.VLFlowControlErrors[0], c.LocalLinkIntegrityErrors
	}
	r.SetFaults(r.now, at, Faults{CreditLoss: 1})
	r.Run(r.now + 10*faultRefresh)
	if w, i := counts(); w != 1 || i != 0 {
		t.Errorf("without grants: %d times for the watchdog, %d for the integrity", w, i)
	}
	r.SetFaults(r.now, at, Faults{BitErrors: .01})
	for range 10 {
		r.get(r.ends[1], []uint8{1}, smp.AttrNodeInfo, 0)
	}
	if w, i := counts(); w != 1 || i != 1 {
		t.Errorf("with changed packets: %d times for the watchdog, %d for the integrity", w, i)
	}
	r.SetFaults(r.now, at, Faults{})
	r.Run(r.now + 20*faultRefresh)
	if w, i := counts(); w != 1 || i != 1 || r.Node(far.Node).Link(far.Port).State != smp.PortActive {
		t.Errorf("over a good cable: %d times for the watchdog, %d for the integrity", w, i)
	}
}
