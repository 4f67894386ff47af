package bridge

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"testing"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
)

func TestSwitchLearnsAndFloods(t *testing.T) {
	w := newWorld(t, Config{Ports: ports(4, plain())})
	w.receive(1, func(f *dcb.Frame) { f.Dst = host(2) })
	w.run(w.now + dcb.Microsecond)
	if got := w.to(); !slices.Equal(got, []int{2, 3, 4}) {
		t.Errorf("a frame to an unknown address left by %v", got)
	}
	w.sent = nil
	w.receive(2, func(f *dcb.Frame) { f.Dst = host(1) })
	w.run(w.now + dcb.Microsecond)
	if got := w.to(); !slices.Equal(got, []int{1}) {
		t.Errorf("a frame to an address behind port 1 left by %v", got)
	}
	// The host moves.
	w.receive(3, func(f *dcb.Frame) { f.Src, f.Dst = host(1), host(2) })
	w.sent = nil
	w.receive(2, func(f *dcb.Frame) { f.Dst = host(1) })
	w.run(w.now + dcb.Microsecond)
	if got := w.to(); !slices.Contains(got, 3) || slices.Contains(got, 1) {
		t.Errorf("a frame to a host that moved left by %v", got)
	}
	// Old addresses are forgotten (802.1Q 8.8.3), and those behind a link that goes down.
	for _, forget := range []func(){func() { w.run(w.now + DefaultAgeing + dcb.Second) }, func() { w.sw.SetLink(w.now, 3, false) }} {
		w.receive(3, func(f *dcb.Frame) { f.Src, f.Dst = host(1), host(2) })
		forget()
		w.run(w.now + dcb.Microsecond)
		w.sent = nil
		w.receive(2, func(f *dcb.Frame) { f.Dst = host(1) })
		w.run(w.now + dcb.Microsecond)
		if got := w.to(); len(got) < 2 {
			t.Errorf("a frame to a forgotten address left by %v", got)
		}
	}
	if w.pool.Used() != 0 || w.sw.Buffer().Used != 0 {
		t.Errorf("%d frames and %d bytes are left", w.pool.Used(), w.sw.Buffer().Used)
	}
}

func TestVLANsAreSeparate(t *testing.T) {
	all := ports(4, plain())
	all[1].Tagged, all[2].VLAN, all[3].Trunk = []uint16{7}, 7, true
	w := newWorld(t, Config{Ports: all, Trust: TrustPCP})
	for _, c := range []struct {
		in     int
		vlan   uint16
		tagged bool
		to     []int
		tags   []bool
	}{
		{1, 7, true, []int{2, 3}, []bool{false, true}},
		{2, 0, false, []int{1, 3}, []bool{true, true}},
		{2, 0, true, []int{1, 3}, []bool{true, true}}, // a priority tag
		{1, 0, false, []int{3, 4}, []bool{false, false}},
		{3, 9, true, nil, nil},
		{4, 7, true, nil, nil},
	} {
		w.sent, w.drops = nil, nil
		w.receive(c.in, func(f *dcb.Frame) { f.Tagged, f.VLAN, f.PCP = c.tagged, c.vlan, 5 })
		w.run(w.now + dcb.Microsecond)
		slices.SortFunc(w.sent, func(a, b departure) int { return a.port - b.port })
		if got := w.to(); !slices.Equal(got, c.to) {
			t.Errorf("VLAN %d from port %d left by %v, expected %v", c.vlan, c.in, got, c.to)
			continue
		}
		for i, d := range w.sent {
			if d.f.Tagged != c.tags[i] || d.f.Tagged && d.f.PCP != 5*uint8(min(1, len(c.tags)))*b(c.tagged) {
				t.Errorf("VLAN %d by port %d: tagged %v with priority %d", c.vlan, d.port, d.f.Tagged, d.f.PCP)
			}
		}
		if c.to == nil && (len(w.drops) != 1 || w.drops[0].Reason != reason.EthernetVLAN && w.drops[0].Reason != reason.EthernetLoop) {
			t.Errorf("VLAN %d from port %d: dropped for %v", c.vlan, c.in, w.drops)
		}
	}
}

func b(x bool) uint8 {
	if x {
		return 1
	}
	return 0
}

