package ladder

import (
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
		k := kind{r.direction, r.opcode, r.id}
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
		k := kind{r.direction, r.opcode, r.id}
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
	}
	p.label = packetLabel(r.opcode, p.psn, n, p.payload)
	if n == 1 && p.payload > 0 {
		p.label += fmt.Sprintf(", %d B", p.payload)
	}
	return &p
}

// A period is from the first to the last packet of a capture.
type period struct{ from, to time.Time }

// reaches returns the periods of the captures.
func reaches(rows []*row) *[2]period {
	var all [2]period
	for _, r := range rows {
		p := &all[r.view]
		if p.from.IsZero() || r.time.Before(p.from) {
			p.from = r.time
		}
		if end := r.time.Add(r.run.Time); end.After(p.to) {
			p.to = end
		}
	}
	return &all
}

// reaches reports whether a capture that does not have the packet would have it if it had passed there.
func (c *connection) reaches(x *rung) bool {
	if c.reach == nil {
		return true
	}
	for v, seen := range x.seen {
		if other := x.seen[1-v]; seen == nil && other != nil {
			p := c.reach[v]
			return !other.time.Before(p.from) && !other.time.After(p.to)
		}
	}
	return true
}
