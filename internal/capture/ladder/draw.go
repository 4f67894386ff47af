package ladder

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	width  = 110
	gutter = 24 // number and time
	inner  = width - gutter - 2
)

// Draw draws a figure of the connections as text.
func (l *Ladder) Draw(w io.Writer, o Options) error {
	f := l.Figure(o)
	d := &drawing{w: w}
	if len(f.Connections) == 0 && f.Others >= 0 && o.QPN != 0 {
		d.line("No connection of queue pair 0x%06x. The capture has %d others.", o.QPN, f.Others)
	}
	if f.Dropped > 0 {
		d.line("The first %d packets are not shown: a ladder keeps the last %d.\n", f.Dropped, l.limit)
	}
	for i := range f.Connections {
		d.connection(&f.Connections[i])
	}
	if f.More > 0 {
		d.line("%d more connections are not drawn. --qp draws one.", f.More)
	}
	if f.Others > 0 && o.QPN == 0 {
		d.line("%d connections without a warning, a fault or a comment are not drawn. --all draws them.", f.Others)
	}
	return d.err
}

// A drawing writes lines until one fails.
type drawing struct {
	w   io.Writer
	err error
}

func (d *drawing) line(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.w, format+"\n", args...)
	}
}

func (d *drawing) connection(c *Connection) {
	left, right := c.Left.Address, c.Right.Address
	ends := max(utf8.RuneCountInString(left), utf8.RuneCountInString(right))
	d.line("%*s%-*s%s%*s", gutter, "", ends, left, centre(c.Transport, width-gutter-2*ends), ends, right)
	leftQP := c.Left.qp()
	d.line("%*s%*s%s%*s", 9, "packet", gutter-9, "seconds  ", leftQP, width-gutter-len(leftQP), c.Right.qp())
	for i := 0; i < len(c.Rungs); i++ {
		if !c.Rungs[i].Far {
			d.rung(&c.Rungs[i])
			continue
		}
		n, bytes := 0, 0
		for ; i < len(c.Rungs) && c.Rungs[i].Far; i++ {
			n += c.Rungs[i].Packets
			bytes += c.Rungs[i].Payload
		}
		i--
		d.line("%*s:%s:", gutter, "", centre(fmt.Sprintf("%d packets with %d bytes of payload", n, bytes), inner))
	}
	d.line("")
}

// rung draws a packet and what is to be said about it.
func (d *drawing) rung(r *Rung) {
	mark := " "
	if r.Fault {
		mark = "*"
	}
	d.line("%s%8s %12.6f  |%s|", mark, r.numbers(), r.Seconds, arrow(r.Label, r.There, r.Sent, r.Received))
	for _, n := range r.Notes {
		d.note(n)
	}
}

// numbers returns the packet's numbers in the captures.
func (r *Rung) numbers() string {
	var all []string
	for _, n := range r.Numbers {
		if n == 0 {
			all = append(all, "-")
		} else {
			all = append(all, fmt.Sprint(n))
		}
	}
	return strings.Join(all, "/")
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