func TestSwitchRefusesByName(t *testing.T) {
	cfg := Config{Ports: ports(3, plain())}
	cfg.Ports[1].Storm = Storm{Rate: dcb.Gbit, Burst: 2500}
	for _, c := range []struct {
		name   string
		change func(f *dcb.Frame)
		times  int
		want   reason.Reason
	}{
		{"longer than the MTU", func(f *dcb.Frame) { f.Len = 1519 }, 1, reason.EthernetLong},
		{"a tag does not count", func(f *dcb.Frame) { f.Len, f.Tagged = 1522, true }, 1, reason.None},
		{"VLAN", func(f *dcb.Frame) { f.Tagged, f.VLAN = true, 9 }, 1, reason.EthernetVLAN},
		{"an address that no bridge forwards", func(f *dcb.Frame) { f.Dst = 0x0180c2000003 }, 1, reason.EthernetReserved},
		{"LLDP ends here", func(f *dcb.Frame) { f.Dst = 0x0180c200000e }, 1, reason.None},
		{"a host behind the same port", func(f *dcb.Frame) { f.Dst = host(1) }, 1, reason.EthernetLoop},
		{"no route", func(f *dcb.Frame) { f.Dst, f.IP, f.To, f.Hops = router, true, dcb.IPv4(1), 9 }, 1, reason.EthernetRoute},
		{"hop limit", func(f *dcb.Frame) { f.Dst, f.IP, f.To, f.Hops = router, true, dcb.IPv4(10<<24|1), 1 }, 1, reason.EthernetHops},
		{"the last hop but one", func(f *dcb.Frame) { f.Dst, f.IP, f.To, f.Hops = router, true, dcb.IPv4(10<<24|1), 2 }, 1, reason.None},
		{"two flooded frames are allowed at once", func(f *dcb.Frame) {}, 2, reason.None},
		{"three are a storm", func(f *dcb.Frame) {}, 3, reason.EthernetStorm},
		{"known addresses are none", func(f *dcb.Frame) { f.Dst = host(2) }, 9, reason.None},
		{"link down", func(f *dcb.Frame) { f.Dst, f.IP, f.To, f.Hops = host(3), true, dcb.IPv4(1), 9 }, 1, reason.None},
	} {
		w := newWorld(t, cfg)
		w.sw.AddRoute(netip.MustParsePrefix("10.0.0.0/8"), Hop{2, host(2)})
		w.learn()
		before := w.sw.Port(1).Dropped(c.want)
		for range c.times {
			w.receive(1, c.change)
		}
		w.run(w.now + dcb.Millisecond)
		if got := w.reasons(); (c.want == reason.None) != (len(got) == 0) || len(got) > 0 && got[0] != c.want {
			t.Errorf("%s: dropped for %v, expected %v", c.name, w.drops, c.want)
		}
		if c.want != reason.None && w.sw.Port(1).Dropped(c.want) != before+1 {
			t.Errorf("%s: %d drops counted", c.name, w.sw.Port(1).Dropped(c.want))
		}
		if w.pool.Used() != 0 {
			t.Errorf("%s: %d frames are left", c.name, w.pool.Used())
		}
	}
	w := newWorld(t, Config{Ports: ports(2, plain())})
	w.sw.SetLink(0, 1, false)
	w.receive(1, func(f *dcb.Frame) {})
	if got := w.reasons(); !slices.Equal(got, []reason.Reason{reason.EthernetLinkDown}) {
		t.Errorf("at a link that is down: %v", got)
	}
}

func TestPrioritiesComeFromWhatIsTrusted(t *testing.T) {
	dscp, pcp := [64]uint8{26: 3, 48: 6}, [8]uint8{5: 2}
	for _, c := range []struct {
		config Config
		frame  dcb.Frame
		want   uint8
	}{
		{Config{}, dcb.Frame{IP: true, DSCP: 26, Tagged: true, PCP: 5}, 3},
		{Config{}, dcb.Frame{DSCP: 46}, 5}, // RoCE v1
		{Config{}, dcb.Frame{Tagged: true, PCP: 5}, 5},
		{Config{}, dcb.Frame{}, 4},
		{Config{Trust: TrustPCP}, dcb.Frame{IP: true, DSCP: 26, Tagged: true, PCP: 5}, 5},
		{Config{Trust: TrustPCP}, dcb.Frame{IP: true, DSCP: 26}, 4},
		{Config{Trust: TrustPCP, PCP: &pcp}, dcb.Frame{Tagged: true, PCP: 5}, 2},
		{Config{DSCP: &dscp}, dcb.Frame{IP: true, DSCP: 48}, 6},
		{Config{DSCP: &dscp}, dcb.Frame{IP: true, DSCP: 0}, 0},
	} {
		c.config.Ports = ports(2, plain())
		c.config.Ports[1].Priority = 4
		w := newWorld(t, c.config)
		if got := w.sw.priority(w.sw.Port(1), &c.frame); got != c.want {
			t.Errorf("%+v, trust %d: priority %d, expected %d", c.frame, c.config.Trust, got, c.want)
		}
	}
}

