package comparison

import (
	"fmt"
	"net/netip"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/congestion"
	"softrdma/internal/frame"
	"softrdma/internal/frame/infiniband"
	"softrdma/internal/frame/rocev2"
	"softrdma/internal/iwarp"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/topology"
)

// A Protocol is one of the compared protocols.
type Protocol int

// The protocols.
const (
	InfiniBand    Protocol = iota // credits; go-back-N retransmission
	RoCE                          // without PFC, with DCQCN; go-back-N
	RoCESelective                 // the same with softrdma's selective repeat
	IWARP                         // over TCP
)

// String returns the protocol's name in the table.
func (p Protocol) String() string {
	return [...]string{"InfiniBand", "RoCE v2", "RoCE v2, selective repeat", "iWARP"}[p]
}

// Parameters describe the fabric.
type Parameters struct {
	Topology      string // for topology.Generate, with links of Bandwidth
	Bandwidth     int64  // bits per second of each link
	Cable         time.Duration
	InfiniBandHop time.Duration // between the first byte into a switch and the first one out of it
	EthernetHop   time.Duration
	Credits       int // blocks of 64 bytes for each lane of an InfiniBand port
	Queue         int // bytes of each Ethernet output port
	MarkAbove     int
	Loss          float64 // probability that a packet is corrupted
}

// pathMTU is the payload of full packets of every protocol, and of TCP segments.
const pathMTU = 4096

// regionAt is the address of each host's region.
const regionAt = 0x10000

// A host is a device with one region, which is the source and target of all requests.
type host struct {
	dev    *adapter.Device
	pd     *adapter.PD
	region *memory.Region
	to     qp.Endpoint // of InfiniBand, as peers address it
}

// A world is hosts on a network.
type world struct {
	net      *simnet.Network
	hosts    []*host
	fabric   *fabric   // of InfiniBand
	switches *switches // of the others
	streams  int       // established
	listens  uint16
}

func newWorld(kind Protocol, p *Parameters, region int) (*world, error) {
	f, err := topology.Generate(p.Topology)
	if err != nil {
		return nil, err
	}
	w := &world{net: simnet.New(1)}
	var nodes []int
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Adapter {
			nodes = append(nodes, i)
		}
	}
	if kind == InfiniBand {
		w.fabric = newFabric(w.net, p, f, nodes)
		if err := w.fabric.up(); err != nil {
			return nil, err
		}
	} else {
		w.switches = newSwitches(w.net, p, f, nodes)
	}
	for i := range nodes {
		if err := w.open(kind, p, i, region); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// open opens the device of a host.
func (w *world) open(kind Protocol, p *Parameters, i, region int) error {
	h := &host{}
	w.hosts = append(w.hosts, h)
	c := adapter.Config{Clock: w.net.Clock, Manual: true, Window: 1 << 20, Recovery: congestion.GoBackN, Control: congestion.DCQCN}
	c.Random = w.net.Random(6<<32 | uint64(i)).Uint32
	lc := simnet.LinkConfig{
		Egress:  simnet.Faults{Delay: p.Cable, Bandwidth: p.Bandwidth, Queue: 1 << 30},
		Ingress: simnet.Faults{Delay: time.Nanosecond, Loss: p.Loss},
	}
	switch kind {
	case InfiniBand:
		l := w.fabric.links[i]
		gid, _ := w.fabric.subnet.Agent(l.at.Node).GID(1, 0)
		lid := l.lid()
		h.to = qp.LIDEndpoint(lid)
		c.Networks = []frame.Network{infiniband.New(l, frame.Port{LID: lid, GIDs: []netip.Addr{netip.AddrFrom16(gid)}})}
		c.Control = congestion.None
	case IWARP:
		c.Streams = w.net.AttachTCP(hostAddress(i), lc, simnet.StreamConfig{Delay: p.Cable, Window: 1 << 20}, simnet.TCPConfig{MSS: pathMTU})
	case RoCESelective:
		c.Recovery = congestion.SelectiveRepeat
		fallthrough
	default:
		c.Networks = rocev2.Networks([]*simnet.Link{w.net.Attach(netip.AddrPortFrom(hostAddress(i), 4791), lc)})
	}
	h.dev = adapter.Open(c)
	w.net.Drive(h.dev)
	var err error
	if h.pd, err = h.dev.AllocPD(); err != nil {
		return err
	}
	h.region, err = h.pd.Register(make([]byte, region), regionAt, qp.LocalWrite|qp.RemoteWrite)
	return err
}

// An end is one end of a connection.
type end struct {
	*host
	cq *adapter.CQ
	qp *adapter.QP
}

func (h *host) end(depth int) (*end, error) {
	e := &end{host: h}
	var err error
	if e.cq, err = h.dev.CreateCQ(4*depth, nil); err != nil {
		return nil, err
	}
	e.qp, err = h.pd.CreateQP(&adapter.QPConfig{
		Type: qp.RC, SendCQ: e.cq, RecvCQ: e.cq, SendDepth: depth, SendSGE: 1, RecvDepth: depth, RecvSGE: 1,
	})
	return e, err
}

// connect makes a connection between two hosts, whose queues have a depth.
func (w *world) connect(from, to, depth int) (a, b *end, err error) {
	if a, err = w.hosts[from].end(depth); err != nil {
		return nil, nil, err
	}
	if b, err = w.hosts[to].end(depth); err != nil {
		return nil, nil, err
	}
	if a.dev.IWARP() {
		return a, b, w.dial(a, b)
	}
	return a, b, rig.Connect(a.qp, b.qp, rig.Options{MTU: pathMTU, Peer: [2]qp.Endpoint{b.to, a.to}})
}

// dial connects two ends by a stream.
func (w *world) dial(a, b *end) error {
	for _, e := range []*end{a, b} {
		if err := e.qp.Modify(qp.MaskState|qp.MaskPKeyIndex|qp.MaskPort|qp.MaskAccess, &qp.Attr{State: qp.Init, Port: 1, Access: rig.AllAccess}); err != nil {
			return err
		}
	}
	params := iwarp.Params{IRD: 4, ORD: 4}
	want := w.streams + 2
	var failed error
	var handle func(v *adapter.StreamEvent)
	var asked *adapter.Stream
	handle = func(v *adapter.StreamEvent) {
		switch v.Kind {
		case iwarp.Requested:
			asked = v.On
		case iwarp.Established:
			w.streams++
		default:
			failed = fmt.Errorf("stream: %v", v.Kind)
		}
	}
	w.listens++
	l, err := b.dev.ListenStream(w.listens, 1, handle)
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := a.dev.Dial(&adapter.DialConfig{Dst: l.Addr(), QPN: a.qp.QPN, Params: params}, handle); err != nil {
		return err
	}
	err = w.net.Run(func() bool {
		if asked != nil {
			if e := asked.Accept(b.qp.QPN, &params); e != nil {
				failed = e
			}
			asked = nil
		}
		return w.streams == want || failed != nil
	}, time.Second)
	if failed != nil {
		return failed
	}
	return err
}

// drops returns the number of packets that the network has dropped for lack of room or of a
// route.
func (w *world) drops() int {
	if w.fabric != nil {
		return w.fabric.drops
	}
	return w.switches.drops()
}
