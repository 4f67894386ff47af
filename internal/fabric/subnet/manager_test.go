package subnet

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"softrdma/internal/management/agent"
	"softrdma/internal/management/sm"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// A sink is a program that keeps what arrived, as the source's number and a sequence number.
type sink struct{ got []datagram }

type datagram struct{ source, seq uint32 }

func (p *sink) MAD(time.Duration, *agent.Arrival) {}
func (p *sink) Notify(int, agent.Event)           {}

func (p *sink) Packet(_ time.Duration, _ int, frame []byte) bool {
	var n ib.Native
	var x ib.Packet
	if n.Parse(frame) == ib.OK && x.Parse(n.Body) == ib.OK && len(x.Payload) >= 8 {
		p.got = append(p.got, datagram{binary.BigEndian.Uint32(x.Payload), binary.BigEndian.Uint32(x.Payload[4:])})
	}
	return true
}

// managed is a rig whose first adapter has a manager, after its first sweep.
type managed struct {
	*rig
	manager *sm.Manager
	ends    []int // adapters
	sinks   []*sink
}

func newManaged(t *testing.T, shape string) *managed {
	r := &managed{rig: newRig(t, shape)}
	r.ends = r.adapters()
	r.manager = sm.New(&sm.Config{GUID: r.config.Fabric.Nodes[r.ends[0]].Ports[1].GUID})
	r.Manage(r.now, r.ends[0], r.manager)
	for range r.ends {
		r.sinks = append(r.sinks, &sink{})
	}
	for i, n := range r.ends {
		r.Attach(n, r.sinks[i])
	}
	r.settle()
	r.drops = nil // traps of switches that had no table yet
	return r
}

// settle runs until the manager has nothing to do.
func (r *managed) settle() {
	r.t.Helper()
	for end := r.now + 10*time.Second; ; {
		r.Run(r.now + time.Millisecond)
		if r.manager.Idle() {
			return
		}
		if r.now > end {
			r.t.Fatalf("the manager does not come to rest: %+v", r.manager.Status())
		}
	}
}

func (r *managed) lid(i int) uint16 {
	lid, _ := r.Agent(r.ends[i]).LID(1)
	return lid
}

// send sends a datagram from one adapter to another by LID.
func (r *managed) send(from, to int, seq uint32) {
	r.t.Helper()
	payload := make([]byte, 1024)
	binary.BigEndian.PutUint32(payload, uint32(from))
	binary.BigEndian.PutUint32(payload[4:], seq)
	p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: smp.DefaultPKey, DestQPN: 77}, Payload: payload}
	h := ib.LRH{Next: ib.LocalBTH, DLID: ib.LID(r.lid(to)), SLID: ib.LID(r.lid(from))}
	frame := ib.AppendNative(r.Pool().Buffer(0), h, nil, &p)
	for !r.Send(r.now, topology.End{Node: r.ends[from], Port: 1}, frame) {
		r.Run(r.now + time.Microsecond)
	}
}

// all sends a datagram from each adapter to each other, and checks that all arrive.
func (r *managed) all(seq uint32) {
	r.t.Helper()
	for a := range r.ends {
		for b := range r.ends {
			if a != b {
				r.send(a, b, seq)
			}
		}
	}
	r.Run(r.now + 10*time.Millisecond)
	for b := range r.ends {
		for a := range r.ends {
			if a != b && !slices.Contains(r.sinks[b].got, datagram{uint32(a), seq}) {
				r.t.Errorf("datagram %d from adapter %d to %d did not arrive: drops %v", seq, a, b, r.drops)
			}
		}
	}
}

func TestManagerBringsUpEveryLinkAndDataFollowsItsTables(t *testing.T) {
	for _, shape := range []string{"star:4", "fat-tree:k=4", "ring:5", "torus:3x3"} {
		t.Run(shape, func(t *testing.T) {
			r := newManaged(t, shape)
			for i := range r.config.Fabric.Nodes {
				for p := range r.config.Fabric.Nodes[i].Ports {
					if !r.config.Fabric.Nodes[i].Ports[p].Connected() {
						continue
					}
					if l := r.Node(i).Link(p); l.State != smp.PortActive {
						t.Fatalf("%s: %v", r.config.Fabric.EndName(topology.End{Node: i, Port: p}), l.State)
					}
				}
			}
			r.all(1)
			r.countersAgree()
			if len(r.drops) > 0 {
				t.Errorf("dropped: %v", r.drops)
			}
		})
	}
}

