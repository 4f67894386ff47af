package node

import (
	"time"

	"softrdma/internal/fabric/port"
	"softrdma/internal/wire/ib"
)

// A Queue has the packets that wait on a data lane to leave the node, or for its host.
type Queue struct {
	Port    int // by which the packets leave, or the host's
	VL      uint8
	Host    bool // the packets end here
	Packets int
	From    map[port.Origin]int // packets by the buffer that they occupy

	// Blocked reports whether the first packet cannot leave: the peer has not granted the
	// credit, or the host did not take it. Since is when credit was first missing.
	Blocked bool
	Since   time.Duration
}

// Queues returns the data lanes on which packets wait.
func (n *Node) Queues() (list []Queue) {
	for number := range len(n.ports) {
		if h := n.hosts[number]; h != nil {
			for vl := range uint8(ib.ManagementVL) {
				if h.Queued(vl) > 0 {
					q := Queue{Port: number, VL: vl, Host: true, Packets: h.Queued(vl), From: make(map[port.Origin]int), Blocked: h.Refused(vl)}
					for o := range h.Origins(vl) {
						q.From[o]++
					}
					list = append(list, q)
				}
			}
		}
		p := n.ports[number]
		if p == nil {
			continue
		}
		for vl := range uint8(p.Config().VLs) {
			if p.Queued(vl) == 0 {
				continue
			}
			q := Queue{Port: number, VL: vl, Packets: p.Queued(vl), From: make(map[port.Origin]int)}
			q.Since, q.Blocked = p.Blocked(vl)
			for o := range p.Origins(vl) {
				q.From[o]++
			}
			list = append(list, q)
		}
	}
	return list
}

// Lane returns the data lane on which packets of a service level leave by a port. Packets
// of the node itself have in 0.
func (n *Node) Lane(in, out int, sl uint8) uint8 { return n.lane(in, out, sl) }

// Unicast returns the port by which a switch sends packets to a LID, or smp.NoPort.
func (n *Node) Unicast(l ib.LID) uint8 { return n.tables.unicast(l) }

// LinearTop returns the highest LID of the forwarding table.
func (n *Node) LinearTop() ib.LID { return ib.LID(n.tables.linearTop) }

// Group returns the ports that the multicast table of a switch has for a LID, which exclude
// the default ports.
func (n *Node) Group(l ib.LID) (ports []int) {
	set, _ := n.tables.group(l)
	for p := range set.all() {
		ports = append(ports, p)
	}
	return ports
}

// MulticastTop returns the highest LID of the multicast table.
func (n *Node) MulticastTop() ib.LID {
	return ib.MulticastLID + ib.LID(len(n.tables.groups)/n.tables.positions) - 1
}

// SetRefresh sets the longest time between two grants of credit for a lane of a port, and
// lets it repeat all grants now. See port.Config.Refresh.
func (n *Node) SetRefresh(now time.Duration, number int, every time.Duration) {
	n.now = now
	n.ports[number].SetRefresh(now, every)
}

// SetBuffer sets the room for packets on each data lane of a port whose link is down, in
// blocks of 64 bytes. See port.Config.Buffer.
func (n *Node) SetBuffer(number, blocks int) { n.ports[number].SetBuffer(blocks) }
