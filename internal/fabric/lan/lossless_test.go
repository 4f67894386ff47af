package lan

import (
	"flag"
	"math/rand/v2"
	"testing"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/station"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

var (
	frames = flag.Int("frames", 100_000, "number of frames that cross networks with PFC")
	round  = flag.Uint64("round", 0, "other traffic for these networks")
)

// An overload is hosts that send frames of any length as fast as they may, for a while to the same host, and
// many of them to one that changes from time to time.
type overload struct {
	net       *Network
	random    *rand.Rand
	mtu       int
	hosts     []int
	to        []int // by node
	hot       int
	delivered int
	drops     map[reason.Reason]int
}

func newOverload(t *testing.T, seed uint64, text string, speed dcb.Speed, mtu int, cable dcb.Time) *overload {
	c := &overload{random: rand.New(rand.NewPCG(seed, 4)), mtu: mtu, drops: map[reason.Reason]int{}}
	link := lossless()
	link.Port.Speed, link.Port.MTU, link.Cable = speed, mtu, cable
	fabric, ports := generate(t, text), 0
	for i := range fabric.Nodes {
		ports = max(ports, fabric.Nodes[i].NumPorts())
	}
	buffer := bridge.BufferConfig{ // little beside the headroom
		Size: 100*mtu + ports*dcb.Headroom(&link.Port, bridge.DefaultCell, dcb.MinFrame, cable, 0), Lossless: bridge.Alpha(seed%5) - 4}
	c.net = New(Config{Fabric: fabric, Link: link, Seed: seed, Host: station.Config{Queue: 2 * mtu},
		Switch:   bridge.Config{Balance: bridge.Balance(seed % 3), Buffer: buffer},
		Deliver:  c.deliver,
		Dropped:  func(_ dcb.Time, _ topology.End, _ *dcb.Frame, d reason.Detail) { c.drops[d.Reason]++ },
		Writable: func(now dcb.Time, node int) { c.feed(now, node) }})
	c.to = make([]int, c.net.Nodes())
	for i := range c.to {
		if c.net.Host(i) != nil {
			c.hosts = append(c.hosts, i)
		}
	}
	c.hot = c.hosts[0]
	for _, h := range c.hosts {
		c.to[h] = c.hosts[c.random.IntN(len(c.hosts))]
		c.feed(0, h)
	}
	return c
}

func (c *overload) deliver(_ dcb.Time, at topology.End, f *dcb.Frame) bool {
	c.delivered++
	c.net.PoolOf(at.Node).Put(f)
	return true
}

func (c *overload) feed(now dcb.Time, node int) {
	for host := c.net.Host(node); host.Room(3); {
		switch c.random.IntN(256) {
		case 0:
			c.hot = c.hosts[c.random.IntN(len(c.hosts))]
		case 1, 2, 3:
			c.to[node] = c.hot
		case 4, 5:
			c.to[node] = c.hosts[c.random.IntN(len(c.hosts))]
		}
		if c.to[node] == node {
			c.to[node] = c.hosts[c.random.IntN(len(c.hosts))]
			continue
		}
		f := c.net.PoolOf(node).Frame()
		c.net.Address(f, node, c.to[node], uint16(node))
		f.Len, f.DSCP, f.Priority = int32(c.mtu), 3<<3, 3
		if c.random.IntN(4) == 0 {
			f.Len = int32(dcb.MinFrame + c.random.IntN(c.mtu-dcb.MinFrame+1))
		}
		c.net.Send(now, node, f)
	}
}

// TestPFCLosesNothingAtAnyLoad overloads networks of all sizes whose ports have the headroom of their
// cables. -frames is the number of frames of all networks together.
func TestPFCLosesNothingAtAnyLoad(t *testing.T) {
	networks := []struct {
		text  string
		speed dcb.Speed
		mtu   int
		cable dcb.Time
	}{
		{"star:16", 100 * dcb.Gbit, 1518, DefaultCable}, {"star:16", 800 * dcb.Gbit, 9216, 10 * dcb.Microsecond},
		{"star:16", 10 * dcb.Gbit, 1518, 50 * dcb.Microsecond}, {"fat-tree:k=4", 400 * dcb.Gbit, 4200, dcb.Microsecond},
		{"leaf-spine:leaves=4,spines=2,hosts=4", 25 * dcb.Gbit, 1518, 100 * dcb.Nanosecond},
	}
	for i, x := range networks {
		c := newOverload(t, *round*uint64(len(networks))+uint64(i), x.text, x.speed, x.mtu, x.cable)
		for want := *frames / len(networks); c.delivered < want && len(c.drops) == 0; {
			c.net.Run(c.net.Now() + dcb.Time(x.mtu)*100*x.speed.PerByte())
		}
		pauses := uint64(0)
		for n := range c.net.nodes {
			if s := c.net.nodes[n].sw; s != nil {
				for p := 1; p <= s.Ports(); p++ {
					pauses += s.Port(p).Counters(3).PausesSent
				}
			}
		}
		t.Logf("%s, %d Gbit/s, %d bytes, cables of %v: %d frames arrived, %d pauses", x.text, x.speed/dcb.Gbit, x.mtu, x.cable.Duration(), c.delivered, pauses)
		if len(c.drops) > 0 || pauses == 0 {
			t.Errorf("%d pauses, dropped %v", pauses, c.drops)
		}
	}
}
