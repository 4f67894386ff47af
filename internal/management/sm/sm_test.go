package sm

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"softrdma/internal/management/routing"
	"softrdma/internal/topology"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// check compares the agents and tables of a rig with what routing computes for
// the fabric, whose links that are down are in cut.
func (r *rig) check(m *Manager, a routing.Algorithm, cut ...topology.End) {
	r.t.Helper()
	s := m.Status()
	if s.State != smp.SMMaster || s.Failures != 0 || s.Reason != nil {
		r.t.Fatalf("%+v", s)
	}
	f := r.f.Clone()
	for _, e := range cut {
		f.Disconnect(e)
	}
	for i := range f.Nodes {
		first, last := f.Nodes[i].EndPorts()
		for p := first; p <= last; p++ {
			f.Nodes[i].Ports[p].LID, f.Nodes[i].Ports[p].LMC = r.nodes[i].configs[p].LID, r.nodes[i].configs[p].LMC
			if f.Nodes[i].Ports[p].LID == 0 {
				r.t.Fatalf("%s has no LID", f.EndName(topology.End{Node: i, Port: p}))
			}
		}
		for p := 1; p <= f.Nodes[i].NumPorts(); p++ {
			if keys := r.nodes[i].keys[[2]int{p, 0}]; f.Nodes[i].Kind != topology.Switch && keys[0] != smp.DefaultPKey {
				r.t.Fatalf("%s has the P_Key %#x", f.EndName(topology.End{Node: i, Port: p}), keys[0])
			}
			if state := r.nodes[i].links[p].State; f.Nodes[i].Ports[p].Connected() != (state == smp.PortActive) {
				r.t.Fatalf("%s is %v", f.EndName(topology.End{Node: i, Port: p}), state)
			}
			if c := r.nodes[i].configs[p]; f.Nodes[i].Ports[p].Connected() && (c.MTU != 4096 || c.VLs != 8) {
				r.t.Fatalf("%s has MTU %d and %d lanes", f.EndName(topology.End{Node: i, Port: p}), c.MTU, c.VLs)
			}
		}
	}
	if err := f.Check(); err != nil {
		r.t.Fatal(err)
	}
	want, err := routing.Route(f, a)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range f.Nodes {
		for lid, port := range want.LFT[i] {
			if got := r.nodes[i].out(uint16(lid)); lid > 0 && got != int(port) {
				r.t.Fatalf("%s sends LID %d to port %d, expected %d", f.Nodes[i].Description, lid, got, port)
			}
		}
	}
}

func TestFatTreeComesUp(t *testing.T) {
	for _, a := range []routing.Algorithm{routing.MinHop, routing.UpDown, routing.FatTree} {
		for _, lmc := range []uint8{0, 2} {
			r := newRig(t, "fat-tree:k=8")
			m := r.manage(len(r.nodes)-1, Config{Algorithm: a, LMC: lmc})
			r.settle(m)
			r.check(m, a)
			if s := m.Status(); s.Algorithm != a {
				t.Fatal(s)
			}
		}
	}
}

func TestManagerAtASwitch(t *testing.T) {
	r := newRig(t, "mesh:2x2")
	m := r.manage(0, Config{})
	r.settle(m)
	r.check(m, routing.MinHop)
}

func TestTwoAdaptersBackToBack(t *testing.T) {
	r := newRig(t, "star:1")
	m := r.manage(1, Config{})
	r.settle(m)
	r.check(m, routing.MinHop)
}

func TestTorusGetsLanes(t *testing.T) {
	r := newRig(t, "torus:6x3")
	m := r.manage(18, Config{Algorithm: routing.Torus})
	r.settle(m)
	r.check(m, routing.Torus)
	_, tables := m.Fabric()
	held := *tables
	number := make(map[string]int)
	for i := range r.f.Nodes {
		number[r.f.Nodes[i].Description] = i
	}
	held.Lane = func(node, in, out int, sl uint8) uint8 {
		lanes := r.nodes[number[tables.Fabric.Nodes[node].Description]].lanes[[2]int{in, out}]
		return lanes[sl]
	}
	if c := held.Cycle(); c != nil {
		t.Fatal(routing.CycleString(held.Fabric, c))
	}
	held.Lane = nil
	if held.Cycle() == nil {
		t.Error("without lanes there is no cycle: this fabric shows nothing")
	}
}

func TestFabricThatAnAlgorithmCannotRouteGetsUpDown(t *testing.T) {
	r := newRig(t, "ring:5")
	m := r.manage(5, Config{Algorithm: routing.FatTree})
	r.settle(m)
	s := m.Status()
	if s.Algorithm != routing.UpDown || s.Reason == nil {
		t.Fatalf("%+v", s)
	}
}

