// Package ladder draws connections of captures as ladders: a line for each end, and an arrow
// between them for each packet. From two captures, of both ends, it shows what was lost
// between them.
package ladder

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"softrdma/internal/capture"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
)

// maxRows is how many packets a Ladder keeps: the latest.
const maxRows = 1 << 16

// A Ladder keeps the packets of one capture, or of two of the same connections.
type Ladder struct {
	views   int
	records bool   // the captures are of flight recorders
	limit   int    // of rows
	rows    []*row // a ring if there are as many as the limit
	next    int    // in the ring
	dropped int    // rows that later ones have replaced
	peers   map[direction]direction
	order   []direction
}

// New returns a Ladder of one or two captures.
func New(views int) *Ladder {
	return &Ladder{views: views, limit: maxRows, peers: make(map[direction]direction)}
}

// Views sets of how many captures the Ladder is, before it is drawn: 1 if there was no second one.
func (l *Ladder) Views(n int) { l.views = n }

// A direction is one direction of a connection.
type direction struct {
	src, dst  netip.AddrPort
	qpn       uint32 // of the receiver
	transport ib.Transport
}

// A row is a packet as a capture has it.
type row struct {
	direction
	view     int
	number   int
	time     time.Time
	opcode   ib.Opcode
	psn      psn.PSN
	id       uint16
	outbound capture.Direction
	payload  int
	run      capture.Run
	native   bool
	label    string // what it is, and details
	details  string
	notes    []string // findings and comments
	level    capture.Level
	remark   bool // the row has a warning, a fault or a comment
	accused  bool // the packet is at fault
	accuses  psn.PSN
	final    bool // accuses is set: the row is a NAK that ends the connection
}

// Add adds a packet of a capture, 0 or 1, with its findings.
func (l *Ladder) Add(view int, p *capture.Packet, findings []capture.Finding) {
	r := &row{view: view, number: p.Number, time: p.Time, opcode: p.Opcode, psn: p.PSN, id: p.ID, outbound: p.Direction,
		payload: len(p.Payload), run: p.Run, native: p.Native}
	r.label, r.details = label(p)
	if r.run.Packets > 1 {
		l.records, r.payload = true, int(r.run.Bytes)
	}
	r.src, r.dst = p.Hosts()
	r.qpn, r.transport = p.DestQPN, p.Opcode.Transport()
	for _, f := range findings {
		r.notes = append(r.notes, fmt.Sprintf("%v: %v", f.Level, f))
		r.level = max(r.level, f.Level)
		switch f.Detail.Reason {
		case reason.NAKInvalidRequest, reason.NAKRemoteAccess, reason.NAKRemoteOperational:
			r.final, r.accuses = true, psn.PSN(f.Detail.Found)
		default:
			r.accused = r.accused || f.Level == capture.Fault
		}
	}
	for _, c := range p.Comments {
		if !capture.IsRun(c) {
			r.notes, r.remark = append(r.notes, capture.Printable(c)), true
		}
	}
	r.remark = r.remark || r.level > capture.Note
	if len(l.rows) < l.limit {
		l.rows = append(l.rows, r)
		return
	}
	l.rows[l.next] = r
	l.next = (l.next + 1) % l.limit
	l.dropped++
}

// Pair tells which directions belong together: those that an Analyzer has found.
func (l *Ladder) Pair(all []capture.Connection) {
	for i := range all {
		c := &all[i]
		d := direction{c.Src, c.Dst, c.QPN, c.Opcode.Transport()}
		if _, ok := l.peers[d]; !ok {
			l.order = append(l.order, d)
		}
		p, known := l.peers[d]
		if !known || p == (direction{}) {
			l.peers[d] = direction{}
			if c.PeerQPN != 0 {
				l.peers[d] = direction{c.Dst, c.Src, c.PeerQPN, d.transport}
			}
		}
	}
}

