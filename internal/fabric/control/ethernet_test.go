package control

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"softrdma/faults"
	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
)

// An etherWorld is an Ethernet of commands.
type etherWorld struct {
	t   *testing.T
	net *lan.Network
	now time.Duration
}

func newEther(t *testing.T, shape string, change func(*lan.Config)) *etherWorld {
	t.Helper()
	f, err := topology.Generate(shape)
	if err != nil {
		t.Fatal(err)
	}
	c := lan.Config{Fabric: f, Link: lan.Link{Port: dcb.PortConfig{Speed: 100 * dcb.Gbit, Pause: dcb.ByClass, Lossless: 1 << 3}},
		Switch: bridge.Config{Buffer: bridge.BufferConfig{Size: 1 << 20}}, Deliver: func(dcb.Time, topology.End, *dcb.Frame) bool { return false }}
	change(&c)
	return &etherWorld{t: t, net: lan.New(c)}
}

func (w *etherWorld) ask(r Request) (reply Reply, err error) {
	question, err := json.Marshal(r)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err := AnswerEthernet(w.now, w.net, func(topology.End) []hostport.Program { return nil }, question)
	if err != nil {
		return reply, err
	}
	if err := json.Unmarshal(answer, &reply); err != nil {
		w.t.Fatal(err)
	}
	return reply, nil
}

