// Package ladder draws connections of captures as ladders: a line for each end, and an arrow
// between them for each packet. From two captures, of both ends, it shows what was lost
// between them.
package ladder

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"softrdma/internal/capture"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
)

// maxRows bounds the packets that a Ladder keeps: the latest.
const maxRows = 1 << 16

// A Ladder keeps the packets of one capture, or of two of the same connections.
type Ladder struct {
	views   int
	rows    []*row // a ring if there are maxRows
	next    int    // in the ring
	dropped int    // rows that later ones have replaced
	peers   map[direction]direction
	order   []direction
}

// New returns a Ladder of one or two captures.
func New(views int) *Ladder { return &Ladder{views: views, peers: make(map[direction]direction)} }

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
	native   bool
	label    string
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
		payload: len(p.Payload), native: p.Native, label: label(p)}
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
		r.notes = append(r.notes, capture.Printable(c))
	}
	r.remark = r.level > capture.Note || len(p.Comments) > 0
	if len(l.rows) < maxRows {
		l.rows = append(l.rows, r)
		return
	}
	l.rows[l.next] = r
	l.next = (l.next + 1) % maxRows
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

// label says what a packet is, in few words.
func label(p *capture.Packet) string {
	if len(p.Data) < ib.BTHLen {
		return fmt.Sprintf("%d bytes", p.Length)
	}
	var s string
	var h mad.Header
	if m, x := mad.ParseHeader(p.Payload, &h); p.DestQPN == mad.GSIQPN && x.Reason == reason.None && m != nil {
		s = fmt.Sprintf("CM %v", h.Attribute)
	} else {
		what := strings.TrimPrefix(p.Opcode.String(), p.Opcode.Transport().String()+" ") // it stands above the ladder
		s = fmt.Sprintf("%s PSN %v", what, p.PSN)
	}
	i := p.Opcode.Info()
	if i == nil {
		return s
	}
	switch h := i.Headers; {
	case h&ib.HasRETH != 0:
		s += fmt.Sprintf(" VA 0x%x R_Key 0x%x, %d B", p.RETH.Addr, p.RETH.RKey, p.RETH.Length)
	case h&ib.HasAtomicETH != 0:
		s += fmt.Sprintf(" VA 0x%x R_Key 0x%x", p.AtomicETH.Addr, p.AtomicETH.RKey)
	case h&ib.HasAETH != 0 && i.Kind != ib.KindReadResponse:
		s += fmt.Sprintf(" %v", p.AETH.Syndrome)
	case i.Payload:
		s += fmt.Sprintf(", %d B", len(p.Payload))
	}
	if p.ECN() == 3 {
		s += " CE"
	}
	if p.ICRC == capture.Bad {
		s += " bad ICRC"
	}
	return s
}

// A connection is two directions that belong together. The second may be empty.
type connection struct {
	there, back direction
	rungs       []rung
	remarks     bool
}

// connections puts the rows into connections, in the order in which these appeared.
func (l *Ladder) connections() []*connection {
	of := make(map[direction]*connection)
	var all []*connection
	for _, d := range l.order {
		if of[d] != nil {
			continue
		}
		c := &connection{there: d, back: l.opposite(d)}
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
		c.climb(rows[c], l.views)
	}
	return slices.DeleteFunc(all, func(c *connection) bool { return len(c.rungs) == 0 })
}

// opposite returns the direction that belongs to d: the analyzer's, or the only one that may.
func (l *Ladder) opposite(d direction) (found direction) {
	if p := l.peers[d]; p != (direction{}) {
		return p
	}
	for _, o := range l.order {
		if o.src != d.dst || o.dst != d.src || o.transport != d.transport || o == d || l.peers[o] != (direction{}) || (o.qpn == mad.GSIQPN) != (d.qpn == mad.GSIQPN) {
			continue
		}
		if found != (direction{}) {
			return direction{}
		}
		found = o
	}
	return found
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
	opcode ib.Opcode
	psn    psn.PSN
	id     uint16
}

// climb makes the rungs of rows in the order of time, and marks the packets at fault.
func (c *connection) climb(rows []*row, views int) {
	waiting := make(map[identity][]int) // rungs that only the first capture has
	slices.SortStableFunc(rows, func(a, b *row) int { return a.view - b.view })
	for _, r := range rows {
		k := identity{r.direction, r.opcode, r.psn, r.id}
		if w := waiting[k]; r.view == 1 && len(w) > 0 {
			c.rungs[w[0]].seen[1] = r
			waiting[k] = w[1:]
			continue
		}
		x := rung{}
		x.seen[r.view] = r
		if r.view == 0 {
			waiting[k] = append(waiting[k], len(c.rungs))
		}
		c.rungs = append(c.rungs, x)
	}
	shift := c.clocks()
	for i := range c.rungs {
		if r := &c.rungs[i]; r.seen[0] != nil {
			r.at = r.seen[0].time
		} else {
			r.at = r.seen[1].time.Add(-shift)
		}
	}
	slices.SortStableFunc(c.rungs, func(a, b rung) int { return a.at.Compare(b.at) })
	c.accuse()
	if views == 2 {
		c.remarks = c.remarks || slices.ContainsFunc(c.rungs, func(r rung) bool { return r.seen[0] == nil || r.seen[1] == nil })
	}
}

// clocks returns how far the second capture's clock is ahead of the first's: the middle between the
// smallest differences of both directions, as the network's delays are alike.
func (c *connection) clocks() time.Duration {
	var least [2]time.Duration // difference there, and the negative one back
	var have [2]bool
	for i := range c.rungs {
		a, b := c.rungs[i].seen[0], c.rungs[i].seen[1]
		if a == nil || b == nil {
			continue
		}
		way, d := 0, b.time.Sub(a.time)
		if a.direction != c.there {
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

// accuse marks the request that a NAK refuses.
func (c *connection) accuse() {
	for i := range c.rungs {
		nak := c.rungs[i].row()
		if !nak.final {
			continue
		}
		for j := i - 1; j >= 0; j-- {
			if r := c.rungs[j].row(); r.direction != nak.direction && r.psn == nak.accuses {
				for _, seen := range c.rungs[j].seen {
					if seen != nil {
						seen.accused, seen.remark = true, true
					}
				}
				break
			}
		}
	}
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
