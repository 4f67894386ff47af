package adapter

import (
	"errors"

	"softrdma/internal/adapter/hostpath"
	"softrdma/internal/link"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/object"
	"softrdma/internal/qp"
)

// The memory path of one host: packets to peers of other processes go through rings that
// both have mapped, as those to devices of this process are handed over (loopback.go).
// The network stays open beside it: when a channel is attached or detached, packets take the
// other path, and the machines' retransmission covers what was lost in between.

// HostBell makes the bell by which a peer on this host wakes a lane.
func (d *Device) HostBell(lane int, owner any) (*hostmem.Bell, error) {
	if d.IWARP() || d.packets[lane].host.Bells == nil {
		return nil, errors.ErrUnsupported
	}
	return d.packets[lane].host.Bells.Add(owner)
}

// AttachHost begins to use a channel to a peer on this host.
func (d *Device) AttachHost(c *hostmem.Channel) {
	for _, l := range d.packets {
		l.Lock()
		l.host.Add(c, l.watch != nil || l.faults.receives())
		l.flows.reroute()
		l.Unlock()
		l.link.Wake() // the peer may have sent before Add armed the rings of a sleeping lane
	}
}

// DetachHost ends the use of a channel. When it returns no lane touches the channel's memory.
func (d *Device) DetachHost(c *hostmem.Channel) {
	d.lockedPackets(func(l *packetLane) {
		l.host.Drain(c)
		l.endRun()
		l.settle() // acknowledges what came
		l.host.Remove(c)
		l.endRun()
		l.flows.reroute()
	})
}

// Prepare looks for a path through memory to the peer of a queue pair that a path is about to
// lead to. It returns an error only if there has to be one (Config.Reach).
func (d *Device) Prepare(peer qp.Endpoint, qpn uint32) error {
	if d.cfg.Reach == nil || d.IWARP() {
		return nil
	}
	return d.cfg.Reach(d.packets[0].net.Key(&qp.Path{Dst: peer}, 0, 0).Dst, qpn) // as the network names it
}

// initHost prepares the memory path, and returns what the lane waits on.
func (l *packetLane) initHost() link.Waiter {
	l.host.Init(l.index, hostpath.Config{
		Port: (*hostPort)(l), Tasks: &l.tasks, Segments: &l.dev.Memory.Segments, Local: qp.OnWire(l.net.Local()), Clock: l.dev.clock,
	})
	if l.dev.cfg.HostBells {
		return l.host.Watch(l.network.link)
	}
	return l.link
}

// closeHost closes the bells. The link that watched them is closed.
func (l *packetLane) closeHost() {
	if b := l.host.Bells; b != nil {
		b.Close()
	}
}

// changesPath reports whether the peer of a connection has begun to use another path, by which
// a packet came: memory or the network. While memory leads to a peer that uses it, whatever
// comes from the network is another device's.
func (l *packetLane) changesPath(q *QP) bool {
	if l.in.Memory {
		q.inMemory = qp.OnWire(l.in.Src).Addr() == qp.OnWire(q.Attr.Path.Dst).Addr()
		return true
	}
	q.inMemory = l.dev.cfg.MemoryOnly || q.flow != nil && q.route().Path() != object.PathNetwork
	return !q.inMemory
}

// revoke takes back the references to the connection's memory, which the program may use
// again now.
func (q *QP) revoke() {
	if q.flow != nil && q.transport.Acknowledged {
		q.packets.host.RevokePeer(q.flow.Peer, q.Attr.DestQPN)
	}
}
