package live

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"softrdma/internal/fabric/trunk"
	"softrdma/internal/fabric/trunk/udp"
	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

// trunks are the trunks of a fabric. The loop owns them. Without trunks it is nil.
type trunks struct {
	fabric  *Fabric
	process uint64
	now     time.Duration // real time: the network's clock is ahead
	sockets *udp.Sockets
	peers   [][]*trunkEnd // by socket and number of the cable
	ends    []*trunkEnd
	packet  [trunk.MaxPacket + 1]byte
}

// A trunkEnd joins a port of the network to a trunk.
type trunkEnd struct {
	*trunks
	at     topology.End
	peer   int // number of the socket
	trunk  *trunk.Trunk
	plug   plug
	nodes  []uint64 // what the other end has said of its nodes; nil without a session
	others uint64   // process of the other end
}

// A plug is what a network has at a trunk: it gives frames to the trunk, and gets the trunk's.
type plug interface {
	trunk.Port

	// said is what the other end is told of the nodes here, what the trunk carries, and the links that the
	// port can have.
	said() (nodes []uint64, u trunk.Use, l hardware.Link)

	// begin plugs the trunk into the port.
	begin() error

	// received is called when packets of the other end may have made room.
	received()
}

// newTrunks opens the sockets of trunks and plugs the trunks in.
func newTrunks(f *Fabric) (*trunks, error) {
	c := &f.config.Trunks
	if len(c.Cables) == 0 {
		return nil, nil
	}
	t := &trunks{fabric: f, process: randomNumber()}
	for _, x := range c.Cables {
		if err := t.check(x.At); err != nil {
			return nil, err
		}
		i := slices.Index(c.addresses(), x.Peer)
		for len(t.peers) <= i {
			t.peers = append(t.peers, nil)
		}
		e := &trunkEnd{trunks: t, at: x.At, peer: i}
		n := &f.config.Fabric.Nodes[x.At.Node]
		e.plug = f.network.plugOf(e)
		nodes, use, links := e.plug.said()
		e.trunk = trunk.New(0, trunk.Config{
			Cable: uint8(len(t.peers[i])), Use: use, GUIDs: nodes, Secret: c.Secret, Supported: links, Random: randomNumber, Port: e.plug,
			Self: trunk.Peer{Process: t.process, Fabric: f.config.Name, Port: fmt.Sprintf("%s:%d", n.Description, x.At.Port)},
		})
		t.peers[i] = append(t.peers[i], e)
		t.ends = append(t.ends, e)
		if len(t.peers[i]) > maxCables {
			return nil, fmt.Errorf("expected at most %d trunks to %v", maxCables, x.Peer)
		}
		if err := e.plug.begin(); err != nil {
			return nil, err
		}
	}
	var err error
	if t.sockets, err = udp.Open(c.Listen, c.addresses()); errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("trunks: %w: expected a free UDP port, by --listen here and --trunk at the other ends", err)
	}
	return t, err
}

// maxCables is the most trunks to one peer.
const maxCables = 256

// check refuses a port that no trunk can have.
func (t *trunks) check(at topology.End) error {
	f := t.fabric
	n := &f.config.Fabric.Nodes[at.Node]
	switch {
	case f.config.Ethernet != nil && n.Kind != topology.Switch:
		return fmt.Errorf("trunk at %s: expected a port of a switch", n.Description)
	case at.Port < 1 || at.Port > n.NumPorts():
		return fmt.Errorf("trunk at %s: expected a port from 1 to %d, found %d", n.Description, n.NumPorts(), at.Port)
	case n.Ports[at.Port].Connected() || slices.ContainsFunc(t.ends, func(e *trunkEnd) bool { return e.at == at }):
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
			e.plug.received()
		}
	}
	return some
}

// dropped reports a packet that a trunk dropped. What keeps a session from beginning is news.
func (e *trunkEnd) dropped(d reason.Detail) {
	e.fabric.drop(e.at, d)
	if _, joined := e.trunk.Peer(); joined {
		return
	}
	switch d.Reason {
	case reason.FabricTrunkSecret, reason.FabricTrunkVersion, reason.FabricTrunkNetwork:
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

// String implements subnet.Trunk and lan.Trunk.
func (e *trunkEnd) String() string {
	peer := e.fabric.config.Trunks.addresses()[e.peer]
	if p, ok := e.trunk.Peer(); ok {
		return fmt.Sprintf("%s/%s at %v", p.Fabric, p.Port, peer)
	}
	return peer.String()
}

// joined notes that the trunk has found its other end.
func (e *trunkEnd) joined(p *trunk.Peer, nodes []uint64) {
	e.nodes, e.others = nodes, p.Process
	e.tell(p, reason.Detail{})
}

// Ended implements trunk.Port.
func (e *trunkEnd) Ended(d reason.Detail) {
	e.nodes, e.others = nil, 0
	e.tell(nil, d)
}
