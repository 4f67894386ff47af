package live

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"softrdma/internal/fabric/subnet"
	"softrdma/internal/fabric/trunk"
	"softrdma/internal/fabric/trunk/udp"
	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// trunks are the trunks of a fabric. The loop owns them. Without trunks it is nil.
type trunks struct {
	fabric  *Fabric
	process uint64
	now     time.Duration // real time: the subnet's clock is ahead
	sockets *udp.Sockets
	peers   [][]*trunkEnd // by socket and number of the cable
	ends    []*trunkEnd
	guids   []uint64 // of the own nodes and ports, sorted
	packet  [trunk.MaxPacket + 1]byte
}

// A trunkEnd joins a port of the subnet to a trunk.
type trunkEnd struct {
	*trunks
	at     topology.End
	peer   int // number of the socket
	trunk  *trunk.Trunk
	guids  []uint64 // of the other end's nodes and ports, sorted; nil without a session
	others uint64   // process of the other end
}

// The subnet gives frames to the trunk, and the trunk gives frames to the subnet.
var (
	_ subnet.Trunk = (*trunkEnd)(nil)
	_ trunk.Port   = (*trunkEnd)(nil)
)

// newTrunks opens the sockets of trunks and plugs the trunks in.
func newTrunks(f *Fabric) (*trunks, error) {
	c := &f.config.Trunks
	if len(c.Cables) == 0 {
		return nil, nil
	}
	t := &trunks{fabric: f, process: randomNumber(), guids: allGUIDs(f.config.Fabric)}
	for _, x := range c.Cables {
		if err := checkTrunk(f, x.At); err != nil {
			return nil, err
		}
		i := slices.Index(c.addresses(), x.Peer)
		for len(t.peers) <= i {
			t.peers = append(t.peers, nil)
		}
		e := &trunkEnd{trunks: t, at: x.At, peer: i}
		n := &f.config.Fabric.Nodes[x.At.Node]
		e.trunk = trunk.New(0, trunk.Config{
			Cable: uint8(len(t.peers[i])), GUIDs: t.guids, Secret: c.Secret, Supported: f.subnet.Supported(x.At.Node), Random: randomNumber, Port: e,
			Self: trunk.Peer{Process: t.process, Fabric: f.config.Name, Port: fmt.Sprintf("%s:%d", n.Description, x.At.Port)},
		})
		t.peers[i] = append(t.peers[i], e)
		t.ends = append(t.ends, e)
		if len(t.peers[i]) > maxCables {
			return nil, fmt.Errorf("expected at most %d trunks to %v", maxCables, x.Peer)
		}
		f.subnet.SetTrunk(0, x.At, e)
	}
	var err error
	if t.sockets, err = udp.Open(c.Listen, c.addresses()); errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("trunks: %w: expected a free UDP port, by --listen here and --trunk at the other ends", err)
	}
	return t, err
}

// maxCables is the most trunks to one peer.
const maxCables = 256

func checkTrunk(f *Fabric, at topology.End) error {
	n := &f.config.Fabric.Nodes[at.Node]
	switch {
	case at.Port < 1 || at.Port > n.NumPorts():
		return fmt.Errorf("trunk at %s: expected a port from 1 to %d, found %d", n.Description, n.NumPorts(), at.Port)
	case n.Ports[at.Port].Connected() || f.subnet.Trunk(at) != nil:
		return fmt.Errorf("trunk at %s: expected a port without a cable (a shape with spare=1 has one more at each switch)", f.config.Fabric.EndName(at))
	}
	return nil
}

// randomNumber returns a number that cannot be guessed.
func randomNumber() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint64(b[:])
}