func TestPathsAreChosenByFlow(t *testing.T) {
	for _, c := range []struct {
		balance Balance
		order   bool // all frames of a flow take one path
	}{{ByFlow, true}, {ByFlowlet, true}, {Spray, false}} {
		w := newWorld(t, Config{Ports: ports(5, plain()), Balance: c.balance})
		w.sw.AddRoute(netip.MustParsePrefix("2001:db8::/32"), Hop{2, host(2)}, Hop{3, host(3)}, Hop{4, host(4)}, Hop{5, host(5)})
		to := dcb.IPFrom(netip.MustParseAddr("2001:db8::9").As16())
		used := map[int]int{}
		for port := range uint16(400) {
			paths := map[int]bool{}
			for range 3 {
				w.sent = nil
				w.receive(1, func(f *dcb.Frame) {
					f.Dst, f.IP, f.To, f.Hops, f.Flow = router, true, to, 9, dcb.FlowOf(dcb.IP{Lo: 1}, to, 17, 49152+port, 4791)
				})
				w.run(w.now + dcb.Microsecond)
				for _, d := range w.sent {
					paths[d.port] = true
					used[d.port]++
					if d.f.Hops != 8 || d.f.Src != router || d.f.Dst != host(d.port) {
						t.Fatalf("%+v left by port %d", d.f, d.port)
					}
				}
			}
			if c.order && len(paths) != 1 {
				t.Fatalf("balance %d: a flow left by %v", c.balance, paths)
			}
		}
		for p := 2; p <= 5; p++ {
			if used[p] < 200 || used[p] > 400 {
				t.Errorf("balance %d: %d of 1200 frames left by port %d", c.balance, used[p], p)
			}
		}
		// A path whose link is down is not taken.
		w.sw.SetLink(w.now, 3, false)
		w.sent = nil
		for port := range uint16(100) {
			w.receive(1, func(f *dcb.Frame) { f.Dst, f.IP, f.To, f.Hops, f.Flow = router, true, to, 9, uint64(port)<<50 })
			w.run(w.now + dcb.Microsecond)
		}
		if got := w.to(); len(got) != 100 || slices.Contains(got, 3) {
			t.Errorf("balance %d: %d frames left, by %v", c.balance, len(got), got)
		}
	}
}

func TestMarkingFollowsTheQueue(t *testing.T) {
	cfg := Config{Ports: ports(3, plain()), Seed: 1}
	cfg.Marking[0] = Marking{Min: 20000, Max: 60000, Most: .5, Drop: true}
	for _, ecn := range []uint8{dcb.ECT0, dcb.NotECT} {
		w := newWorld(t, cfg)
		w.learn()
		marked := make([]int, 100)
		const rounds = 300
		for range rounds {
			for i := range 100 { // a queue of 1,000 bytes more each time
				before := w.sw.Port(3).Counters(0).Marked + uint64(len(w.drops))
				for w.sw.Port(3).Queue(0).Bytes < 1000*i {
					w.receive(2, func(f *dcb.Frame) { f.Dst, f.ECN = host(3), dcb.CE }) // marked already
					before++
				}
				before = w.sw.Port(3).Counters(0).Marked + uint64(len(w.drops))
				w.receive(1, func(f *dcb.Frame) { f.Dst, f.ECN = host(3), ecn })
				marked[i] += int(w.sw.Port(3).Counters(0).Marked + uint64(len(w.drops)) - before)
			}
			w.run(w.now + dcb.Millisecond)
			w.sent = w.sent[:0]
		}
		for i, n := range marked {
			length := float64(1000 * i)
			want := .5 * (length - 20000) / 40000
			if length <= 20000 {
				want = 0
			} else if length > 60000 {
				want = 1
			}
			if got := float64(n) / rounds; got < want-.12 || got > want+.12 {
				t.Errorf("ECN %d, queue of %d bytes: %.2f are marked or dropped, expected %.2f", ecn, 1000*i, got, want)
			}
		}
		for _, r := range w.reasons() {
			if ecn != dcb.NotECT || r != reason.EthernetEarly {
				t.Fatalf("ECN %d: dropped for %v", ecn, r)
			}
		}
	}
}

