package lan

import (
	"runtime"
	"testing"

	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/station"
	"softrdma/internal/topology"
)

// permutation is a network whose hosts send to another one each, without end.
type permutation struct {
	net       *Network
	hosts     []int
	to        []int // by node
	delivered int
}

func newPermutation(b testing.TB, text string, shift int) *permutation {
	p := &permutation{}
	p.net = New(Config{Fabric: generate(b, text), Link: lossless(), Host: station.Config{Queue: 3 * dcb.DefaultMTU},
		Switch:   bridge.Config{Buffer: bridge.BufferConfig{Size: 2 << 20}}, // so that queues stop to grow soon
		Deliver:  func(_ dcb.Time, _ topology.End, f *dcb.Frame) bool { p.delivered++; p.net.Pool().Put(f); return true },
		Writable: func(_ dcb.Time, node int) { p.feed(node) }})
	p.to = make([]int, len(p.net.nodes))
	for i := range p.net.nodes {
		if p.net.nodes[i].host != nil {
			p.hosts = append(p.hosts, i)
		}
	}
	for i, h := range p.hosts {
		p.to[h] = p.hosts[(i+shift)%len(p.hosts)]
	}
	for _, h := range p.hosts {
		p.feed(h)
	}
	return p
}

func (p *permutation) feed(node int) {
	host := p.net.Host(node)
	for host.Room(3) {
		f := p.net.Pool().Frame()
		p.net.Address(f, node, p.to[node], uint16(node))
		f.Len, f.DSCP, f.Priority = dcb.DefaultMTU, 3<<3, 3
		p.net.Send(p.net.Now(), node, f)
	}
}

// BenchmarkNetwork reports frames that a processor delivers in a second, each over five switches,
// and hops over switches.
func BenchmarkNetwork(b *testing.B) {
	p := newPermutation(b, "fat-tree:k=8", 64)
	p.net.Run(200 * dcb.Microsecond)
	const hops = 5
	b.ReportAllocs()
	b.ResetTimer()
	first, events := p.delivered, p.net.Events()
	for n := b.N; p.delivered-first < n; {
		p.net.Run(p.net.Now() + dcb.Microsecond)
	}
	s := b.Elapsed().Seconds()
	b.ReportMetric(float64(p.delivered-first)/s, "frames/s")
	b.ReportMetric(float64(hops*(p.delivered-first))/s, "hops/s")
	b.ReportMetric(float64(p.net.Events()-events)/s, "events/s")
}

// BenchmarkOneSwitch reports frames per second through one switch.
func BenchmarkOneSwitch(b *testing.B) {
	p := newPermutation(b, "star:32", 16)
	p.net.Run(100 * dcb.Microsecond)
	b.ReportAllocs()
	b.ResetTimer()
	first := p.delivered
	for n := b.N; p.delivered-first < n; {
		p.net.Run(p.net.Now() + dcb.Microsecond)
	}
	b.ReportMetric(float64(p.delivered-first)/b.Elapsed().Seconds(), "frames/s")
}

// maxIdle is the most bytes that an idle host may take, with its share of the switches.
const maxIdle = 8 << 10

func TestIdleHostTakesLittleMemory(t *testing.T) {
	fabric := generate(t, "fat-tree:k=16")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := New(Config{Fabric: fabric, Link: lossless()})
	runtime.GC()
	runtime.ReadMemStats(&after)
	hosts := 0
	for i := range n.nodes {
		if n.nodes[i].host != nil {
			hosts++
		}
	}
	each := (after.HeapAlloc - before.HeapAlloc) / uint64(hosts)
	t.Logf("%d bytes for each of %d hosts, with their share of %d switches", each, hosts, len(n.nodes)-hosts)
	if each > maxIdle {
		t.Errorf("an idle host takes %d bytes, expected at most %d", each, maxIdle)
	}
	runtime.KeepAlive(n)
}
