package comparison

import (
	"errors"
	"math/rand/v2"
	"time"

	"softrdma/internal/fabric/port"
	"softrdma/internal/fabric/subnet"
	"softrdma/internal/link"
	"softrdma/internal/management/agent"
	"softrdma/internal/management/sm"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ib"
)

// A fabric is an InfiniBand subnet on the clock of a network, which drives it.
type fabric struct {
	net     *simnet.Network
	subnet  *subnet.Subnet
	manager *sm.Manager
	links   []*fabricLink
	drops   int
}

func newFabric(n *simnet.Network, p *Parameters, f *topology.Fabric, hosts []int) *fabric {
	x := &fabric{net: n}
	c := subnet.Config{Fabric: f, Cable: p.Cable, Port: port.Config{Refresh: port.Never, Buffer: p.Credits}}
	c.Node.Hop = p.InfiniBandHop
	c.Dropped = func(topology.End, reason.Detail) { x.drops++ }
	x.subnet = subnet.New(c)
	for i, node := range hosts {
		l := &fabricLink{fabric: x, at: topology.End{Node: node, Port: 1}, loss: p.Loss, random: n.Random(5<<32 | uint64(i))}
		x.subnet.Attach(node, l)
		x.links = append(x.links, l)
	}
	n.Drive(x)
	n.Sleep(10 * time.Microsecond) // link training
	x.manager = sm.New(&sm.Config{GUID: f.Nodes[hosts[0]].Ports[1].GUID})
	x.subnet.Manage(n.Clock(), hosts[0], x.manager)
	return x
}

// Progress implements simnet.Driver.
func (x *fabric) Progress() time.Duration {
	now := x.net.Clock()
	x.subnet.Run(now)
	for _, l := range x.links {
		l.flush()
	}
	return x.subnet.Deadline()
}

// up waits until the manager has configured the fabric.
func (x *fabric) up() error {
	err := x.net.Run(func() bool {
		if !x.manager.Idle() {
			return false
		}
		for _, l := range x.links {
			if l.lid() == 0 {
				return false
			}
		}
		return true
	}, time.Minute)
	x.net.Sleep(10 * time.Millisecond)
	x.drops = 0
	return err
}

// A fabricLink is the link of an adapter on a node of the fabric. It acts as the node's
// program.
type fabricLink struct {
	fabric *fabric
	at     topology.End
	loss   float64
	random *rand.Rand
	out    [][]byte // frames that the node had no room for
	in     [][]byte
	last   []byte // result of the last Receive
	closed bool
}

var errWait = errors.New("a link on virtual time cannot wait")

// MAD, Packet and Notify implement subnet.Program.
func (l *fabricLink) MAD(time.Duration, *agent.Arrival) {}
func (l *fabricLink) Notify(int, agent.Event)           {}

func (l *fabricLink) Packet(_ time.Duration, _ int, frame []byte) bool {
	if l.closed || l.loss > 0 && l.random.Float64() < l.loss {
		l.fabric.subnet.Pool().Recycle(frame)
		return true
	}
	l.in = append(l.in, frame)
	return true
}

// lid returns the LID of the port, or 0 before the manager has assigned one.
func (l *fabricLink) lid() uint16 {
	lid, _ := l.fabric.subnet.Agent(l.at.Node).LID(1)
	return lid
}

// Level implements link.Limited.
func (*fabricLink) Level(_, serviceLevel uint8) uint8 { return serviceLevel }

// Room implements link.Limited.
func (l *fabricLink) Room(uint8) bool { return len(l.out) == 0 }

// Capabilities implements link.Packets.
func (l *fabricLink) Capabilities() link.Capabilities {
	return link.Capabilities{Packets: 1, Bytes: link.MaxBatch, ReceiveBuffer: 4 << 20, Lossless: true, Limited: l}
}

// Send implements link.Packets.
func (l *fabricLink) Send(tx *link.Tx) error {
	if l.closed {
		return link.ErrClosed
	}
	piece, at := 0, 0
	for total := tx.Bytes; total > 0; {
		n := min(tx.Size, total)
		total -= n
		frame := l.fabric.subnet.Pool().Buffer(n + ib.VCRCLen)
		for k := 0; k < n; {
			c := copy(frame[k:n], tx.Pieces[piece][at:])
			k, at = k+c, at+c
			if at == len(tx.Pieces[piece]) {
				piece, at = piece+1, 0
			}
		}
		ib.PutVCRC(frame)
		l.out = append(l.out, frame)
	}
	l.flush()
	return nil
}

// flush passes frames to the node as long as it has room.
func (l *fabricLink) flush() {
	for len(l.out) > 0 && l.fabric.subnet.Send(l.fabric.net.Clock(), l.at, l.out[0]) {
		l.out = l.out[1:]
	}
}

// Receive implements link.Packets.
func (l *fabricLink) Receive(rx *link.Rx) (bool, error) {
	if l.closed {
		return false, link.ErrClosed
	}
	if l.last != nil {
		l.fabric.subnet.Pool().Recycle(l.last)
		l.last = nil
	}
	if len(l.in) == 0 {
		return false, nil
	}
	l.last, l.in = l.in[0], l.in[1:]
	rx.Data = l.last[:len(l.last)-ib.VCRCLen]
	rx.Size = len(rx.Data)
	return true, nil
}

// Wait, Wake and Close implement link.Waiter.
func (l *fabricLink) Wait(time.Duration) error { return errWait }
func (l *fabricLink) Wake()                    {}

func (l *fabricLink) Close() error {
	l.closed = true
	return nil
}
