package drawing

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"softrdma/internal/fabric/control"
)

// A place is a port of a node.
type place struct {
	node string
	port int
}

// standing is the ports at which a lane stands still: without credit, or paused.
type standing map[place]bool

func newStanding(p *Picture) standing {
	s := make(standing)
	for i := range p.Still {
		s[place{p.Still[i].Node, p.Still[i].Port}] = true
	}
	return s
}

// half reports whether a lane stands still that an end of a line sends, or any of the links for which
// the line stands.
func (s standing) half(e *edge, k int) bool {
	at := func(l *control.LinkEnd) bool { return s[place{l.Node, l.Port}] }
	return at(&e.link.Ends[k]) || slices.ContainsFunc(e.all, func(l *control.Link) bool { return at(&l.Ends[0]) || at(&l.Ends[1]) })
}

// maxStanding is how many lanes that stand still are listed.
const maxStanding = 8

// waits says in words which lanes stand still, and for what each waits. Those in a deadlock come first.
func (p *Picture) waits() (lines []string) {
	lanes := slices.Clone(p.Still)
	slices.SortStableFunc(lanes, func(a, b control.Lane) int { return rank(a.Cause) - rank(b.Cause) })
	for i := range lanes {
		if i == maxStanding {
			return append(lines, fmt.Sprintf("… and %d more that stand still", len(lanes)-i))
		}
		lines = append(lines, p.wait(&lanes[i]))
	}
	return lines
}

func rank(cause string) int {
	return slices.Index([]string{control.CauseDeadlock, control.CauseProgram, control.CauseCredits, control.CauseTraffic}, cause)
}

func (p *Picture) wait(l *control.Lane) string {
	text := fmt.Sprintf("%s → %s: no credit", p.channel(&l.Channel), l.To)
	if p.Network == control.Ethernet {
		text = fmt.Sprintf("%s → %s: paused", p.channel(&l.Channel), l.To)
	}
	text += fmt.Sprintf(" for %v, %d wait; ", l.Time.Round(10*time.Microsecond), l.Packets)
	if len(l.Waits) == 0 {
		switch l.Cause {
		case control.CauseProgram:
			return text + "the host takes nothing"
		case control.CauseCredits:
			return text + "what would end it was lost"
		}
		return text + "other traffic moves"
	}
	var parts []string
	for i := range l.Waits {
		parts = append(parts, p.channel(&l.Waits[i]))
	}
	text += "waits for " + strings.Join(parts, ", ")
	if l.Cause == control.CauseDeadlock {
		text += " (deadlock)"
	}
	return text
}

func (p *Picture) channel(c *control.Channel) string {
	word := "lane"
	if p.Network == control.Ethernet {
		word = "priority"
	}
	return fmt.Sprintf("%s:%d %s %d", c.Node, c.Port, word, c.VL)
}
