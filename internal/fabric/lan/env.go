package lan

import (
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

var _ dcb.Env = (*node)(nil)

// Transmit implements dcb.Env.
func (k *node) Transmit(now dcb.Time, port int, f *dcb.Frame) {
	if f.Op != 0 && k.host != nil && k.net.config.Pausing != nil {
		k.net.config.Pausing(now, k.index, f)
	}
	k.carry(now, port, f)
}

// carry puts a frame on the cable of a port.
func (k *node) carry(now dcb.Time, port int, f *dcb.Frame) {
	n := k.net
	e := &n.ends[int(k.first)+port-1]
	if e.peer < 0 {
		n.trunks.send(e, f)
		return
	}
	to := &n.ends[e.peer]
	f.At = now + e.delay
	f.Tail = f.At + dcb.Time(f.Len)*e.perByte
	k.left = k.left || f.Op == 0
	if to.faults != nil && !n.extras.disturb(to, f) {
		return
	}
	p := to.node.part
	if p != k.part {
		k.part.sendTo(e.peer, f)
		return
	}
	to.flights.Push(f)
	if to.flights.Frames == 1 {
		p.due.Set(2*int(e.peer-p.first)+1, to.arrival(f))
	}
}

// Schedule implements dcb.Env.
func (k *node) Schedule(port int, at dcb.Time) {
	k.part.set(2*(int(k.first-k.part.first)+port-1), at)
}

// Deliver implements dcb.Env.
func (k *node) Deliver(now dcb.Time, port int, f *dcb.Frame) bool {
	if x := k.net.extras; x != nil {
		if own, taken := x.take(now, k, port, f); own {
			return taken
		}
	}
	return k.net.config.Deliver(now, topology.End{Node: k.index, Port: port}, f)
}

// Dropped implements dcb.Env.
func (k *node) Dropped(now dcb.Time, port int, f *dcb.Frame, d reason.Detail) {
	k.left = true
	if k.net.config.Dropped != nil {
		k.net.config.Dropped(now, topology.End{Node: k.index, Port: port}, f, d)
	}
}
