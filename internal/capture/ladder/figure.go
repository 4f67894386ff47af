package ladder

import (
	"fmt"
	"slices"

	"softrdma/internal/capture"
)

// Options say what a figure shows.
type Options struct {
	QPN  uint32 // only connections with this queue pair; 0 means all that have something to show
	All  bool   // show all connections and packets, not only those near a remark
	Most int    // of connections; 0 means all
	Left uint32 // queue pair whose end is at the left; 0 means the end that sent first
}

// context is how many packets on both sides of a remark are near it.
const context = 2

// A Figure is what a ladder shows: Draw writes it as text, and others may draw it in their way.
type Figure struct {
	Connections []Connection `json:"connections"`
	More        int          `json:"more"`    // connections that Options.Most leaves out
	Others      int          `json:"others"`  // connections of other queue pairs, or without a remark
	Dropped     int          `json:"dropped"` // packets before those that the ladder keeps
}

// A Connection is two ends, and the packets between them.
type Connection struct {
	Transport string `json:"transport"`
	Left      End    `json:"left"`
	Right     End    `json:"right"`
	Views     int    `json:"views"` // captures
	Packets   int    `json:"packets"`
	Faults    int    `json:"faults"` // rungs at fault
	Rungs     []Rung `json:"rungs"`
}

// An End is an end of a connection.
type End struct {
	Address string  `json:"address"`
	QPN     *uint32 `json:"qpn,omitempty"` // nil if the capture does not tell
}

func (e *End) qp() string {
	if e.QPN == nil {
		return "QP unknown"
	}
	return fmt.Sprintf("QP 0x%06x", *e.QPN)
}

// A Rung is a packet, or a run of them.
type Rung struct {
	Numbers  []int    `json:"numbers"` // of the packet in each capture, 0 if it does not have it
	Seconds  float64  `json:"seconds"` // since the first packet of the connection
	Label    string   `json:"label"`
	There    bool     `json:"there"`    // from the left end to the right one
	Sent     bool     `json:"sent"`     // the sender's capture has it, or is not there to say so
	Received bool     `json:"received"` // the same of the receiver's
	Fault    bool     `json:"at_fault"` // this packet is refused, or violates the protocol
	Remark   bool     `json:"remark"`
	Far      bool     `json:"far,omitempty"` // from any remark
	Level    string   `json:"level"`         // of the gravest finding
	Packets  int      `json:"packets"`
	Payload  int      `json:"payload"` // bytes, of all packets
	Notes    []string `json:"notes"`
}

// Figure returns what is to be shown. A connection is shown if it has a warning, a fault or a comment; if none
// has, all are.
func (l *Ladder) Figure(o Options) *Figure {
	all := l.connections()
	chosen := slices.DeleteFunc(slices.Clone(all), func(c *connection) bool {
		if o.QPN != 0 {
			return c.there.qpn != o.QPN && c.back.qpn != o.QPN
		}
		return !o.All && !c.remarks
	})
	if len(chosen) == 0 && o.QPN == 0 {
		chosen = all
	}
	f := &Figure{Connections: []Connection{}, Others: len(all) - len(chosen), Dropped: l.dropped}
	for i, c := range chosen {
		if o.Most > 0 && i == o.Most {
			f.More = len(chosen) - i
			break
		}
		if o.Left != 0 && c.there.qpn == o.Left && c.back != (direction{}) {
			c.there, c.back = c.back, c.there
		}
		f.Connections = append(f.Connections, c.figure(l.views, o.All))
	}
	return f
}

func (c *connection) figure(views int, all bool) Connection {
	first := c.rungs[0].row()
	f := Connection{Transport: first.transport.String(), Views: views}
	f.Left.Address, f.Right.Address = end(c.there.src, first.native), end(c.there.dst, first.native)
	f.Right.QPN = &c.there.qpn
	if c.back != (direction{}) {
		f.Left.QPN = &c.back.qpn
	}
	shown, left := c.shown(all), c.left()
	for i := range c.rungs {
		r := c.rung(i, left, views)
		r.Far = !shown[i]
		f.Packets += r.Packets
		if r.Fault {
			f.Faults++
		}
		f.Rungs = append(f.Rungs, r)
	}
	return f
}

// view names a capture.
func (c *connection) view(v, left int) string {
	switch {
	case !c.records:
		return fmt.Sprintf("capture %d", v+1)
	case v == left:
		return "left end"
	}
	return "right end"
}

// both is what one returns of a packet that both captures have.
const both = -1

// one returns which capture alone has the packet.
func (r *rung) one() int {
	switch {
	case r.seen[0] == nil:
		return 1
	case r.seen[1] == nil:
		return 0
	}
	return both
}

// shown says which packets of a connection are near a remark, or are shown anyway.
func (c *connection) shown(all bool) []bool {
	shown := make([]bool, len(c.rungs))
	for i := range c.rungs {
		r := c.rungs[i].row()
		if all || !c.remarks || i < context || i >= len(c.rungs)-context {
			shown[i] = true
		}
		if r.remark || r.accused {
			for j := max(0, i-context); j <= min(len(c.rungs)-1, i+context); j++ {
				shown[j] = true
			}
		}
	}
	for i := 1; i+1 < len(shown); i++ { // a gap of one packet is no shorter than the packet
		shown[i] = shown[i] || shown[i-1] && shown[i+1]
	}
	return shown
}

// rung returns a packet and what is to be said about it.
func (c *connection) rung(i, left, views int) Rung {
	x := &c.rungs[i]
	r := x.row()
	there := r.direction == c.there
	sender := left // the capture at the packet's sender
	if !there {
		sender = 1 - left
	}
	f := Rung{
		Seconds: x.at.Sub(c.rungs[0].at).Seconds(), Label: r.label + r.details, There: there, Sent: true, Received: true, Fault: r.accused, Remark: r.remark,
		Level: r.level.String(), Packets: r.packets(), Payload: r.payload, Notes: []string{},
	}
	for v := range views {
		n := 0
		if x.seen[v] != nil {
			n = x.seen[v].number
		}
		f.Numbers = append(f.Numbers, n)
	}
	one := views == 2 && x.one() != both
	unknown := one && !c.reaches(i)
	if one && !unknown {
		f.Sent, f.Received = x.seen[sender] != nil, x.seen[1-sender] != nil
	}
	said := map[string]bool{}
	for v, seen := range x.seen {
		if seen == nil {
			continue
		}
		for _, n := range seen.notes {
			if said[n] {
				continue
			}
			said[n] = true
			if views == 2 && x.seen[1-v] != nil && !slices.Contains(x.seen[1-v].notes, n) {
				n = c.view(v, left) + ": " + n
			}
			f.Notes = append(f.Notes, n)
		}
	}
	switch {
	case unknown:
		if i == 0 || c.rungs[i-1].one() != x.one() { // the first of them says it
			f.Notes = append(f.Notes, "from here in one end's flight recorder alone: that of the other end does not reach so far")
		}
	case !f.Received:
		f.Notes = append(f.Notes, "not in the receiver's capture: lost on the way")
	case !f.Sent:
		f.Notes = append(f.Notes, "not in the sender's capture")
	case r.accused && r.level < capture.Fault:
		f.Notes = append(f.Notes, "this packet is refused")
	}
	f.Remark = f.Remark || !f.Received || !f.Sent
	return f
}
