package simulate

import (
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/simulate/hosts"
)

// A ring is an all-reduce of n hosts: the vector has n parts, and in each of 2(n-1) steps each host
// sends a part to its neighbor, once the part of the step before has arrived.
type ring struct {
	group
	ranks []rank
	part  uint32
	steps int
}

// A rank is a host of a ring.
type rank struct {
	ring   *ring
	next   *rank
	c      *hosts.Conn
	due    int // parts that may be sent
	posted int
	acked  int
}

// ringDepth is the number of parts of a rank that may be under way.
const ringDepth = 15

func newRing(p *pattern, now dcb.Time, all []int) {
	r, n := p.r, len(all)
	g := &ring{group: group{r: r}, steps: 2 * (n - 1), ranks: make([]rank, n), part: uint32(max(1, (int(p.t.Size)+n-1)/n))}
	var step, last dcb.Time // the slowest of the neighbors
	for i := range g.ranks {
		a, b := r.node(all[i]), r.node(all[(i+1)%n])
		x := &g.ranks[i]
		x.ring, x.next, x.due = g, &g.ranks[(i+1)%n], 1
		step = max(step, r.paths.arrival(a, b, int(g.part)))
		last = max(last, r.paths.message(a, b, int(g.part)))
	}
	g.index = r.started(p.number, all[0], all[0], int64(p.t.Size), now, dcb.Time(g.steps-1)*step+last)
	for i := range g.ranks {
		x := &g.ranks[i]
		x.c = g.connect(now, p.number, r.node(all[i]), r.node(all[(i+1)%n]))
		x.c.User = x
	}
	for i := range g.ranks {
		g.ranks[i].send(now)
	}
}

// send sends the parts that may be sent.
func (x *rank) send(now dcb.Time) {
	for x.due > x.posted && x.posted-x.acked < ringDepth {
		x.posted++
		x.c.Post(now, uint64(x.posted), x.ring.part)
	}
}

// received is called when a part has arrived at the neighbor, which may send it on.
func (x *rank) received(now dcb.Time, _ uint32) {
	if y := x.next; y.due < x.ring.steps {
		y.due++
		y.send(now)
	}
}

func (x *rank) sent(now dcb.Time, c *hosts.Conn, _ uint64) {
	if x.acked++; x.acked < x.ring.steps {
		x.send(now)
		return
	}
	x.ring.finished(now, c)
}

func (x *rank) failed(now dcb.Time, c *hosts.Conn, _ reason.Detail) { x.ring.fails(now, c) }