// countersAgree checks that what leaves by one end of a cable comes in at the other.
func (r *managed) countersAgree() {
	r.t.Helper()
	sum := uint64(0)
	for i := range r.config.Fabric.Nodes {
		for p := range r.config.Fabric.Nodes[i].Ports {
			peer := r.config.Fabric.Nodes[i].Ports[p].Peer
			if peer.Port == 0 {
				continue
			}
			a, b := r.Node(i).Counters(p), r.Node(peer.Node).Counters(peer.Port)
			if a.XmitData != b.RcvData || a.XmitPackets != b.RcvPackets {
				r.t.Errorf("%s sent %d words, its peer received %d", r.config.Fabric.EndName(topology.End{Node: i, Port: p}), a.XmitData, b.RcvData)
			}
			sum += a.XmitData
		}
	}
	if sum == 0 {
		r.t.Error("nothing was counted")
	}
}

// A cable between switches that is cut makes a trap, and the next sweep leads around it.
func TestManagerRoutesAroundACutCable(t *testing.T) {
	r := newManaged(t, "fat-tree:k=4")
	r.all(1)
	at := r.between(topology.Switch)
	r.Cut(at)
	r.Run(r.now + 2*time.Second) // the trap, which the switch may repeat
	r.settle()
	r.drops = nil
	r.all(2)
	if c := r.Node(at.Node).Link(at.Port); c.State != smp.PortDown {
		t.Errorf("cut cable: %+v", c)
	}
	r.Repair(at)
	r.Run(r.now + 2*time.Second)
	r.settle()
	r.all(3)
	if c := r.Node(at.Node).Link(at.Port); c.State != smp.PortActive {
		t.Errorf("repaired cable: %v", c.State)
	}
}

// between returns the end of a cable whose two nodes are of a kind.
func (r *managed) between(k topology.Kind) topology.End {
	f := r.config.Fabric
	for i := range f.Nodes {
		for p := range f.Nodes[i].Ports {
			if e := f.Nodes[i].Ports[p].Peer; e.Port != 0 && f.Nodes[i].Kind == k && f.Nodes[e.Node].Kind == k {
				return topology.End{Node: i, Port: p}
			}
		}
	}
	r.t.Fatal("no such cable")
	return topology.End{}
}

// A datagram of a partition that its source or its destination is not in does not pass the switch,
// which counts it at the port that refuses it.
func TestPartitionsPart(t *testing.T) {
	r := &managed{rig: newRig(t, "star:4")}
	r.ends = r.adapters()
	f := r.config.Fabric
	guid := func(i int) uint64 { return f.Nodes[r.ends[i]].Ports[1].GUID }
	r.manager = sm.New(&sm.Config{GUID: guid(0), Partitions: []sm.Partition{
		{Key: 1, Members: map[uint64]sm.Membership{guid(1): sm.FullMember, guid(2): sm.LimitedMember}},
		{Key: 2, Members: map[uint64]sm.Membership{guid(2): sm.FullMember, guid(3): sm.FullMember}},
	}})
	r.Manage(r.now, r.ends[0], r.manager)
	for i, n := range r.ends {
		r.sinks = append(r.sinks, &sink{})
		r.Attach(n, r.sinks[i])
	}
	r.settle()
	r.drops = nil
	for i, x := range []struct {
		from, to int
		key      uint16
		arrives  bool
	}{{1, 2, 0x8001, true}, {2, 1, 1, true}, {2, 3, 0x8002, true}, {1, 2, 0x8002, false}, {1, 3, 0x8001, false}} {
		payload := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(x.from)), uint32(i))
		p := ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: x.key, DestQPN: 77}, Payload: payload}
		frame := ib.AppendNative(r.Pool().Buffer(0), ib.LRH{Next: ib.LocalBTH, DLID: ib.LID(r.lid(x.to)), SLID: ib.LID(r.lid(x.from))}, nil, &p)
		r.Send(r.now, topology.End{Node: r.ends[x.from], Port: 1}, frame)
		r.Run(r.now + time.Millisecond)
		if got := slices.Contains(r.sinks[x.to].got, datagram{uint32(x.from), uint32(i)}); got != x.arrives {
			t.Errorf("from %d to %d in %#x: arrived %v, drops %v", x.from, x.to, x.key, got, r.drops)
		}
	}
	if len(r.drops) != 2 {
		t.Errorf("drops: %v", r.drops)
	}
	a := r.get(r.ends[1], []uint8{1}, smp.AttrPortInfo, uint32(f.Port(topology.End{Node: r.ends[1], Port: 1}).Peer.Port))
	var info smp.PortInfo
	if a == nil {
		t.Fatal("the switch does not answer")
	}
	if info.Parse(&a.Data); info.PKeyViolations != 1 {
		t.Errorf("the sender's switch counted %d violations, expected 1", info.PKeyViolations)
	}
}