// A golden packet passes a router: addresses, hop limit, checksum and mark change, and nothing else.
func TestContentOfARoutedFrame(t *testing.T) {
	const before = "0200000000ff" + "020000000001" + "0800" + "4502001c00004000 3f11 24cd 0a000101 0a000202" + "c001 12b7 0008 0000"
	const after = "020000000002" + "0200000000ff" + "8100 6007" + "0800" + "4503001c00004000 3e11 25cc 0a000101 0a000202" + "c001 12b7 0008 0000"
	cfg := Config{Ports: ports(2, plain()), DSCP: &[64]uint8{0: 3}}
	cfg.Ports[2].Trunk, cfg.Ports[2].VLAN = true, 1
	w := newWorld(t, cfg)
	f := w.pool.Frame()
	f.Data = append(f.Data, unhex(t, before)...)
	if d := f.Parse(); d.Reason != reason.None || f.To != dcb.IPv4(0x0a000202) || f.Hops != 63 || f.ECN != dcb.ECT0 || f.Len != dcb.MinFrame {
		t.Fatalf("%v: %+v", d, f)
	}
	f.Mark()
	f.Forward(router, host(2))
	f.Tag(true, 7, 3)
	if got, want := hex.EncodeToString(f.Data), hex.EncodeToString(unhex(t, after)); got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	if f.Tag(false, 0, 0); len(f.Data) != len(unhex(t, before)) || f.Len != dcb.MinFrame {
		t.Errorf("%d bytes without a tag", len(f.Data))
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(string(slices.DeleteFunc([]byte(s), func(c byte) bool { return c == ' ' })))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPausedPriorityWaitsAlone(t *testing.T) {
	w := newWorld(t, Config{Ports: ports(2, pfc(1<<3|1<<4))})
	w.learn()
	w.pause(2, 1000, 1<<3) // 1,000 quanta of 512 bits
	begin := w.now
	for _, priority := range []uint8{3, 4} {
		w.receive(1, func(f *dcb.Frame) { f.Dst, f.IP, f.DSCP = host(2), true, priority<<3 })
	}
	w.run(begin + 2*dcb.Microsecond)
	if len(w.sent) != 1 || w.sent[0].f.Priority != 4 {
		t.Errorf("%d frames left in a pause of priority 3", len(w.sent))
	}
	w.run(begin + dcb.Millisecond)
	end := begin + 1000*512/8*80
	if len(w.sent) != 2 || w.sent[1].at != end || w.sw.Port(2).Counters(3).Paused != end-begin {
		t.Errorf("%d frames left, paused for %d ps, expected %d", len(w.sent), w.sw.Port(2).Counters(3).Paused, end-begin)
	}
	// A pause ends early with 0 quanta (802.3 31D.3.2).
	w.sent = nil
	w.pause(2, 0xffff, 1<<3)
	w.receive(1, func(f *dcb.Frame) { f.Dst, f.IP, f.DSCP = host(2), true, 3<<3 })
	w.run(w.now + 5*dcb.Microsecond)
	w.pause(2, 0, 1<<3)
	w.run(w.now + dcb.Nanosecond)
	if len(w.sent) != 1 {
		t.Errorf("%d frames left after the end of a pause", len(w.sent))
	}
}

// A host that invents an address for each frame fills the table, and makes the switch look through all of it a
// few times, not for each frame.
func TestFullTableIsAgedSeldom(t *testing.T) {
	c := Config{Addresses: 16, Ageing: 64 * dcb.Second}
	var k table
	looked := 0
	for now := dcb.Time(0); now < 2*c.Ageing; now += 10 * dcb.Millisecond {
		before := k.aged
		k.learn(now, &c, 1, host(1)+dcb.Address(now/dcb.Millisecond), 1, new(source))
		if k.aged != before {
			looked++
		}
		if len(k.entries) > c.Addresses {
			t.Fatalf("%d addresses in a table of %d", len(k.entries), c.Addresses)
		}
	}
	if looked == 0 || looked > 2*64 {
		t.Errorf("the switch has looked through its table %d times in twice the time of an entry", looked)
	}
	if k.learn(4*c.Ageing, &c, 1, host(0), 2, new(source)); k.find(4*c.Ageing, &c, 1, host(0)) != 2 {
		t.Error("an address that comes when the others have aged is not learned")
	}
}
