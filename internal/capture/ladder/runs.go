package ladder

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"softrdma/internal/capture"
	"softrdma/internal/psn"
	"softrdma/internal/wire/ib"
)

// A flight recorder has packets that differ in their PSN alone as one run. The recorders of both ends begin and
// end their runs at different packets, so runs are divided where the other end has a boundary.

// Recorded says that the captures are of flight recorders, which keep the last packets alone: what one of them
// does not have may be older than all that it has.
func (l *Ladder) Recorded() { l.records = true }

// packets returns how many packets a row is.
func (r *row) packets() int { return max(r.run.Packets, 1) }

// maxParts bounds the parts of a run.
const maxParts = 256

// segments divides the runs of two captures where runs of either begin or end.
func segments(rows []*row) (divided []*row) {
	type kind struct {
		direction
		opcode ib.Opcode
		id     uint16
	}
	first := make(map[kind]psn.PSN)
	edges := make(map[kind][]int) // PSNs relative to first
	for _, r := range rows {
		k := kind{r.direction, middle(r.opcode), r.id}
		if _, ok := first[k]; !ok {
			first[k] = r.psn
		}
		at := r.psn.Sub(first[k])
		edges[k] = append(edges[k], at, at+r.packets())
	}
	for k := range edges {
		slices.Sort(edges[k])
		edges[k] = slices.Compact(edges[k])
	}
	for _, r := range rows {
		k := kind{r.direction, middle(r.opcode), r.id}
		at := r.psn.Sub(first[k])
		from, _ := slices.BinarySearch(edges[k], at+1)
		to, _ := slices.BinarySearch(edges[k], at+r.packets())
		inside := edges[k][from:to]
		if len(inside) == 0 || len(inside) > maxParts {
			divided = append(divided, r)
			continue
		}
		done := 0
		for _, e := range append(slices.Clone(inside), at+r.packets()) {
			divided = append(divided, r.part(done, e-at-done))
			done = e - at
		}
	}
	return divided
}

// part returns n packets of a run, after some. What is said about the run is said at its first part.
func (r *row) part(after, n int) *row {
	p := *r
	all := r.packets()
	share := func(n int) time.Duration { return time.Duration(float64(r.run.Time) * float64(n) / float64(all)) }
	p.psn = r.psn.Add(after)
	p.time = r.time.Add(share(after))
	p.payload = r.payload / all * n
	p.run = capture.Run{Packets: n, Bytes: uint64(p.payload), Time: share(n - 1)}
	if after > 0 {
		p.notes, p.remark, p.accused, p.final, p.level = nil, false, false, false, 0
		p.details = ""
	}
	if i := r.opcode.Info(); i != nil && (i.First && after > 0 || i.Last && after+n < all) {
		p.opcode = middle(r.opcode)
	}
	p.label = packetLabel(p.opcode, p.psn, n, p.payload)
	if n == 1 && p.payload > 0 {
		p.label += fmt.Sprintf(", %d B", p.payload)
	}
	return &p
}

// order is that of time. Of packets of flight recorders that have one time, it is that of the first recorder, and of
// the parts of a run that of their sequence.
func (c *connection) order(a, b rung) int {
	by := a.at.Compare(b.at)
	if by != 0 || !c.records {
		return by
	}
	return cmp.Or(cmp.Compare(a.first(), b.first()), cmp.Compare(a.last(), b.last()), a.row().psn.Sub(b.row().psn))
}

func (r *rung) first() int {
	if r.seen[0] == nil {
		return 0
	}
	return r.seen[0].number
}

func (r *rung) last() int {
	if r.seen[0] != nil || r.seen[1] == nil {
		return 0
	}
	return r.seen[1].number
}

// reach finds the rungs from the first to the last that both captures have. Beyond them a flight recorder may have
// forgotten packets, or not have them yet.
func (c *connection) reach() {
	c.from, c.to = len(c.rungs), -1
	for i := range c.rungs {
		if c.rungs[i].one() == both {
			c.from, c.to = min(c.from, i), i
		}
	}
}

// reaches reports whether a capture that does not have packet i would have it if it had passed there.
func (c *connection) reaches(i int) bool { return !c.records || i >= c.from && i <= c.to }

// middle returns the opcode of packets in the middle of a message that has packets of an opcode.
func middle(o ib.Opcode) ib.Opcode {
	i := o.Info()
	if i == nil || i.First && i.Last {
		return o
	}
	for _, m := range [...]ib.Opcode{o - 2, o - 1, o, o + 1} {
		if x := m.Info(); x != nil && x.Kind == i.Kind && m.Transport() == o.Transport() && !x.First && !x.Last {
			return m
		}
	}
	return o
}