func TestCutLinkIsRoutedAroundAndComesBack(t *testing.T) {
	r := newRig(t, "fat-tree:k=4")
	m := r.manage(len(r.nodes)-1, Config{Algorithm: routing.UpDown, SweepInterval: 24 * time.Hour}) // traps cause all sweeps
	r.settle(m)
	r.check(m, routing.UpDown)
	lids := r.lids()
	cut := r.between("spine-0-0", "leaf-0-1")
	sweeps := m.Status().Sweeps
	r.link(cut, false)
	r.run(func() bool { return m.Status().Sweeps > sweeps && m.Idle() && len(r.events) == 0 })
	r.check(m, routing.UpDown, cut)
	sweeps = m.Status().Sweeps
	r.link(cut, true)
	r.run(func() bool { return m.Status().Sweeps > sweeps && m.Idle() && len(r.events) == 0 })
	r.check(m, routing.UpDown)
	if got := r.lids(); got != lids {
		t.Errorf("LIDs changed: %s, before %s", got, lids)
	}
}

// lids lists all base LIDs.
func (r *rig) lids() string {
	var all []uint16
	for i := range r.f.Nodes {
		first, last := r.f.Nodes[i].EndPorts()
		for p := first; p <= last; p++ {
			all = append(all, r.nodes[i].configs[p].LID)
		}
	}
	return fmt.Sprint(all)
}

// between returns the port of a that leads to b.
func (r *rig) between(a, b string) topology.End {
	r.t.Helper()
	from, err := r.f.Find(a)
	if err != nil {
		r.t.Fatal(err)
	}
	for p := range r.f.Nodes[from].Ports {
		if q := r.f.Nodes[from].Ports[p]; q.Connected() && r.f.Nodes[q.Peer.Node].Description == b {
			return topology.End{Node: from, Port: p}
		}
	}
	r.t.Fatalf("no link from %s to %s", a, b)
	return topology.End{}
}

func TestChangeWithoutTrapIsFoundByTheLightSweep(t *testing.T) {
	r := newRig(t, "fat-tree:k=4")
	m := r.manage(len(r.nodes)-1, Config{Algorithm: routing.UpDown})
	r.settle(m)
	r.pass(time.Minute)
	if s := m.Status().Sweeps; s > 3 {
		t.Fatalf("%d sweeps of a fabric that does not change", s)
	}
	cut := r.between("spine-0-0", "leaf-0-1")
	sweeps := m.Status().Sweeps
	r.link(cut, false)
	r.lose = func() bool { return true } // of all traps
	r.pass(time.Second)
	r.lose = func() bool { return false }
	r.pass(time.Minute)
	if m.Status().Sweeps <= sweeps {
		t.Fatal("no sweep")
	}
	r.check(m, routing.UpDown, cut)
}

func TestLostPacketsAreRepeated(t *testing.T) {
	r := newRig(t, "fat-tree:k=4")
	random := rand.New(rand.NewPCG(1, 2))
	r.lose = func() bool { return random.IntN(50) == 0 }
	m := r.manage(len(r.nodes)-1, Config{Algorithm: routing.UpDown})
	r.pass(10 * time.Minute)
	r.lose = func() bool { return false }
	r.pass(time.Minute)
	r.check(m, routing.UpDown)
}

func TestOutstandingRequestsAreBounded(t *testing.T) {
	r := newRig(t, "fat-tree:k=4")
	m := r.manage(len(r.nodes)-1, Config{Outstanding: 4})
	most := 0
	r.watch = func(*smp.Packet) { most = max(most, len(m.requests.outstanding)) }
	r.settle(m)
	if most != 4 {
		t.Fatalf("%d requests were outstanding, expected 4", most)
	}
}

func TestNodeThatDoesNotAnswerIsLeftOutAndFoundLater(t *testing.T) {
	r := newRig(t, "star:4")
	r.nodes[2].unplugged = true
	m := r.manage(1, Config{})
	r.run(func() bool { return m.Status().Sweeps == 1 })
	if m.Status().Failures == 0 || r.nodes[3].links[1].State != smp.PortActive || r.nodes[2].links[1].State != smp.PortInit {
		t.Fatalf("%+v", m.Status())
	}
	r.nodes[2].unplugged = false
	r.pass(time.Minute)
	r.check(m, routing.MinHop)
}

func TestHigherPriorityWinsTheElection(t *testing.T) {
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		r := newRig(t, "fat-tree:k=4,levels=2")
		n := len(r.nodes)
		m := make(map[int]*Manager)
		for _, i := range order { // the priority is 1 or 2
			m[i] = r.manage(n-i, Config{Priority: uint8(i)})
		}
		r.pass(time.Minute)
		if m[2].Status().State != smp.SMMaster || m[1].Status().State != smp.SMStandby {
			t.Fatalf("%v and %v", m[2].Status().State, m[1].Status().State)
		}
		r.check(m[2], routing.MinHop)
	}
}

func TestLowerGUIDWinsAmongEqualPriorities(t *testing.T) {
	r := newRig(t, "star:4")
	low, high := r.manage(1, Config{}), r.manage(4, Config{})
	r.pass(time.Minute)
	if low.Status().State != smp.SMMaster || high.Status().State != smp.SMStandby {
		t.Fatalf("%v and %v", low.Status().State, high.Status().State)
	}
}