func (w *etherWorld) do(r Request) Reply {
	w.t.Helper()
	reply, err := w.ask(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return reply
}

func (w *etherWorld) run(d time.Duration) {
	w.now += d
	w.net.Run(dcb.FromDuration(w.now))
}

// A trace goes by the uplinks that frames of the flow take, and flows differ.
func TestEthernetTraceFollowsTheFramesOfAFlow(t *testing.T) {
	w := newEther(t, "leaf-spine:leaves=2,spines=4,hosts=2", func(*lan.Config) {})
	used := make(map[int]bool)
	for i := range 8 {
		w.do(Request{Verb: VerbLoad, Args: []string{"node-0", "node-3"}, Load: &LoadRequest{Size: 100, Packets: 10}})
		w.run(time.Millisecond)
		loads := w.do(Request{Verb: VerbLoad}).Loads
		l := loads[len(loads)-1]
		if l.Arrived != 10 {
			t.Fatalf("%+v", l)
		}
		tr := w.do(Request{Verb: VerbTrace, Args: []string{"node-0", "node-3"}, SourcePort: l.SourcePort}).Trace
		if tr.Broken != nil || len(tr.Hops) != 5 || tr.To != "node-3" || len(tr.Hops[1].Among) != 4 || tr.Hops[1].By != "hash" {
			t.Fatalf("%+v", tr)
		}
		used[tr.Hops[1].Out] = true
		sent := 0
		for _, c := range w.do(Request{Verb: VerbCounters, Args: []string{tr.Hops[1].To}}).Counters[0].Values {
			if c.Name == "priority 0 frames received" {
				sent = int(c.Value)
			}
		}
		if sent < 10 || sent%10 != 0 {
			t.Errorf("load %d: %d frames came by %s", i, sent, tr.Hops[1].To)
		}
	}
	if len(used) < 2 {
		t.Errorf("all flows leave by %v", used)
	}
}

func TestEthernetTraceSaysWhereAFrameIsLost(t *testing.T) {
	w := newEther(t, "leaf-spine:leaves=2,spines=2,hosts=2", func(*lan.Config) {})
	for _, c := range []struct {
		to, node, reason string
		before           Request
	}{
		{"10.200.0.1", "leaf-0", "ETHERNET_ROUTE", Request{Verb: VerbStatus}},
		{"10.0.1.1", "leaf-0", "ETHERNET_ROUTE", Request{Verb: VerbFail, Args: []string{"spine-0", "spine-1"}}},
		{"node-1", "node-0", "ETHERNET_LINK_DOWN", Request{Verb: VerbLinkDown, Args: []string{"node-0"}}},
	} {
		w.do(c.before)
		tr := w.do(Request{Verb: VerbTrace, Args: []string{"node-0", c.to}}).Trace
		if tr.Broken == nil || tr.Broken.Reason != c.reason || tr.Broken.Node != c.node {
			t.Errorf("%s: %+v", c.to, tr.Broken)
		}
	}
	if _, err := w.ask(Request{Verb: VerbTrace, Args: []string{"leaf-0", "node-0"}}); err == nil || !strings.Contains(err.Error(), "expected an adapter") {
		t.Error(err)
	}
}

func TestEthernetLinksNameTheirSpeeds(t *testing.T) {
	w := newEther(t, "leaf-spine:leaves=2,spines=1,hosts=1,speed=40G,switch-speed=100M", func(*lan.Config) {})
	found := make(map[string]uint64)
	for _, l := range w.do(Request{Verb: VerbLinks}).Links {
		found[l.Speed] = l.Rate
	}
	if len(found) != 2 || found["40G"] != 40e9 || found["100M"] != 100e6 {
		t.Errorf("links by speed: %v", found)
	}
}

func TestEthernetRoutes(t *testing.T) {
	w := newEther(t, "leaf-spine:leaves=2,spines=2,hosts=2", func(*lan.Config) {})
	rt := w.do(Request{Verb: VerbRoutes, Args: []string{"leaf-0"}}).Routes
	seen := make(map[string]int)
	for _, p := range rt.Prefixes {
		seen[p.Node] = len(p.Ports)
	}
	if seen["node-0"] != 1 || seen["node-1"] != 1 || seen["leaf-1"] != 2 {
		t.Errorf("%+v", rt.Prefixes)
	}
}

// The static search says what the routes allow and what avoids it, and the load makes it true.
func TestEthernetDeadlockIsForetoldAndAvoided(t *testing.T) {
	shift := Request{Verb: VerbLoad, Load: &LoadRequest{Shift: 2, Size: 1000, Packets: 20000}, SL: new(uint8)}
	*shift.SL = 3
	raise := func(c *lan.Config) {
		c.Link.Port.Lossless = 0x38
		c.Switch.Remark = bridge.RaisePriorities(3, 5)
	}
	for _, c := range []struct {
		name     string
		change   func(*lan.Config)
		possible bool
	}{
		{"shortest paths", func(*lan.Config) {}, true},
		{"up and down", func(c *lan.Config) { c.UpDown = true }, false},
		{"a higher priority with each switch", raise, false},
	} {
		w := newEther(t, "ring:5", c.change)
		d := w.do(Request{Verb: VerbDeadlock}).Deadlock
		if got := len(d.Cycle) > 0; got != c.possible || len(d.Deadlock) > 0 || len(d.Avoid) != 2*min(1, len(d.Cycle)) || len(d.From) != 1 || d.From[0] != 3 {
			t.Errorf("%s: %+v", c.name, d)
		}
		w.do(shift)
		w.run(10 * time.Millisecond)
		d = w.do(Request{Verb: VerbDeadlock}).Deadlock
		if got := len(d.Deadlock) > 0; got != c.possible {
			t.Errorf("%s: %+v", c.name, d)
		}
		if c.possible && (len(d.Still) == 0 || len(d.Still[0].Waits) == 0 || !strings.Contains(d.Avoid[1], "--lossless 3,4,5 --raise")) {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
}

func TestEthernetFaultsFollowRules(t *testing.T) {
	w := newEther(t, "star:2", func(*lan.Config) {})
	rules := &faults.Rules{Seed: 1, Rules: []faults.Rule{{Action: faults.Drop, Select: faults.Selector{Every: 4}}, {Action: faults.Mark}}}
	w.do(Request{Verb: VerbFaults, Args: []string{"node-1"}, Faults: &Faults{Rules: rules}})
	w.do(Request{Verb: VerbLoad, Args: []string{"node-0", "node-1"}, Load: &LoadRequest{Size: 1000, Packets: 1000}})
	w.run(10 * time.Millisecond)
	if l := w.do(Request{Verb: VerbLoad}).Loads[0]; l.Sent != 1000 || l.Arrived != 750 {
		t.Errorf("%+v", l)
	}
	f := w.do(Request{Verb: VerbFaults}).Links
	if len(f) != 1 || f[0].Faults.Hits[0] != 250 || f[0].Ends[0].Errors+f[0].Ends[1].Errors != 250 || f[0].Faults.String() != "rule 1 (drop) hit 250, rule 2 (mark) hit 1000" {
		t.Errorf("%+v", f)
	}
	for _, c := range []struct {
		faults Faults
		want   string
	}{
		{Faults{CreditLoss: 0.5}, "which only InfiniBand has"},
		{Faults{PauseLoss: 2}, "expected a probability from 0 to 1"},
		{Faults{Rules: &faults.Rules{Rules: []faults.Rule{{Action: faults.PortDown}}}}, "expected an action of cables"},
		{Faults{Rules: &faults.Rules{Rules: []faults.Rule{{Action: faults.Corrupt, ICRC: "right"}}}}, "a cable knows no ICRC"},
		{Faults{Rules: &faults.Rules{Rules: []faults.Rule{{Action: faults.Drop, Select: faults.Selector{Direction: faults.Received}}}}}, "frames of both ends"},
	} {
		if _, err := w.ask(Request{Verb: VerbFaults, Args: []string{"node-0"}, Faults: &c.faults}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.faults, err)
		}
	}
	w.do(Request{Verb: VerbFaults, Args: []string{"node-1"}, Faults: &Faults{}})
	if l := w.do(Request{Verb: VerbFaults}).Links; len(l) != 0 {
		t.Errorf("%+v", l)
	}
}

// Trace and routes give for an IPv6 address the hash, the route and the host of its packets.
func TestEthernetTraceAndRoutesKnowIPv6(t *testing.T) {
	w := newEther(t, "leaf-spine:leaves=2,spines=4,hosts=2", func(c *lan.Config) { c.IPv6 = true })
	from, _ := w.net.Fabric().Find("node-0")
	to, _ := w.net.Fabric().Find("node-3")
	src, dst := lan.IPv6(w.net.IP(from)), lan.IPv6(w.net.IP(to))
	for port := uint16(0xc000); port < 0xc010; port++ {
		tr := w.do(Request{Verb: VerbTrace, Args: []string{"node-0", dst.Addr().String()}, SourcePort: port}).Trace
		if tr.Broken != nil || len(tr.Hops) != 5 || tr.To != "node-3" || tr.FromIP != src.Addr().String() || tr.ToIP != dst.Addr().String() ||
			tr.Hash != dcb.FlowOf(src, dst, protocolUDP, port, rocePort) {
			t.Fatalf("%+v, broken %+v", tr, tr.Broken)
		}
	}
	of := make(map[string]int)
	for _, p := range w.do(Request{Verb: VerbRoutes, Args: []string{"leaf-0"}}).Routes.Prefixes {
		of[p.Node]++
	}
	if of["node-0"] != 2 || of["node-1"] != 2 || of["leaf-1"] != 2 || of[""] != 0 {
		t.Errorf("%v", of)
	}
}

// A rate so small that the time between two packets is more than a clock holds would be none.
func TestEthernetRefusesALoadOfATinyRate(t *testing.T) {
	for _, rate := range []float64{1e-300, 1e-9, 1e-7} {
		w := newEther(t, "star:2", func(*lan.Config) {})
		_, err := w.ask(Request{Verb: VerbLoad, Args: []string{"node-0", "node-1"}, Load: &LoadRequest{Size: 100, Packets: 2_000_000, Rate: rate}})
		w.run(time.Millisecond)
		if err == nil || !strings.Contains(err.Error(), "rate: expected at least") {
			t.Errorf("%g: %v, %+v", rate, err, w.do(Request{Verb: VerbLoad}).Loads)
		}
	}
}

// A datagram that is longer than the host's link takes would be dropped there.
func TestEthernetRefusesALoadThatIsTooLong(t *testing.T) {
	w := newEther(t, "star:2", func(c *lan.Config) { c.Link.Port.MTU = 1518 })
	for size, want := range map[int]string{1472: "", 1473: "size: expected up to 1472 on the link of node-0, found 1473"} {
		_, err := w.ask(Request{Verb: VerbLoad, Args: []string{"node-0", "node-1"}, Load: &LoadRequest{Size: size, Packets: 1}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", size, err)
		}
	}
	w.run(time.Millisecond)
	if l := w.do(Request{Verb: VerbLoad}).Loads; len(l) != 1 || l[0].Arrived != 1 {
		t.Errorf("%+v", l)
	}
}

// What was under way on a cable that is cut is counted as lost at the end to which it went.
func TestEthernetCountersHaveWhatWasUnderWay(t *testing.T) {
	w := newEther(t, "star:2", func(c *lan.Config) { c.Link.Cable = 100 * dcb.Microsecond })
	w.do(Request{Verb: VerbLoad, Args: []string{"node-0", "node-1"}, Load: &LoadRequest{Size: 1000, Packets: 10}})
	w.run(50 * time.Microsecond)
	w.do(Request{Verb: VerbLinkDown, Args: []string{"node-0"}})
	n := uint64(0)
	for _, c := range w.do(Request{Verb: VerbCounters, Args: []string{"switch-0:1"}}).Counters[0].Values {
		if c.Name == "ETHERNET_LINK_DOWN" {
			n = c.Value
		}
	}
	if n != 10 {
		t.Errorf("%d frames, expected 10", n)
	}
}

// A farEnd is what a trunk leads to.
type farEnd struct{}

func (farEnd) Send(*dcb.Frame) {}
func (farEnd) Changed()        {}
func (farEnd) String() string  { return "far" }

// A trunk whose other end takes no more is named, and counted, as pauses are.
func TestEthernetNamesATrunkThatTakesNoMore(t *testing.T) {
	w := newEther(t, "star:2,spare=1", func(c *lan.Config) { c.Prefix = netip.MustParsePrefix("10.1.0.0/16") })
	at, x := topology.End{Port: 3}, w.net.Trunks()
	x.Plug(at, farEnd{})
	x.Join(0, at, lan.Far{Prefix: netip.MustParsePrefix("10.2.0.0/16"), Switch: 0x020000000009})
	held := func() time.Duration {
		t.Helper()
		tr := w.do(Request{Verb: VerbTrace, Args: []string{"node-0", "10.2.0.5"}}).Trace
		if tr.Broken != nil || tr.Trunk != "far" || len(tr.Hops) != 2 || tr.Hops[0].Held != 0 {
			t.Fatalf("%+v", tr)
		}
		return tr.Hops[1].Held
	}
	if d := held(); d != 0 {
		t.Errorf("held for %v without a hold", d)
	}
	x.Hold(at, true)
	w.run(3 * time.Millisecond)
	if d := held(); d != 3*time.Millisecond {
		t.Errorf("held for %v, expected 3 ms", d)
	}
	w.wantCounters("switch-0:3", map[string]uint64{"trunk held": 1, "trunk held ns": 3e6, "trunk held now ns": 3e6})
	if l := w.do(Request{Verb: VerbLinks, Args: []string{"switch-0"}}).Links; l[2].Ends[0].Wait != 3*time.Millisecond {
		t.Errorf("%+v", l[2].Ends[0])
	}
	x.Hold(at, false)
	w.run(time.Millisecond)
	if d := held(); d != 0 {
		t.Errorf("held for %v after the hold", d)
	}
	w.wantCounters("switch-0:3", map[string]uint64{"trunk held": 1, "trunk held ns": 3e6, "trunk held now ns": 0})
}

// wantCounters compares some counters of a port.
func (w *etherWorld) wantCounters(port string, want map[string]uint64) {
	w.t.Helper()
	got := make(map[string]uint64)
	for _, c := range w.do(Request{Verb: VerbCounters, Args: []string{port}}).Counters[0].Values {
		got[c.Name] = c.Value
	}
	for name, n := range want {
		if got[name] != n {
			w.t.Errorf("%s: %d %s, expected %d", port, got[name], name, n)
		}
	}
}

// A pause that has not ended is counted by itself.
func TestEthernetCountersHaveThePresentPause(t *testing.T) {
	w := newEther(t, "star:2", func(*lan.Config) {})
	p := w.net.Switch(0).Port(1)
	p.Paused(0, &dcb.Frame{Op: ethernet.OpPFC, Enable: 1 << 3, Quanta: [ethernet.Priorities]uint16{3: 0xffff}})
	w.run(100 * time.Microsecond)
	w.wantCounters("switch-0:1", map[string]uint64{"priority 3 paused ns": 0, "priority 3 paused now ns": 1e5})
}

func TestEthernetDeadlockRefusesAPriorityThatIsNone(t *testing.T) {
	w := newEther(t, "ring:5", func(*lan.Config) {})
	sl := uint8(9)
	if _, err := w.ask(Request{Verb: VerbDeadlock, SL: &sl}); err == nil || !strings.Contains(err.Error(), "expected 0 to 7, found 9") {
		t.Error(err)
	}
}

// FuzzTransport finds packets of RoCE in any frame, within it.
func FuzzTransport(f *testing.F) {
	f.Add([]byte{0: 1, 12: 8, 14: 0x45, 23: 17, 36: 0x12, 37: 0xb7, 39: 30, 60: 0})
	f.Add(make([]byte, ethernet.MinLen))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p := transport(b); len(p) > len(b) {
			t.Errorf("%d of %d bytes", len(p), len(b))
		}
	})
}
