package adapter

import (
	"slices"
	"time"

	"softrdma/internal/frame"
	"softrdma/internal/machine"
	"softrdma/internal/object"
	"softrdma/internal/steering"
)

// Trouble is a route that loses, repeats, delays and spoils packets, by their number.
type Trouble struct {
	route
	Lose, Repeat, Delay, Spoil int // every so many packets; 0 means never

	Lost, Repeated, Delayed, Spoilt int

	n    int
	late *packet // leaves behind the next one
}

// Wrap puts trouble in front of the route of a connection, and removes earlier trouble. It lasts until
// the lane chooses another route.
func (x *Trouble) Wrap(q *QP) object.Path {
	q.lane.Lock()
	defer q.lane.Unlock()
	x.route = q.route()
	if other, ok := x.route.(*Trouble); ok {
		x.route = other.route
	}
	q.flow.routes[steering.LaneOf(q.Attr.DestQPN, len(q.flow.routes))] = x
	return x.Path()
}

// Prepare implements route.
func (x *Trouble) Prepare(q *QP, o *machine.Out) {
	x.route.Prepare(q, o)
	o.Longest, o.Lossless = 0, false
}

// Send implements route.
func (x *Trouble) Send(_ time.Duration, q *QP, f *txFlow, o *machine.Out, class frame.Class, _ int) int {
	return sendWhole(x, q, f, o, class)
}

// Put implements route.
func (x *Trouble) Put(p *packet) {
	is := func(every int, count *int) bool {
		if every == 0 || x.n%every != 0 {
			return false
		}
		*count++
		return true
	}
	x.n++
	late := x.late
	x.late = nil
	switch {
	case is(x.Lose, &x.Lost):
	case is(x.Repeat, &x.Repeated):
		x.route.Put(p)
		x.again(p)
	case is(x.Spoil, &x.Spoilt):
		p.data[0] = 0xff // no opcode
		x.route.Put(p)
	case is(x.Delay, &x.Delayed):
		c := *p
		c.header, c.data = slices.Clone(p.header), slices.Clone(p.data)
		x.late = &c
	default:
		x.route.Put(p)
	}
	if late != nil {
		x.again(late)
	}
}

// again sends a packet that was stamped for another place.
func (x *Trouble) again(p *packet) {
	x.Stamp(p)
	x.route.Put(p)
}
