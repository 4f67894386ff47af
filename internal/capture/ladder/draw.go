package ladder

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"softrdma/internal/capture"
)

// Options say what Draw draws.
type Options struct {
	QPN  uint32 // only connections with this queue pair; 0 means all that have something to show
	All  bool   // draw all connections and packets, not only those near a remark
	Most int    // of connections
}

const (
	width   = 110
	gutter  = 24 // number and time
	inner   = width - gutter - 2
	context = 2 // packets shown on both sides of a remark
)

// Draw draws the connections. One is drawn if it has a warning, a fault or a comment; if none has, all are.
func (l *Ladder) Draw(w io.Writer, o Options) error {
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
	d := &drawing{w: w, o: o}
	if len(chosen) == 0 {
		d.line("No connection of queue pair 0x%06x. The capture has %d others.", o.QPN, len(all))
	}
	if l.dropped > 0 {
		d.line("The first %d packets are not shown: a ladder keeps the last %d.\n", l.dropped, maxRows)
	}
	for i, c := range chosen {
		if i == o.Most {
			d.line("%d more connections are not drawn. --qp draws one.", len(chosen)-i)
			break
		}
		d.connection(c, l.views)
	}
	if n := len(all) - len(chosen); n > 0 && o.QPN == 0 {
		d.line("%d connections without a warning, a fault or a comment are not drawn. --all draws them.", n)
	}
	return d.err
}

// A drawing writes lines until one fails.
type drawing struct {
	w   io.Writer
	o   Options
	err error
}

func (d *drawing) line(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.w, format+"\n", args...)
	}
}

func (d *drawing) connection(c *connection, views int) {
	first := c.rungs[0].row()
	left, right := end(c.there.src, first.native), end(c.there.dst, first.native)
	leftQP, rightQP := "QP unknown", fmt.Sprintf("QP 0x%06x", c.there.qpn)
	if c.back != (direction{}) {
		leftQP = fmt.Sprintf("QP 0x%06x", c.back.qpn)
	}
	ends := max(utf8.RuneCountInString(left), utf8.RuneCountInString(right))
	d.line("%*s%-*s%s%*s", gutter, "", ends, left, centre(first.transport.String(), width-gutter-2*ends), ends, right)
	d.line("%*s%*s%s%*s", 9, "packet", gutter-9, "seconds  ", leftQP, width-gutter-len(leftQP), rightQP)
	shown := d.shown(c)
	at := c.left()
	for i := 0; i < len(c.rungs); i++ {
		if shown[i] {
			d.rung(c, i, at, views)
			continue
		}
		n, bytes := 0, 0
		for ; i < len(c.rungs) && !shown[i]; i++ {
			n++
			bytes += c.rungs[i].row().payload
		}
		i--
		d.line("%*s:%s:", gutter, "", centre(fmt.Sprintf("%d packets with %d bytes of payload", n, bytes), inner))
	}
	d.line("")
}

// shown says which packets of a connection are drawn.
func (d *drawing) shown(c *connection) []bool {
	shown := make([]bool, len(c.rungs))
	for i := range c.rungs {
		r := c.rungs[i].row()
		if near := d.o.All || !c.remarks || i < context || i >= len(c.rungs)-context; near {
			shown[i] = true
		}
		if r.remark || r.accused {
			for j := max(0, i-context); j <= min(len(c.rungs)-1, i+context); j++ {
				shown[j] = true
			}
		}
	}
	if !d.o.All {
		for i := 1; i+1 < len(shown); i++ { // a gap of one packet is no shorter than the packet
			shown[i] = shown[i] || shown[i-1] && shown[i+1]
		}
	}
	return shown
}

// rung draws a packet and what is to be said about it.
func (d *drawing) rung(c *connection, i, left, views int) {
	x := &c.rungs[i]
	r := x.row()
	there := r.direction == c.there
	sender := left // the capture at the packet's sender
	if !there {
		sender = 1 - left
	}
	sent, received := true, true
	if views == 2 {
		sent, received = x.seen[sender] != nil, x.seen[1-sender] != nil
	}
	mark := " "
	if r.accused {
		mark = "*"
	}
	d.line("%s%8s %12.6f  |%s|", mark, x.numbers(views), x.at.Sub(c.rungs[0].at).Seconds(), arrow(r.label, there, sent, received))
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
				n = fmt.Sprintf("capture %d: %s", v+1, n)
			}
			d.note(n)
		}
	}
	switch {
	case !received:
		d.note("not in the receiver's capture: lost on the way")
	case !sent:
		d.note("not in the sender's capture")
	case r.accused && r.level < capture.Fault:
		d.note("this packet is refused")
	}
}

// numbers returns the packet's numbers in the captures.
func (r *rung) numbers(views int) string {
	if views == 1 {
		return fmt.Sprint(r.row().number)
	}
	var s [2]string
	for v, seen := range r.seen {
		if s[v] = "-"; seen != nil {
			s[v] = fmt.Sprint(seen.number)
		}
	}
	return s[0] + "/" + s[1]
}

// note prints a remark below a packet.
func (d *drawing) note(text string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > inner-3 {
			d.line("%*s|  %s", gutter, "", line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	d.line("%*s|  %s", gutter, "", line)
}

// arrow draws a packet from its sender to its receiver. The label is at the sender's end.
func arrow(label string, there, sent, received bool) string {
	const ends = 8 // what an arrow has beside its label
	if utf8.RuneCountInString(label) > inner-ends {
		label = string([]rune(label)[:inner-ends-1]) + "…"
	}
	from, head, shaft := "-", ">", strings.Repeat("-", inner-ends-utf8.RuneCountInString(label)+2)
	if !sent {
		from = "?"
	}
	if !received {
		n := len(shaft) / 2
		head, shaft = " ", shaft[:n]+"x"+strings.Repeat(" ", len(shaft)-n-1)
	}
	if there {
		return from + "-- " + label + " " + shaft + head
	}
	return strings.ReplaceAll(head, ">", "<") + reversed(shaft) + " " + label + " --" + from
}

// reversed returns a shaft as the other direction has it.
func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

func centre(s string, n int) string {
	before := max(0, n-utf8.RuneCountInString(s)) / 2
	return strings.Repeat(" ", before) + s + strings.Repeat(" ", max(0, n-before-utf8.RuneCountInString(s)))
}
