package control

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"softrdma/internal/management/routing"
	"softrdma/internal/management/sm"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

func TestStatusCountsWhatTheTopologyHas(t *testing.T) {
	w := newWorld(t, "fat-tree:k=4", 0, routing.FatTree)
	st := w.do(VerbStatus).Status
	if st.Switches != 20 || st.Adapters != 16 || st.Links[LinkActive] != 48 || len(st.Links) != 1 || st.LIDs != 36 || len(st.Nodes) != 36 {
		t.Errorf("%+v", st)
	}
	if own := st.Manager.Own; own == nil || own.State != "master" || own.Routing != "ftree" || own.Note != "" || own.Failures != 0 || st.Manager.Node != "node-0" {
		t.Errorf("manager %+v, own %+v", st.Manager, own)
	}
	w.do(VerbLinkDown, "node-3")
	w.run(time.Millisecond)
	if st := w.do(VerbStatus).Status; st.Links[LinkActive] != 47 || st.Links[LinkCut] != 1 {
		t.Errorf("after one cut: %v", st.Links)
	}
}

func TestLinksHaveStateAndLoad(t *testing.T) {
	w := newWorld(t, "star:3", 0, routing.MinHop)
	before := w.do(VerbLinks, "node-0")
	if len(before.Links) != 1 || before.Links[0].State != LinkActive || before.Links[0].Width != "4x" || before.Links[0].Speed != "EDR" || before.Links[0].Rate != 1e11 {
		t.Fatalf("%+v", before.Links)
	}
	w.saturate([]*stream{{from: 0, to: 1, total: 1 << 30}}, time.Millisecond)
	after := w.do(VerbLinks, "node-0")
	Loads(before, after)
	for _, e := range after.Links[0].Ends {
		if want := e.Node == "node-0"; want != (e.Load > 0.9 && e.Load <= 1) || !want && e.Load > 0.01 {
			t.Errorf("load of %s: %v", e.Name, e.Load)
		}
	}
}

func TestTraceFollowsTheTables(t *testing.T) {
	w := newWorld(t, "fat-tree:k=4", 0, routing.MinHop)
	_, tables := w.manager.Fabric()
	for _, to := range []string{"node-1", "node-2", "node-15"} {
		tr := w.do(VerbTrace, "node-0", to).Trace
		path, err := tables.Path(w.end(tables, "node-0"), tr.DLID)
		if err != nil || tr.Broken != nil || len(tr.Hops) != len(path)+1 || tr.Assumed {
			t.Fatalf("to %s: %+v, broken %+v; expected %v, %v", to, tr, tr.Broken, path, err)
		}
		for i, e := range path {
			if h := tr.Hops[i]; h.Node != tables.Fabric.Nodes[e.Node].Description || h.Out != e.Port || h.VL != 0 || h.To == "" {
				t.Errorf("to %s, hop %d: %+v, expected %s", to, i, h, tables.Fabric.EndName(e))
			}
		}
		if last := tr.Hops[len(path)]; last.Node != to || last.LID != tr.DLID || last.Out != 0 {
			t.Errorf("to %s: last hop %+v", to, last)
		}
	}
	if tr := w.do(VerbTrace, "core-0-0", "leaf-0-1").Trace; tr.Broken != nil || len(tr.Hops) != 3 {
		t.Errorf("between switches: %+v", tr)
	}
}

