package fabric

import (
	"fmt"
	"io"
	"strings"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/fabric/control"
)

// levelWord is what the network calls the levels of packets.
func levelWord(r *control.Reply) string {
	if r.Network == control.Ethernet {
		return "priority"
	}
	return "level"
}

// words are what a deadlock's text calls things on a network.
type words struct {
	lane, tables, packets string
	causes                map[string]string
}

var onInfiniBand = words{"lane", "forwarding tables allow", "packets", map[string]string{
	control.CauseDeadlock: "lanes in the deadlock",
	control.CauseProgram:  "a program that takes no packets",
	control.CauseCredits:  "credits that were lost",
	control.CauseTraffic:  "other traffic, which moves",
}}

var onEthernet = words{"priority", "routes and pauses allow", "frames", map[string]string{
	control.CauseDeadlock: "pauses in the deadlock",
	control.CauseProgram:  "a host that takes no packets",
	control.CauseCredits:  "the end of a pause that was lost",
	control.CauseTraffic:  "other traffic, which moves",
}}

func (w *words) channel(c *control.Channel) string {
	return fmt.Sprintf("%s:%d %s %d", c.Node, c.Port, w.lane, c.VL)
}

// circle is a cycle in one line for each channel.
func (w *words) circle(out io.Writer, cycle []control.Channel) {
	for i := range cycle {
		fmt.Fprintf(out, "  %s waits for %s\n", w.channel(&cycle[i]), w.channel(&cycle[(i+1)%len(cycle)]))
	}
}

func printDeadlock(out io.Writer, r *control.Reply) {
	w, d := &onInfiniBand, r.Deadlock
	if r.Network == control.Ethernet {
		w = &onEthernet
	}
	w.possible(out, d)
	if len(d.Still) == 0 {
		fmt.Fprintf(out, "No %s stands still.\n", w.lane)
		return
	}
	if len(d.Deadlock) > 0 {
		fmt.Fprintf(out, "DEADLOCK: %s wait for each other now, and move no packet again:\n", plural(len(d.Deadlock), w.lane, w.many()))
		w.circle(out, d.Deadlock)
	}
	fmt.Fprintf(out, "%s still:\n", plural(len(d.Still), w.lane+" stands", w.many()+" stand"))
	t := cli.NewTable(strings.ToUpper(w.lane), "TO", "FOR", strings.ToUpper(w.packets), "WAITS FOR")
	t.Indent = "  "
	for i := range d.Still {
		l := &d.Still[i]
		t.Row(w.channel(&l.Channel), l.To, waitText(l.Time), l.Packets, w.causes[l.Cause]+w.next(l))
	}
	_ = t.Print(out)
}

// possible says whether there can be a deadlock.
func (w *words) possible(out io.Writer, d *control.Deadlock) {
	assumed := ""
	if d.Assumed {
		assumed = ", if packets have the assumed service level (--sl)"
	}
	if len(d.From) > 0 {
		assumed = fmt.Sprintf(" of frames that hosts send with priority %s", join(d.From))
	}
	if len(d.Cycle) == 0 {
		fmt.Fprintf(out, "The %s no deadlock%s.\n", w.tables, assumed)
		return
	}
	fmt.Fprintf(out, "The %s a deadlock%s. %s can fill these buffers so that\n", w.tables, assumed, strings.ToUpper(w.packets[:1])+w.packets[1:])
	w.circle(out, d.Cycle)
	if d.Cycles > 1 {
		fmt.Fprintf(out, "This is one of %d circles.\n", d.Cycles)
	}
	for _, text := range d.Avoid {
		fmt.Fprintf(out, "Avoided by %s\n", text)
	}
}

func (w *words) many() string {
	if w.lane == "priority" {
		return "priorities"
	}
	return w.lane + "s"
}

// next lists up to two channels that a lane waits for.
func (w *words) next(l *control.Lane) string {
	const shown = 2
	var parts []string
	for i := range l.Waits[:min(shown, len(l.Waits))] {
		parts = append(parts, w.channel(&l.Waits[i]))
	}
	if n := len(l.Waits) - shown; n > 0 {
		parts = append(parts, fmt.Sprintf("%d more", n))
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}
