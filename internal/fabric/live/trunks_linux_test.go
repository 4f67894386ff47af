package live_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
	"softrdma/internal/fabric/subnet"
	"softrdma/internal/fabric/trunk"
	"softrdma/internal/management/sm"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/mad/smp"
)

// A part is one of the fabrics that trunks join.
type part struct {
	*live.Fabric
	t      *testing.T
	config live.Config
	nodes  []string // addresses of the adapters

	mu   sync.Mutex
	ends []reason.Reason // why trunks lost their other ends
	met  int
}

// newPart describes a fabric of a shape, with a trunk at the last port of its first switch.
func newPart(t *testing.T, name, shape, listen, peer string, manager bool) *part {
	t.Helper()
	f, err := topology.Generate(shape)
	if err != nil {
		t.Fatal(err)
	}
	p := &part{t: t}
	p.config = live.Config{Name: name, Fabric: f, Trunks: live.Trunks{
		Listen: netip.MustParseAddrPort(listen), Secret: []byte("secret"),
		Cables: []live.Cable{{At: topology.End{Node: 0, Port: f.Nodes[0].NumPorts()}, Peer: netip.MustParseAddrPort(peer)}},
		Changed: func(_ topology.End, peer *trunk.Peer, why reason.Detail) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if peer != nil {
				p.met++
			} else {
				p.ends = append(p.ends, why.Reason)
			}
		},
	}}
	if manager {
		p.config.Manager = &sm.Config{}
	}
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Adapter {
			p.nodes = append(p.nodes, name+"/"+f.Nodes[i].ID)
		}
	}
	t.Cleanup(func() {
		if p.Fabric != nil {
			_ = p.Close()
		}
	})
	return p
}

func (p *part) start() {
	p.t.Helper()
	var err error
	if p.Fabric, err = live.Start(p.config); err != nil {
		p.t.Fatal(err)
	}
}

func (p *part) attach(i int) *attach.Port {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	q, err := attach.Open(ctx, p.nodes[i])
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = q.Close() })
	p.t.Helper()
	fabrictest.WaitFor(p.t, "an active port", func() bool { return active(q) })
	return q
}

func active(p *attach.Port) bool {
	i := p.Info()
	return i.Up && i.PortInfo.State == smp.PortActive && i.PortInfo.LID != 0
}

// trunkState is the state of the trunk's port.
func (p *part) trunkState() (s smp.PortState) {
	p.Do(func(_ time.Duration, n *subnet.Subnet, _ *sm.Manager) {
		at := p.config.Trunks.Cables[0].At
		s = n.Node(at.Node).Link(at.Port).State
	})
	return s
}

func (p *part) lost(r reason.Reason) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.ends, r)
}

// pair starts two fabrics that a trunk joins. The first one has the manager.
func pair(t *testing.T) (a, b *part) {
	t.Helper()
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	at := fabrictest.FreeUDP(t, 2)
	a = newPart(t, "a", "star:2,spare=1", at[0], at[1], true)
	b = newPart(t, "b", "star:2,spare=1,part=1", at[1], at[0], false)
	a.start()
	b.start()
	return a, b
}

// exchange sends packets both ways between two ports of different fabrics.
func exchange(t *testing.T, x, y *attach.Port) {
	t.Helper()
	for seq := range uint32(100) {
		want := [][]byte{datagram(x, y, 0, 3*seq, 4096), datagram(x, y, 0, 3*seq+1, 4096), datagram(x, y, 0, 3*seq+2, 64)}
		send(t, x, want...)
		for i, w := range want {
			if got := receive(t, y); !bytes.Equal(got, w) {
				t.Fatalf("packet %d of batch %d: %x, expected %x", i, seq, got, w)
			}
		}
		answer := datagram(y, x, 0, seq, 8)
		send(t, y, answer)
		if got := receive(t, x); !bytes.Equal(got, answer) {
			t.Fatalf("answer %d: %x", seq, got)
		}
	}
}

