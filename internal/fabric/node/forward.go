package node

import (
	"time"

	"softrdma/internal/fabric/port"
	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// forward sends a packet on that arrived at a port of a switch, or that its port 0 sends
// (IBTA 18.2.4.3).
func (n *Node) forward(now time.Duration, in int, k *port.Packet) {
	if n.lifeTime != hardware.Unlimited {
		k.Ends = now + n.lifeTime
	}
	lid := k.LRH.DLID
	switch {
	case lid.Multicast():
		n.multicast(now, in, k)
	case lid == ib.PermissiveLID || owns(&n.zero.config, lid):
		n.host(now, k)
	default:
		out := n.tables.unicast(lid)
		switch {
		case out == 0:
			n.host(now, k)
		case int(out) > n.config.Ports:
			c := n.counters(in)
			c.DLIDMapping++
			c.RcvSwitchRelayErrors++
			n.drop(now, in, k, reason.Detail{Reason: reason.FabricRoute, Expected: uint64(n.tables.linearTop), Found: uint64(lid)})
		case int(out) == in:
			c := n.counters(in)
			c.LoopingDLID++
			c.RcvSwitchRelayErrors++
			n.drop(now, in, k, reason.Detail{Reason: reason.FabricLoop, Expected: uint64(in), Found: uint64(lid)})
		default:
			n.out(now, in, int(out), k)
		}
	}
}

// host delivers a packet to port 0 of a switch.
func (n *Node) host(now time.Duration, k *port.Packet) {
	k.Due = k.Tail
	n.hosts[0].Push(now, k)
}

// multicast sends a packet by each port of its group but the one at which it arrived. The
// packet's place in the buffer is free when the last copy has left.
func (n *Node) multicast(now time.Duration, in int, k *port.Packet) {
	set := n.tables.multicast(k.LRH.DLID, in)
	set.remove(in)
	last := -1
	for out := range set.all() {
		if out > n.config.Ports {
			break
		}
		if last >= 0 {
			n.leave(now, in, last, n.env.Pool.Copy(k))
		}
		last = out
	}
	if last < 0 {
		c := n.counters(in)
		c.DLIDMapping++
		c.RcvSwitchRelayErrors++
		n.drop(now, in, k, reason.Detail{Reason: reason.FabricRoute, Expected: uint64(n.tables.multicastTop), Found: uint64(k.LRH.DLID)})
		return
	}
	n.leave(now, in, last, k)
}

// leave sends a packet by a port, which may be a switch's port 0.
func (n *Node) leave(now time.Duration, in, out int, k *port.Packet) {
	if out == 0 {
		n.host(now, k)
		return
	}
	n.out(now, in, out, k)
}

// out sends a packet by an external port.
func (n *Node) out(now time.Duration, in, out int, k *port.Packet) {
	p := n.ports[out]
	k.VL = k.LRH.VL
	if k.VL != ib.ManagementVL {
		k.VL = n.lane(in, out, k.LRH.SL)
		if k.VL == ib.ManagementVL { // IBTA 7.6.6: lane 15 in the table discards
			c := n.counters(in)
			c.VLMapping++
			c.RcvSwitchRelayErrors++
			n.drop(now, in, k, reason.Detail{Reason: reason.FabricLane, Expected: ib.ManagementVL, Found: uint64(k.LRH.SL)})
			return
		}
	}
	if n.config.Switch {
		k.Due = n.due(now, p, k)
	}
	p.Send(now, k)
}

// due is when the first byte of a packet may leave a switch. With cut-through its last
// byte arrives before it is to leave, even by a faster link.
func (n *Node) due(now time.Duration, out *port.Port, k *port.Packet) time.Duration {
	if n.config.StoreAndForward {
		return k.Tail + n.config.Hop
	}
	return max(now, k.Tail-out.Duration(len(k.Data))) + n.config.Hop
}

// lane returns the lane of a service level between two ports. An adapter's packets have in
// 0.
func (n *Node) lane(in, out int, sl uint8) uint8 {
	if !n.config.Switch {
		in = 0
	}
	if t := n.lanes[out]; t != nil {
		return uint8(t[in]>>(4*sl)) & 0xf
	}
	return sl % uint8(n.ports[out].Config().VLs)
}

// counters returns a port's counters, those of port 0 for a packet of the node itself.
func (n *Node) counters(number int) *hardware.Counters {
	if number == 0 {
		return &n.zero.counters
	}
	return &n.ports[number].Counters
}

// tables are the forwarding tables of a switch. They grow with what a manager sets.
type tables struct {
	linear       []uint8  // port of each LID
	groups       []uint16 // masks of 16 ports, positions of them for each multicast LID
	positions    int
	linearTop    uint16
	multicastTop uint16
	primary      uint8 // port for groups without an entry, unless they arrive there
	notPrimary   uint8
}

func (t *tables) init(ports int) {
	t.positions = ports/16 + 1
	t.primary, t.notPrimary = smp.NoPort, smp.NoPort
}

func (t *tables) unicast(l ib.LID) uint8 {
	if int(l) >= len(t.linear) || uint16(l) > t.linearTop {
		return smp.NoPort
	}
	return t.linear[l]
}

// group returns the entry of a multicast LID, and reports whether it has one.
func (t *tables) group(l ib.LID) (set portSet, ok bool) {
	at := int(l-ib.MulticastLID) * t.positions
	if at+t.positions > len(t.groups) || t.multicastTop != 0 && uint16(l) > t.multicastTop {
		return set, false
	}
	for i, mask := range t.groups[at : at+t.positions] {
		set[i/4] |= uint64(mask) << (i % 4 * 16)
		ok = ok || mask != 0
	}
	return set, ok
}

// multicast returns the ports of a group. Groups without an entry go to the default port.
func (t *tables) multicast(l ib.LID, in int) portSet {
	set, ok := t.group(l)
	if !ok {
		def := t.primary
		if int(def) == in {
			def = t.notPrimary
		}
		if def != smp.NoPort {
			set[def/64] |= 1 << (def % 64)
		}
	}
	return set
}