func TestManagerWithHigherPriorityTakesOverByHandover(t *testing.T) {
	r := newRig(t, "star:4")
	old := r.manage(1, Config{Priority: 3})
	r.settle(old)
	lids := r.lids()
	handovers := 0
	r.watch = func(p *smp.Packet) {
		if p.Attribute == smp.AttrSMInfo && p.Method == mad.MethodSet && p.Modifier == smp.SMHandover {
			handovers++
		}
	}
	higher := r.manage(2, Config{Priority: 7})
	r.pass(time.Minute)
	if old.Status().State != smp.SMStandby || higher.Status().State != smp.SMMaster || handovers == 0 {
		t.Fatalf("%v and %v, %d handovers", old.Status().State, higher.Status().State, handovers)
	}
	r.check(higher, routing.MinHop)
	if got := r.lids(); got != lids {
		t.Errorf("LIDs changed: %s, before %s", got, lids)
	}
}

func TestStandbyTakesOverFromADeadMaster(t *testing.T) {
	r := newRig(t, "fat-tree:k=4")
	n := len(r.nodes)
	master, standby := r.manage(n-1, Config{Priority: 5}), r.manage(n-2, Config{Priority: 1})
	r.pass(time.Minute)
	if master.Status().State != smp.SMMaster || standby.Status().State != smp.SMStandby {
		t.Fatalf("%v and %v", master.Status().State, standby.Status().State)
	}
	lids := r.lids()
	r.stop(n - 1)
	r.pass(time.Minute)
	r.check(standby, routing.MinHop)
	if got := r.lids(); got != lids {
		t.Errorf("LIDs changed: %s, before %s", got, lids)
	}
	back := r.manage(n-1, Config{Priority: 5})
	r.pass(time.Minute)
	if back.Status().State != smp.SMMaster || standby.Status().State != smp.SMStandby {
		t.Fatalf("after its return: %v and %v", back.Status().State, standby.Status().State)
	}
	r.check(back, routing.MinHop)
}

// TestLargeFabricComesUp is the measure of the manager's work: the time is that
// of the manager, the agents and the rig together.
func TestLargeFabricComesUp(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	r := newRig(t, "fat-tree:k=18,hosts=10")
	m := r.manage(len(r.nodes)-1, Config{Algorithm: routing.FatTree})
	began := time.Now()
	r.settle(m)
	t.Logf("%d nodes: %v, of virtual time %v, %d packets on links", len(r.nodes), time.Since(began), r.now, r.sent)
	r.check(m, routing.FatTree)
}

// FuzzReceive changes bytes of what the manager receives in a sweep. It must
// survive, and manage the fabric once the packets are right again.
func FuzzReceive(f *testing.F) {
	f.Add(uint64(1), uint8(20))
	f.Fuzz(func(t *testing.T, seed uint64, rate uint8) {
		r := newRig(t, "mesh:2x2")
		random := rand.New(rand.NewPCG(seed, 0))
		m := r.manage(4, Config{Timeout: time.Millisecond, Retries: 1, MaxNodes: 20})
		spoil := true
		r.spoil = func(b *[mad.Len]byte) {
			for spoil && random.IntN(256) < int(rate) {
				b[random.IntN(len(b))] = uint8(random.Uint32())
			}
		}
		r.pass(10 * time.Second)
		spoil = false
		r.pass(time.Minute)
		if s := m.Status(); s.State == smp.SMMaster && s.Failures != 0 {
			t.Fatalf("%+v", s)
		}
	})
}

// opensm takes a handover without an ACKNOWLEDGE.
func TestHandoverNeedsNoAcknowledge(t *testing.T) {
	r := newRig(t, "star:4")
	old := r.manage(1, Config{Priority: 3})
	r.settle(old)
	lost := false
	r.watch = func(p *smp.Packet) {
		lost = p.Attribute == smp.AttrSMInfo && p.Method == mad.MethodSet && p.Modifier == smp.SMAcknowledge
	}
	r.lose = func() bool { // the ACKNOWLEDGE alone
		l := lost
		lost = false
		return l
	}
	higher := r.manage(2, Config{Priority: 7})
	r.pass(time.Minute)
	if old.Status().State != smp.SMStandby || higher.Status().State != smp.SMMaster {
		t.Fatalf("%v and %v", old.Status().State, higher.Status().State)
	}
}

func TestManagerWithAnotherKeyIsNotTrusted(t *testing.T) {
	r := newRig(t, "star:4")
	old := r.manage(1, Config{Priority: 3})
	r.settle(old)
	other := New(&Config{GUID: 99, Priority: 9, SMKey: 5})
	info := other.ownInfo()
	p := smp.NewRouted(mad.MethodSet, smp.AttrSMInfo, smp.SMHandover, 3, 0)
	info.Put(&p.Data)
	var b [mad.Len]byte
	p.Put(&b)
	old.Receive(r.now, &Arrival{SLID: 1, MAD: &b})
	var out Departure
	if !old.Next(r.now, &out) {
		t.Fatal("no answer")
	}
	if p.Parse(&out.MAD); p.Status != mad.StatusInvalid || !old.Idle() {
		t.Errorf("status %#x", p.Status)
	}
}