func TestOneManagerSetsUpTwoFabricsThatATrunkJoins(t *testing.T) {
	a, b := pair(t)
	x, y := a.attach(0), b.attach(1)
	if p, q := x.Info().PortInfo, y.Info().PortInfo; p.LID == q.LID || p.MasterSMLID != q.MasterSMLID {
		t.Errorf("LIDs %d and %d, managers %d and %d", p.LID, q.LID, p.MasterSMLID, q.MasterSMLID)
	}
	words := func(p *part) (sent, received uint64) {
		p.Do(func(_ time.Duration, n *subnet.Subnet, _ *sm.Manager) {
			at := p.config.Trunks.Cables[0].At
			c := n.Node(at.Node).Counters(at.Port)
			sent, received = c.SLXmitData[0], c.SLRcvData[0]
		})
		return sent, received
	}
	exchange(t, x, y)
	sent, received := words(a)
	if least := uint64(100 * (2*4096 + 64) / 4); sent < least {
		t.Errorf("the trunk's port sent %d words, expected at least %d", sent, least)
	}
	fabrictest.WaitFor(t, "equal counters", func() bool {
		sent, received = words(a)
		s, r := words(b)
		return s == received && r == sent
	})
}

func TestTrunkThatIsCutComesBack(t *testing.T) {
	a, b := pair(t)
	x, y := a.attach(0), b.attach(0)
	exchange(t, x, y)
	sweeps := func() (n int) {
		a.Do(func(_ time.Duration, _ *subnet.Subnet, m *sm.Manager) { n = m.Status().Sweeps })
		return n
	}
	before := sweeps()
	a.Do(func(_ time.Duration, n *subnet.Subnet, _ *sm.Manager) { n.Cut(a.config.Trunks.Cables[0].At) })
	fabrictest.WaitFor(t, "a link that is down at both ends", func() bool {
		return a.trunkState() == smp.PortDown && b.trunkState() == smp.PortDown
	})
	fabrictest.WaitFor(t, "a sweep after the trap", func() bool { return sweeps() > before })
	a.Do(func(_ time.Duration, n *subnet.Subnet, _ *sm.Manager) { n.Repair(a.config.Trunks.Cables[0].At) })
	fabrictest.WaitFor(t, "a link that is active at both ends", func() bool {
		return a.trunkState() == smp.PortActive && b.trunkState() == smp.PortActive
	})
	exchange(t, x, y)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.met != 1 || len(a.ends) != 0 {
		t.Errorf("the session ended: %v", a.ends)
	}
}

func TestProcessThatEndsTakesItsTrunkDownUntilTheNextOne(t *testing.T) {
	a, b := pair(t)
	x, y := a.attach(0), b.attach(0)
	exchange(t, x, y)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	fabrictest.WaitFor(t, "a link that is down", func() bool { return a.trunkState() == smp.PortDown && a.lost(reason.FabricTrunkClosed) })
	fabrictest.WaitFor(t, "the program's port to go down", func() bool { return !y.Info().Up })
	b.start()
	fabrictest.WaitFor(t, "active ports", func() bool { return active(x) && active(y) && a.trunkState() == smp.PortActive })
	exchange(t, x, y)
}

func TestFabricsWithTheSameGUIDsStayApart(t *testing.T) {
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	at := fabrictest.FreeUDP(t, 2)
	a := newPart(t, "a", "star:2,spare=1", at[0], at[1], true)
	b := newPart(t, "b", "star:3,spare=1", at[1], at[0], false)
	a.start()
	b.start()
	fabrictest.WaitFor(t, "a refusal", func() bool {
		return a.lost(reason.FabricTrunkNode) && b.lost(reason.FabricTrunkClosed) || b.lost(reason.FabricTrunkNode) && a.lost(reason.FabricTrunkClosed) ||
			a.lost(reason.FabricTrunkNode) && b.lost(reason.FabricTrunkNode)
	})
	if a.trunkState() != smp.PortDown || b.trunkState() != smp.PortDown {
		t.Error("the link is up")
	}
}