// allGUIDs are the GUIDs of nodes and end ports, sorted.
func allGUIDs(f *topology.Fabric) (list []uint64) {
	for i := range f.Nodes {
		n := &f.Nodes[i]
		list = append(list, n.GUID)
		for p, last := n.EndPorts(); p <= last; p++ {
			list = append(list, n.Ports[p].GUID)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// receiveBudget is the number of packets that are read from one peer in a round.
const receiveBudget = 256

// receive takes the packets that have come, and reports whether there were some.
func (t *trunks) receive(now time.Duration) (some bool) {
	if t == nil {
		return false
	}
	t.now = now
	for i, cables := range t.peers {
		for range receiveBudget {
			n, ok := t.sockets.Receive(i, t.packet[:])
			if !ok {
				break
			}
			some = true
			b := t.packet[:n]
			cable, ok := trunk.Cable(b)
			if !ok || int(cable) >= len(cables) {
				t.fabric.drop(cables[0].at, reason.Detail{Reason: reason.FabricTrunkPacket, Expected: uint64(len(cables)), Found: uint64(cable)})
				continue
			}
			e := cables[cable]
			if d := e.trunk.Receive(now, b); d.Reason != reason.None {
				e.dropped(d)
			}
		}
	}
	return some
}

// dropped reports a packet that a trunk dropped. What keeps a session from beginning is news.
func (e *trunkEnd) dropped(d reason.Detail) {
	e.fabric.drop(e.at, d)
	if d.Reason == reason.FabricTrunkSecret || d.Reason == reason.FabricTrunkVersion {
		e.tell(nil, d)
	}
}

func (e *trunkEnd) tell(p *trunk.Peer, d reason.Detail) {
	if f := e.fabric.config.Trunks.Changed; f != nil {
		f(e.at, p, d)
	}
}

// send sends the packets that are due.
func (t *trunks) send(now time.Duration) {
	if t == nil {
		return
	}
	t.now = now
	for _, e := range t.ends {
		for b := e.trunk.Next(now); b != nil; b = e.trunk.Next(now) {
			t.sockets.Send(e.peer, b)
		}
	}
	t.sockets.Flush()
}

// deadline is when send has something to do.
func (t *trunks) deadline() time.Duration {
	d := trunk.Never
	if t != nil {
		for _, e := range t.ends {
			d = min(d, e.trunk.Deadline())
		}
	}
	return d
}

// descriptor returns what the loop sleeps on beside the bells.
func (t *trunks) descriptor() int {
	if t == nil {
		return -1
	}
	return t.sockets.FD()
}

// close tells the other ends that the fabric ends.
func (t *trunks) close(now time.Duration) {
	if t == nil {
		return
	}
	for _, e := range t.ends {
		e.trunk.Close(now)
	}
	t.send(now)
	t.sockets.Close()
}

// Send implements subnet.Trunk.
func (e *trunkEnd) Send(frame []byte) {
	if d := e.trunk.Send(e.now, frame); d.Reason != reason.None {
		e.fabric.drop(e.at, d)
	}
}

// Changed implements subnet.Trunk.
func (e *trunkEnd) Changed() {
	n := e.fabric.subnet.Node(e.at.Node)
	c, can := n.PortConfig(e.at.Port), e.fabric.subnet.Supported(e.at.Node)
	ext := c.ExtSpeed
	if ext != smp.ExtSpeedNone {
		ext &= can.ExtSpeed
	}
	e.trunk.PortChanged(e.now, trunk.PortState{
		Polls: e.fabric.subnet.Polls(e.at), Up: n.Link(e.at.Port).Physical == smp.PhysicalLinkUp, Width: c.Width & can.Width, Speed: c.Speed & can.Speed, ExtSpeed: ext,
	})
}

// String implements subnet.Trunk.
func (e *trunkEnd) String() string {
	peer := e.fabric.config.Trunks.addresses()[e.peer]
	if p, ok := e.trunk.Peer(); ok {
		return fmt.Sprintf("%s/%s at %v", p.Fabric, p.Port, peer)
	}
	return peer.String()
}

// Nodes implements trunk.Port.
func (e *trunkEnd) Nodes(p *trunk.Peer, guids []uint64) reason.Detail {
	if p.Process != e.process {
		if g, found := common(e.trunks.guids, guids); found {
			return e.collide(g)
		}
		for _, o := range e.ends {
			if o.others == p.Process || o.guids == nil {
				continue
			}
			if g, found := common(o.guids, guids); found {
				return e.collide(g)
			}
		}
	}
	e.guids, e.others = slices.Sorted(slices.Values(guids)), p.Process
	e.tell(p, reason.Detail{})
	return reason.Detail{}
}

func (e *trunkEnd) collide(guid uint64) reason.Detail {
	return reason.Detail{Reason: reason.FabricTrunkNode, Found: guid}
}

// common returns a number of a sorted list that another list has as well, if there is one.
func common(sorted, list []uint64) (uint64, bool) {
	for _, g := range list {
		if _, found := slices.BinarySearch(sorted, g); found {
			return g, true
		}
	}
	return 0, false
}

// Connect implements trunk.Port.
func (e *trunkEnd) Connect(now time.Duration, l hardware.Link) { e.fabric.subnet.Join(now, e.at, l) }

// Disconnect implements trunk.Port.
func (e *trunkEnd) Disconnect(now time.Duration) { e.fabric.subnet.Leave(now, e.at) }

// Frame implements trunk.Port.
func (e *trunkEnd) Frame(now time.Duration, frame []byte) {
	if len(frame) > ib.MaxNativeLen {
		e.fabric.drop(e.at, reason.Detail{Reason: reason.FabricLength, Expected: ib.MaxNativeLen, Found: uint64(len(frame))})
		return
	}
	own := e.fabric.subnet.Pool().Buffer(len(frame))
	copy(own, frame)
	e.fabric.subnet.Arrive(now, e.at, own)
}

// Ended implements trunk.Port.
func (e *trunkEnd) Ended(d reason.Detail) {
	e.guids, e.others = nil, 0
	e.tell(nil, d)
}