// A connection is two directions that belong together. The second may be empty.
type connection struct {
	there, back direction
	rungs       []rung
	remarks     bool
	records     bool // the captures are of flight recorders
	from, to    int  // rungs from the first to the last that both captures have
}

// connections puts the rows into connections, in the order in which these appeared.
func (l *Ladder) connections() []*connection {
	of := make(map[direction]*connection)
	var all []*connection
	single := l.single()
	for _, d := range l.order {
		if of[d] != nil {
			continue
		}
		c := &connection{there: d, back: l.opposite(d, single)}
		of[d], all = c, append(all, c)
		if c.back != (direction{}) {
			of[c.back] = c
		}
	}
	rows := make(map[*connection][]*row)
	for _, r := range slices.Concat(l.rows[l.next:], l.rows[:l.next]) {
		if c := of[r.direction]; c != nil {
			rows[c] = append(rows[c], r)
			c.remarks = c.remarks || r.remark
		}
	}
	for _, c := range all {
		of := rows[c]
		if l.records && l.views == 2 {
			of, c.records = segments(of), true
		}
		c.climb(of, l.views)
	}
	return slices.DeleteFunc(all, func(c *connection) bool { return len(c.rungs) == 0 })
}

// An alike is what directions have in common that may belong together.
type alike struct {
	src, dst  netip.AddrPort
	transport ib.Transport
	gsi       bool
}

func (d direction) alike() alike { return alike{d.src, d.dst, d.transport, d.qpn == mad.GSIQPN} }

// single returns the directions without a peer that are the only ones of their kind.
func (l *Ladder) single() map[alike]direction {
	of := make(map[alike]direction)
	many := make(map[alike]bool)
	for _, d := range l.order {
		if l.peers[d] != (direction{}) {
			continue
		}
		k := d.alike()
		many[k] = many[k] || of[k] != (direction{})
		of[k] = d
	}
	for k := range many {
		if many[k] {
			delete(of, k)
		}
	}
	return of
}

// opposite returns the direction that belongs to d: the analyzer's, or the only one that may.
func (l *Ladder) opposite(d direction, single map[alike]direction) direction {
	if p := l.peers[d]; p != (direction{}) {
		return p
	}
	if o := single[alike{d.dst, d.src, d.transport, d.qpn == mad.GSIQPN}]; o != d {
		return o
	}
	return direction{}
}

// A rung is a packet, as one or both captures have it.
type rung struct {
	seen [2]*row
	at   time.Time // on the first capture's clock
}

// row returns the packet of the rung.
func (r *rung) row() *row { return cmp.Or(r.seen[0], r.seen[1]) }

// identity is what the same packet has in both captures.
type identity struct {
	direction
	opcode  ib.Opcode
	psn     psn.PSN
	id      uint16
	packets int
}

func (r *row) identity(records bool) identity {
	k := identity{r.direction, r.opcode, r.psn, r.id, r.packets()}
	if records { // a run has the opcode of its first packet
		k.opcode = middle(r.opcode)
	}
	return k
}

// climb makes the rungs of rows in the order of time, and marks the packets at fault.
func (c *connection) climb(rows []*row, views int) {
	of := make(map[identity]*[2][]*row)
	for _, r := range rows {
		k := r.identity(c.records)
		if of[k] == nil {
			of[k] = new([2][]*row)
		}
		of[k][r.view] = append(of[k][r.view], r)
	}
	shift := c.clocks(of)
	paired := make(map[*row]bool)
	for _, r := range rows {
		if r.view == 0 {
			continue
		}
		x := rung{at: r.time.Add(-shift)}
		x.seen[1] = r
		if of := of[r.identity(c.records)]; len(of[0]) > 0 {
			if a := c.partner(of[0], r, x.at, paired); a != nil {
				paired[a] = true
				x.seen[0], x.at = a, a.time
			}
		}
		c.rungs = append(c.rungs, x)
	}
	for _, r := range rows {
		if r.view == 0 && !paired[r] {
			x := rung{at: r.time}
			x.seen[0] = r
			c.rungs = append(c.rungs, x)
		}
	}
	slices.SortStableFunc(c.rungs, c.order)
	c.reach()
	c.accuse()
	if views == 2 {
		c.remarks = c.remarks || slices.ContainsFunc(c.rungs, func(r rung) bool { return r.one() != both && !c.records })
	}
}

