package live_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/control"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

// etherPair starts two Ethernets that a trunk joins, with hosts in two prefixes.
func etherPair(t *testing.T, prefixes ...string) (parts []*part, drops *atomic.Int64) {
	t.Helper()
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	at, drops := fabrictest.FreeUDP(t, 2), new(atomic.Int64)
	for i, prefix := range prefixes {
		p := newPart(t, fmt.Sprint("part", i), "leaf-spine:leaves=2,spines=2,hosts=2,spare=1", at[i], at[1-i], false)
		p.config.Ethernet = fabrictest.NewEthernet()
		p.config.Ethernet.Prefix = netip.MustParsePrefix(prefix)
		p.config.Dropped = func(topology.End, reason.Detail) { drops.Add(1) }
		p.start()
		parts = append(parts, p)
	}
	return parts, drops
}

func (p *part) host(i int) *wired {
	p.t.Helper()
	return newWired(open(p.t, p.nodes[i], hostport.Datagrams, nil))
}

// other opens the other address of the host of a program.
func (p *part) other(w *wired) *wired {
	p.t.Helper()
	return newWired(open(p.t, p.config.Name+"/"+w.port.Info().Addrs[1].String(), hostport.Datagrams, nil))
}

// links are the states of the trunks' links.
func (p *part) links() (states []string) {
	for _, l := range answer(p.t, p, control.Request{Verb: control.VerbLinks}).Links {
		if l.Ends[1].Port == 0 {
			states = append(states, l.State)
		}
	}
	return states
}

func (p *part) joined() bool { return slices.Equal(p.links(), []string{control.LinkActive}) }

func TestTrunkJoinsEthernets(t *testing.T) {
	parts, drops := etherPair(t, "10.1.0.0/16", "10.2.0.0/16")
	for _, p := range parts {
		fabrictest.WaitFor(t, "the trunk", p.joined)
	}
	a, b := parts[0].host(3), parts[1].host(3)
	for family := range 2 {
		if family > 0 {
			a, b = parts[0].other(a), parts[1].other(b)
		}
		if _, found, err := a.port.FindHost(b.Local().Addr()); err != nil || !found {
			t.Errorf("%v is not found: %v", b.Local(), err)
		}
		for i := range 50 {
			payload := []byte(strings.Repeat(string(rune('a'+i%26)), 1+i*170))
			a.send(t, b, 0, payload)
			rx := b.receive(t)
			if string(rx.Data) != string(payload) || rx.Src.Addr() != a.Local().Addr() {
				t.Fatalf("%d bytes from %v", len(rx.Data), rx.Src)
			}
			b.send(t, a, 96, payload)
			if rx := a.receive(t); string(rx.Data) != string(payload) || rx.TOS != 96 {
				t.Fatalf("%d bytes, TOS %d", len(rx.Data), rx.TOS)
			}
		}
	}
	x := answer(t, parts[0], control.Request{Verb: control.VerbTrace, Args: []string{"node-3", "10.2.2.1"}}).Trace
	if x.Broken != nil || !strings.HasPrefix(x.Trunk, "part1/spine-0:") {
		t.Errorf("%+v", x)
	}
	if n := drops.Load(); n != 0 {
		t.Errorf("%d frames dropped", n)
	}
}

// The cable of a trunk can be taken away at each end, and the other fabric may end and come back.
func TestTrunkOfEthernetsGoesDownAndComesBack(t *testing.T) {
	parts, _ := etherPair(t, "10.1.0.0/16", "10.2.0.0/16")
	a, b := parts[0], parts[1]
	fabrictest.WaitFor(t, "the trunk", a.joined)
	const trunk = "spine-0:3"
	for _, p := range parts {
		answer(t, p, control.Request{Verb: control.VerbLinkDown, Args: []string{trunk}})
		fabrictest.WaitFor(t, "links that are down", func() bool { return !a.joined() && !b.joined() })
		answer(t, p, control.Request{Verb: control.VerbLinkUp, Args: []string{trunk}})
		fabrictest.WaitFor(t, "the trunk again", func() bool { return a.joined() && b.joined() })
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	fabrictest.WaitFor(t, "the end of the other fabric", func() bool { return !a.joined() })
	x := answer(t, a, control.Request{Verb: control.VerbTrace, Args: []string{"node-0", "10.2.2.1"}}).Trace
	if x.Broken == nil || x.Broken.Reason != reason.EthernetRoute.String() {
		t.Errorf("%+v", x)
	}
	b.start()
	fabrictest.WaitFor(t, "the next fabric", func() bool { return a.joined() && b.joined() })
	from, to := a.host(0), b.host(0)
	from.send(t, to, 0, []byte("again"))
	if rx := to.receive(t); string(rx.Data) != "again" {
		t.Errorf("%q", rx.Data)
	}
}

// A program that has asked for an address before the fabric with it was there finds it afterwards.
func TestHostsOfAFabricThatComesLater(t *testing.T) {
	parts, _ := etherPair(t, "10.1.0.0/16", "10.2.0.0/16")
	a, b := parts[0], parts[1]
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	fabrictest.WaitFor(t, "the end of the other fabric", func() bool { return !a.joined() })
	ports, far := []*attach.Port{a.host(0).port}, netip.MustParseAddr("10.2.2.1")
	reached := func() bool {
		_, found := attach.Reaching(ports, func(p *attach.Port) *attach.Port { return p }, far)
		return found
	}
	if reached() {
		t.Error("a host of a fabric that has ended is found")
	}
	b.start()
	fabrictest.WaitFor(t, "the next fabric", func() bool { return a.joined() && b.joined() })
	fabrictest.WaitFor(t, "its host", reached)
}

// A program in one fabric that takes nothing of a lossless priority pauses it back to the host in the
// other one, and nothing is lost.
func TestPausesPassTrunks(t *testing.T) {
	parts, drops := etherPair(t, "10.1.0.0/16", "10.2.0.0/16")
	fabrictest.WaitFor(t, "the trunk", parts[0].joined)
	a, b := parts[0].host(0), parts[1].host(0)
	losslessPriorityWaits(t, a, b, func() bool { return paused(t, parts[0], "spine-0:3") && paused(t, parts[0], "node-0") })
	if n := drops.Load(); n != 0 {
		t.Errorf("%d frames dropped", n)
	}
}

func TestEthernetsWithTheSameAddressesRefuseEachOther(t *testing.T) {
	parts, _ := etherPair(t, "10.1.0.0/16", "10.0.0.0/8")
	for i, p := range parts {
		fabrictest.WaitFor(t, "a refusal", func() bool { return p.lost(reason.EthernetPrefix) || p.lost(reason.FabricTrunkClosed) })
		if p.joined() {
			t.Errorf("fabric %d is joined", i)
		}
	}
}