func TestTrunkWithAnotherSecretStaysDown(t *testing.T) {
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	at := fabrictest.FreeUDP(t, 2)
	a := newPart(t, "a", "star:2,spare=1", at[0], at[1], true)
	b := newPart(t, "b", "star:2,spare=1,part=1", at[1], at[0], false)
	b.config.Trunks.Secret = nil
	a.start()
	b.start()
	fabrictest.WaitFor(t, "refusals", func() bool { return a.lost(reason.FabricTrunkSecret) && b.lost(reason.FabricTrunkSecret) })
	if a.met != 0 || b.met != 0 || a.trunkState() != smp.PortDown {
		t.Error("the fabrics met")
	}
}

// Three fabrics in a ring of trunks, each with two peers, and two trunks between the first two.
func TestTrunksFormARing(t *testing.T) {
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	at := fabrictest.FreeUDP(t, 3)
	parts := []*part{
		newPart(t, "a", "star:1,spare=3", at[0], at[1], true),
		newPart(t, "b", "star:1,spare=3,part=1", at[1], at[0], false),
		newPart(t, "c", "star:1,spare=3,part=2", at[2], at[0], false),
	}
	plug := func(i, port, peer int) {
		p := parts[i]
		p.config.Trunks.Cables = append(p.config.Trunks.Cables, live.Cable{At: topology.End{Node: 0, Port: port}, Peer: netip.MustParseAddrPort(at[peer])})
	}
	plug(0, 3, 1)
	plug(1, 3, 0)
	plug(0, 2, 2)
	plug(1, 2, 2)
	plug(2, 2, 1)
	var ports []*attach.Port
	for _, p := range parts {
		p.start()
	}
	for _, p := range parts {
		ports = append(ports, p.attach(0))
	}
	links := func() (n int) {
		for _, p := range parts {
			p.Do(func(_ time.Duration, s *subnet.Subnet, _ *sm.Manager) {
				for number := 2; number <= 4; number++ {
					if s.Node(0).Link(number).State == smp.PortActive {
						n++
					}
				}
			})
		}
		return n
	}
	fabrictest.WaitFor(t, "four trunks", func() bool { return links() == 8 })
	exchange(t, ports[0], ports[1])
	exchange(t, ports[1], ports[2])
	exchange(t, ports[2], ports[0])
}

func TestTrunksThatCannotBeAreRefused(t *testing.T) {
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	at := fabrictest.FreeUDP(t, 2)
	for _, x := range []struct {
		change func(*live.Config)
		want   string
	}{
		{func(c *live.Config) { c.Trunks.Cables[0].At.Port = 1 }, "without a cable"},
		{func(c *live.Config) { c.Trunks.Cables[0].At.Port = 9 }, "port from 1 to 3"},
		{func(c *live.Config) { c.Trunks.Cables = append(c.Trunks.Cables, c.Trunks.Cables[0]) }, "without a cable"},
		{func(c *live.Config) { c.Trunks.Listen = netip.MustParseAddrPort("[::1]:7") }, "same family"},
	} {
		p := newPart(t, "a", "star:2,spare=1", at[0], at[1], false)
		x.change(&p.config)
		f, err := live.Start(p.config)
		if err == nil {
			_ = f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, expected %q", err, x.want)
		}
	}
	a, b := newPart(t, "a", "star:2,spare=1", at[0], at[1], false), newPart(t, "b", "star:2,spare=1", at[0], at[1], false)
	a.start()
	if f, err := live.Start(b.config); err == nil {
		_ = f.Close()
		t.Error("two fabrics share a UDP port")
	} else if !strings.Contains(err.Error(), "address already in use") {
		t.Error(errors.Unwrap(err))
	}
}