// maxAlike bounds the repetitions of a packet among which its partner is searched.
const maxAlike = 64

// partner returns which of the packets of the first capture r of the second one is: the one that is nearest in
// time, as packets that were sent again look the same. at is the time of r on the first capture's clock.
func (c *connection) partner(of []*row, r *row, at time.Time, paired map[*row]bool) (best *row) {
	i, _ := slices.BinarySearchFunc(of, at, func(a *row, t time.Time) int { return a.time.Compare(t) })
	for _, a := range of[max(0, i-maxAlike):min(len(of), i+maxAlike)] {
		if !paired[a] && (best == nil || a.time.Sub(at).Abs() < best.time.Sub(at).Abs()) {
			best = a
		}
	}
	return best
}

// clocks returns how far the second capture's clock is ahead of the first's: the middle between the
// smallest differences of both directions, as the network's delays are alike. It looks at packets that both
// captures have once.
func (c *connection) clocks(of map[identity]*[2][]*row) time.Duration {
	var least [2]time.Duration // difference there, and the negative one back
	var have [2]bool
	for k, seen := range of {
		if len(seen[0]) != 1 || len(seen[1]) != 1 {
			continue
		}
		way, d := 0, seen[1][0].time.Sub(seen[0][0].time)
		if k.direction != c.there {
			way, d = 1, -d
		}
		if !have[way] || d < least[way] {
			have[way], least[way] = true, d
		}
	}
	switch {
	case have[0] && have[1]:
		return (least[0] - least[1]) / 2
	case have[0]:
		return least[0]
	}
	return -least[1]
}

// accuse marks the request that a NAK refuses: the last one with its PSN.
func (c *connection) accuse() {
	type place struct {
		direction
		psn psn.PSN
	}
	last := make(map[place]int)
	for i := range c.rungs {
		r := c.rungs[i].row()
		last[place{r.direction, r.psn}] = i
		if !r.final {
			continue
		}
		other := c.there
		if r.direction == c.there {
			other = c.back
		}
		j, ok := last[place{other, r.accuses}]
		if !ok {
			j, ok = c.within(i, other, r.accuses)
		}
		if ok {
			for _, seen := range c.rungs[j].seen {
				if seen != nil {
					seen.accused, seen.remark = true, true
				}
			}
		}
	}
}

// within returns the latest run of a direction before a rung that has a PSN.
func (c *connection) within(before int, d direction, p psn.PSN) (int, bool) {
	for i := before - 1; i >= max(0, before-maxAlike); i-- {
		r := c.rungs[i].row()
		if k := p.Sub(r.psn); r.direction == d && k >= 0 && k < r.packets() {
			return i, true
		}
	}
	return 0, false
}

// left reports which capture is of the end that the ladder shows at the left, the sender of
// c.there: the capture that has its packets as outbound, or those that the other lacks.
func (c *connection) left() int {
	votes := 0
	for i := range c.rungs {
		for v, r := range c.rungs[i].seen {
			if r == nil {
				continue
			}
			here := r.outbound == capture.Outbound || r.outbound == capture.Unknown && c.rungs[i].seen[1-v] == nil
			if r.outbound == capture.Inbound || !here {
				continue
			}
			if (r.direction == c.there) == (v == 0) {
				votes++
			} else {
				votes--
			}
		}
	}
	if votes < 0 {
		return 1
	}
	return 0
}

// end returns the text of an end of a connection.
func end(e netip.AddrPort, native bool) string {
	switch {
	case !native:
		return e.Addr().String()
	case e.Addr() == qp.LocalGID:
		return fmt.Sprintf("LID %d", e.Port())
	}
	return e.Addr().String()
}