// end is a port of the fabric that the manager found, whose nodes have an order of their own.
func (w *world) end(t *routing.Tables, name string) topology.End {
	node, err := t.Fabric.Find(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return topology.End{Node: node, Port: 1}
}

func TestTraceSaysWhereAPathBreaks(t *testing.T) {
	w := newWorld(t, "ring:3", 0, routing.MinHop)
	expect := func(at, reason, text string, args ...string) {
		t.Helper()
		b := w.do(VerbTrace, args...).Trace.Broken
		if b == nil || b.Node != at || b.Reason != reason || !strings.Contains(b.Text, text) {
			t.Errorf("trace %q: %+v, expected %s %s at %s", args, b, reason, text, at)
		}
	}
	expect("switch-0", "FABRIC_ROUTE", "0x00ff", "node-0", "255")
	w.do(VerbLinkDown, "node-1")
	w.run(time.Microsecond) // the manager does not know yet
	expect("switch-1", "", "cable of port 3 is cut", "node-0", "node-1")
	w.do(VerbLinkUp, "node-1")
	w.run(1100 * time.Nanosecond) // no manager has set up the link again
	expect("switch-1", "FABRIC_PORT_STATE", "init", "node-0", "node-1")
	w.run(time.Second)
	w.settle()

	n := w.Node(w.node("switch-1"))
	block := int(w.lid(1)) / 64
	table := n.Forwarding(block)
	table[w.lid(1)%64] = 1 // towards one of the other switches, which sends it back
	n.SetForwarding(block, &table)
	other := w.Fabric().Nodes[w.node("switch-1")].Ports[1].Peer.Node
	expect(w.Fabric().Nodes[other].Description, "FABRIC_LOOP", "leave by the port", "switch-1", "node-1")
	table[w.lid(1)%64] = smp.NoPort
	n.SetForwarding(block, &table)
	expect("switch-1", "FABRIC_ROUTE", "no port for this LID", "node-0", "node-1")
}

func TestRoutesNameWhatIsBehindEachPort(t *testing.T) {
	w := newWorld(t, "star:3", 0, routing.MinHop)
	rt := w.do(VerbRoutes, "switch-0").Routes
	if len(rt.Ports) != 4 || rt.Ports[0].Port != 0 || rt.Ports[0].LIDs[0].Node != "switch-0" || len(rt.Groups) != 0 {
		t.Fatalf("%+v", rt)
	}
	for _, p := range rt.Ports[1:] {
		if len(p.LIDs) != 1 || p.To != p.LIDs[0].Node+":1" {
			t.Errorf("%+v", p)
		}
	}
	w.Node(w.node("switch-0")).SetMulticast(0, 0, &smp.MulticastForwarding{5: 0b1010})
	if g := w.do(VerbRoutes, "switch-0").Routes.Groups; len(g) != 1 || g[0].LID != uint16(ib.MulticastLID)+5 || len(g[0].Ports) != 2 || g[0].Ports[1] != 3 {
		t.Errorf("groups %+v", g)
	}
}

func TestFailedSwitchIsRoutedAroundAndComesBack(t *testing.T) {
	w := newWorld(t, "fat-tree:k=4", 0, routing.FatTree)
	through := func() string { return w.do(VerbTrace, "node-0", "node-15").Trace.Hops[2].Node } // a spine
	before := through()
	if n := len(w.do(VerbFail, before).Links); n != 4 {
		t.Errorf("%d cables of %s, expected 4", n, before)
	}
	w.run(2 * time.Second)
	w.settle()
	if after := through(); after == before {
		t.Errorf("the path still leads through %s", after)
	}
	for _, l := range w.do(VerbRepair, before).Links {
		if l.State == LinkCut {
			t.Errorf("%+v is still cut", l)
		}
	}
	w.run(2 * time.Second)
	w.settle()
	if st := w.do(VerbStatus).Status; st.Links[LinkActive] != 48 {
		t.Errorf("after the repair: %v", st.Links)
	}
}

// A standby takes the fabric over when its own manager is switched off, and gives it back.
func TestOwnManagerCanBeSwitchedOffAndOn(t *testing.T) {
	w := newWorld(t, "star:3", 0, routing.MinHop)
	at := w.adapters[1]
	standby := sm.New(&sm.Config{GUID: w.Fabric().Nodes[at].Ports[1].GUID})
	w.Manage(w.now, at, standby)
	expect := func(when string, own, other smp.SMState) {
		t.Helper()
		w.run(time.Minute)
		if a, b := w.manager.Status().State, standby.Status().State; a != own || b != other {
			t.Fatalf("%s: %v and %v, expected %v and %v", when, a, b, own, other)
		}
	}
	expect("at first", smp.SMMaster, smp.SMStandby)
	w.do(VerbManager, "off")
	expect("switched off", smp.SMNotActive, smp.SMMaster)
	if m := w.do(VerbStatus).Status.Manager; m.LID != w.lid(1) {
		t.Errorf("switched off: the manager is at LID %d, expected %d of the standby", m.LID, w.lid(1))
	}
	w.do(VerbLinkDown, "node-2")
	w.do(VerbLinkUp, "node-2")
	expect("traps while it is off", smp.SMNotActive, smp.SMMaster)
	w.do(VerbManager, "on")
	expect("switched on, with the lower GUID", smp.SMMaster, smp.SMStandby)
	if st := w.do(VerbManager, "on").Status; st.Manager.LID != w.lid(0) {
		t.Errorf("switched on: the manager is at LID %d, expected %d", st.Manager.LID, w.lid(0))
	}
	for _, c := range []struct {
		m    *sm.Manager
		word string
	}{{nil, "off"}, {w.manager, "of"}} {
		if _, err := Do(w.now, w.Subnet, c.m, Request{Verb: VerbManager, Args: []string{c.word}}); err == nil {
			t.Errorf("%q, with a manager: %v: no error", c.word, c.m != nil)
		}
	}
}

func TestBitErrorsAreCountedAtTheEndOfTheCable(t *testing.T) {
	w := newWorld(t, "star:2", 0, routing.MinHop)
	r, err := Do(w.now, w.Subnet, w.manager, Request{Verb: VerbFaults, Args: []string{"node-1"}, Faults: &Faults{BitErrors: 1e-5}})
	if err != nil || len(r.Links) != 1 || r.Links[0].Faults.BitErrors != 1e-5 {
		t.Fatalf("%+v, %v", r.Links, err)
	}
	s := &stream{from: 0, to: 1, total: 1000}
	w.saturate([]*stream{s}, 20*time.Millisecond)
	lost := int(s.sent) - w.arrived(s)
	l := w.do(VerbLinks, "node-1").Links[0]
	for _, e := range l.Ends {
		if e.Node == "node-1" && (int(e.Errors) != lost || lost < 50 || lost > 300) {
			t.Errorf("%d of %d datagrams lost, %d errors counted; expected about 150", lost, s.sent, e.Errors)
		}
	}
	found := false
	for _, v := range w.do(VerbCounters, "node-1").Counters[0].Values {
		found = found || v.Name == "PortRcvErrors" && int(v.Value) == lost
	}
	if !found || s.sent != 1000 {
		t.Errorf("%d datagrams sent: expected errors to be counted, and to cost no credit", s.sent)
	}
	if n := len(w.do(VerbFaults).Links); n != 1 {
		t.Errorf("%d cables with faults, expected one", n)
	}
}

func TestRequestsThatMakeNoSenseAreRefused(t *testing.T) {
	w := newWorld(t, "star:2", 0, routing.MinHop)
	for _, c := range []struct {
		r    Request
		want string
	}{
		{Request{Verb: "dance"}, `does not know the request "dance"`},
		{Request{Verb: VerbTrace, Args: []string{"node-0"}}, "expected 2 to 2 arguments, found 1"},
		{Request{Verb: VerbTrace, Args: []string{"node-0", "node-7"}}, `no node "node-7"`},
		{Request{Verb: VerbTrace, Args: []string{"switch-0:1", "node-0"}}, "switch without a port"},
		{Request{Verb: VerbTrace, Args: []string{"node-0", "49152"}}, "unicast LID"},
		{Request{Verb: VerbRoutes, Args: []string{"node-0"}}, "not a switch"},
		{Request{Verb: VerbLinkDown, Args: []string{"switch-0"}}, "like switch-0:1"},
		{Request{Verb: VerbLinkDown, Args: []string{"switch-0:9"}}, "a port from 1 to 2"},
		{Request{Verb: VerbFail, Args: []string{"switch-0", "switch-1"}}, `no node "switch-1"`},
		{Request{Verb: VerbFaults, Args: []string{"node-0"}}, "or neither"},
		{Request{Verb: VerbFaults, Args: []string{"node-0"}, Faults: &Faults{BitErrors: 2}}, "from 0 to 1"},
	} {
		_, err := Do(w.now, w.Subnet, w.manager, c.r)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, expected %q", c.r, err, c.want)
		}
	}
	for _, l := range w.do(VerbLinks).Links {
		if l.State != LinkActive || l.Faults != nil {
			t.Errorf("a refused request changed %+v", l)
		}
	}
}

func TestRepliesSurviveJSON(t *testing.T) {
	w := newWorld(t, "star:2", 0, routing.MinHop)
	r := w.do(VerbStatus)
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again Reply
	if err := json.Unmarshal(b, &again); err != nil || again.Status.Nodes[0].GUID != r.Status.Nodes[0].GUID || *again.Status.Manager.Own != *r.Status.Manager.Own {
		t.Errorf("%+v, %v", again.Status, err)
	}
}
