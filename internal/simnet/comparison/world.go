package comparison

import (
	"fmt"
	"net/netip"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/congestion"
	"softrdma/internal/frame"
	"softrdma/internal/frame/infiniband"
	"softrdma/internal/frame/rocev1"
	"softrdma/internal/frame/rocev2"
	"softrdma/internal/iwarp"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/steering"
	"softrdma/internal/topology"
)

// A Protocol is one of the compared protocols.
type Protocol int

// The protocols.
const (
	InfiniBand Protocol = iota // credits; go-back-N
	RoCEv1                     // PFC; go-back-N
	RoCEPFC                    // RoCE v2; PFC; go-back-N
	RoCEBoth                   // RoCE v2; PFC, and DCQCN by ECN; go-back-N
	RoCEECN                    // RoCE v2; DCQCN without PFC; go-back-N
	Resilient                  // the same with selective repeat
	IWARP                      // over TCP
	TCP                        // without RDMA
	protocols
)

// String returns the protocol's name in the table.
func (p Protocol) String() string {
	return [...]string{
		"InfiniBand", "RoCE v1, PFC", "RoCE v2, PFC", "RoCE v2, PFC and ECN", "RoCE v2, ECN", "RoCE v2, ECN, selective repeat", "iWARP", "TCP",
	}[p]
}

// pfc reports whether switches and adapters pause each other.
func (p Protocol) pfc() bool { return p == RoCEv1 || p == RoCEPFC || p == RoCEBoth }

// Parameters describe the fabric.
type Parameters struct {
	Topology      string // for topology.Generate, with links of Bandwidth
	Bandwidth     int64  // bits per second of each link
	Cable         time.Duration
	InfiniBandHop time.Duration // between the first byte into a switch and the first one out of it
	EthernetHop   time.Duration
	Credits       int     // blocks of 64 bytes for each lane of an InfiniBand port
	Buffer        int     // bytes of an Ethernet switch, which its ports share
	MarkAbove     int     // bytes in the queue of a port
	Loss          float64 // probability that a packet is corrupted
	Seed          uint64
}

// pathMTU is the payload of full packets of every protocol, and of TCP segments.
const pathMTU = 4096

// sendBuffer is the bytes that TCP takes from a program before they are acknowledged.
const sendBuffer = 1 << 20

// regionAt is the address of each host's region.
const regionAt = 0x10000

// A host is a device with one region, which is the source and target of all requests.
type host struct {
	dev    *adapter.Device
	tcp    *simnet.StreamLink // instead of the device
	pd     *adapter.PD
	region *memory.Region
	to     qp.Endpoint // of InfiniBand, as peers address it
}

// A world is hosts on a network.
type world struct {
	net      *simnet.Network
	hosts    []*host
	fabric   *fabric   // of InfiniBand
	ethernet *ethernet // of the others
	topology *topology.Fabric
	nodes    []int // of the hosts
	streams  int   // established
	listens  uint16
}

func newWorld(kind Protocol, p *Parameters, region int) (*world, error) {
	f, err := topology.Generate(p.Topology)
	if err != nil {
		return nil, err
	}
	w := &world{net: simnet.New(p.Seed), topology: f}
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Adapter {
			w.nodes = append(w.nodes, i)
		}
	}
	if kind == InfiniBand {
		w.fabric = newFabric(w.net, p, f, w.nodes)
		if err := w.fabric.up(); err != nil {
			return nil, err
		}
	} else {
		w.ethernet = newEthernet(w.net, p, f, w.nodes, kind.pfc())
	}
	for i := range w.nodes {
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
	c := adapter.Config{Clock: w.net.Clock, Manual: true, Window: 1 << 20, Recovery: congestion.GoBackN, Control: congestion.None}
	c.Random = w.net.Random(6<<32 | uint64(i)).Uint32
	lc := simnet.LinkConfig{Egress: simnet.Faults{Delay: time.Nanosecond}, Ingress: simnet.Faults{Delay: time.Nanosecond, Loss: p.Loss}}
	sc := simnet.StreamConfig{Delay: p.Cable, Window: sendBuffer}
	at := netip.AddrPortFrom(hostAddress(i), 4791)
	switch kind {
	case InfiniBand:
		l := w.fabric.links[i]
		gid, _ := w.fabric.subnet.Agent(l.at.Node).GID(1, 0)
		lid := l.lid()
		h.to = qp.LIDEndpoint(lid)
		c.Networks = []frame.Network{infiniband.New(l, frame.Port{LID: lid, GIDs: []netip.Addr{netip.AddrFrom16(gid)}})}
	case TCP:
		h.tcp = w.net.AttachTCP(hostAddress(i), lc, sc, simnet.TCPConfig{MSS: pathMTU})
		return nil
	case IWARP:
		c.Streams = w.net.AttachTCP(hostAddress(i), lc, sc, simnet.TCPConfig{MSS: pathMTU})
	case RoCEv1:
		l := simnet.Ethernet([]*simnet.Link{w.net.Attach(at, lc)})[0]
		n, err := rocev1.Networks(at.Addr(), steering.Whole(1), []*framePort{{l, room{w.ethernet, i}}})
		if err != nil {
			return err
		}
		c.Networks = n
	case Resilient:
		c.Recovery = congestion.SelectiveRepeat
		fallthrough
	case RoCEBoth, RoCEECN:
		c.Control = congestion.DCQCN
		fallthrough
	default:
		c.Networks = rocev2.Networks([]*adapterPort{{w.net.Attach(at, lc), room{w.ethernet, i}}})
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

// distance returns the number of cables between two hosts.
func (w *world) distance(from, to int) int {
	d := map[int]int{w.nodes[to]: 0}
	for queue := []int{w.nodes[to]}; len(queue) > 0; queue = queue[1:] {
		n := &w.topology.Nodes[queue[0]]
		for k := range n.Ports {
			peer := n.Ports[k].Peer.Node
			if _, seen := d[peer]; !seen && n.Ports[k].Connected() {
				d[peer] = d[queue[0]] + 1
				queue = append(queue, peer)
			}
		}
	}
	return d[w.nodes[from]]
}

// connect makes a channel between two hosts for a number of messages under way.
func (w *world) connect(pair [2]int, op queue.Op, size, depth int) (channel, error) {
	from, to := w.hosts[pair[0]], w.hosts[pair[1]]
	if from.tcp != nil {
		a, b, err := w.connectTCP(from, to)
		return &bytestream{from: a, to: b, size: size}, err
	}
	a, err := from.end(depth)
	if err != nil {
		return nil, err
	}
	b, err := to.end(depth)
	if err != nil {
		return nil, err
	}
	if from.dev.IWARP() {
		err = w.dial(a, b)
	} else {
		err = rig.Connect(a.qp, b.qp, rig.Options{MTU: pathMTU, Peer: [2]qp.Endpoint{to.to, from.to}})
	}
	for i := 0; i < depth && op == queue.Send && err == nil; i++ {
		err = b.receive(size)
	}
	return &connection{from: a, to: b, op: op, size: size, depth: depth}, err
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
	return w.ethernet.drops
}

// pauses returns how many frames of switches have paused a port.
func (w *world) pauses() uint64 {
	if w.fabric != nil {
		return 0
	}
	return w.ethernet.pauses()
}
