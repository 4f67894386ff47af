package fabric

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/fabric/control"
)

// manyNodes is from how many on nodes are listed with -v alone.
const manyNodes = 64

// plural returns a number with a noun.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// hostWord is what a network calls the nodes to which programs attach.
func hostWord(network string) string {
	if network == control.Ethernet {
		return "host"
	}
	return "adapter"
}

// summary is a fabric in one line.
func summary(name string, s *control.Status) string {
	links := 0
	for _, n := range s.Links {
		links += n
	}
	host := hostWord(s.Network)
	return fmt.Sprintf("fabric %s: %s, %s, %s (%s)", name, plural(s.Switches, "switch", "switches"), cli.Plural(s.Adapters, host),
		cli.Plural(links, "link"), linkStates(s))
}

// linkStates counts links by state.
func linkStates(s *control.Status) string {
	var parts []string
	for _, state := range []string{control.LinkActive, control.LinkArmed, control.LinkInit, control.LinkDown, control.LinkCut} {
		if n := s.Links[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// managerText describes who manages a fabric.
func managerText(m *control.Manager) string {
	var b strings.Builder
	switch {
	case m.LID == 0:
		b.WriteString("none has set up the ports")
	case m.Node != "":
		fmt.Fprintf(&b, "at %s, LID %d", m.Node, m.LID)
	default:
		fmt.Fprintf(&b, "at LID %d, which no node has now", m.LID)
	}
	if own := m.Own; own != nil {
		fmt.Fprintf(&b, "; the fabric's own is %s, %s", own.State, cli.Plural(own.Sweeps, "sweep"))
		if own.Sweeps > 0 {
			fmt.Fprintf(&b, ", routing %s", own.Routing)
		}
		if own.Failures > 0 {
			fmt.Fprintf(&b, ", %s without an answer", cli.Plural(own.Failures, "request"))
		}
		if own.Note != "" {
			fmt.Fprintf(&b, " (%s)", own.Note)
		}
	} else {
		b.WriteString("; the fabric has none of its own")
	}
	return b.String()
}

func printStatus(out io.Writer, name string, r *control.Reply, verbose bool) {
	s := r.Status
	fmt.Fprintln(out, summary(name, s))
	fmt.Fprintf(out, "up       %v\n", r.Now.Round(time.Second))
	onEthernet := s.Network == control.Ethernet
	if !onEthernet {
		fmt.Fprintf(out, "manager  %s\n", managerText(&s.Manager))
		fmt.Fprintf(out, "LIDs     %d assigned, the highest is %d\n", s.LIDs, s.TopLID)
	}
	if len(s.Nodes) > manyNodes && !verbose {
		fmt.Fprintln(out, "\nsoftrdma fabric status -v lists the nodes.")
		return
	}
	fmt.Fprintln(out)
	if onEthernet {
		printHosts(out, s)
		return
	}
	t := cli.NewTable("NODE", "KIND", "LID", "PORTS", "CABLES", "ACTIVE", "GUID")
	for i := range s.Nodes {
		n := &s.Nodes[i]
		t.Row(n.Name, n.Kind, lidText(n.LIDs), n.Ports, n.Cables, n.Active, fmt.Sprintf("0x%016x", n.GUID))
	}
	_ = t.Print(out)
}

// lidText lists LIDs, - for those that were not assigned.
func lidText(lids []uint16) string {
	var parts []string
	for _, l := range lids {
		if l == 0 {
			parts = append(parts, "-")
			continue
		}
		parts = append(parts, fmt.Sprint(l))
	}
	return strings.Join(parts, ",")
}

// printLinks prints a table that fits 80 columns as long as nothing is wrong: what links have
// counted is in its last column.
func printLinks(out io.Writer, r *control.Reply) {
	header := []any{"LINK", "", "LIDS", "STATE", "SPEED", "LOAD", "", "TROUBLE"}
	onEthernet := r.Network == control.Ethernet
	if onEthernet {
		header = slices.Delete(header, 2, 3)
	}
	t := cli.NewTable(header...)
	for i := range r.Links {
		l := &r.Links[i]
		a, b := &l.Ends[0], &l.Ends[1]
		speed := "-"
		if l.Speed != "" {
			speed = strings.TrimSpace(l.Width + " " + l.Speed)
		}
		state := l.State
		if l.Faults != nil {
			state += ", faults"
		}
		row := []any{a.Name, b.Name, lidText([]uint16{a.LID}) + "-" + lidText([]uint16{b.LID}), state, speed, "→" + loadText(a.Load), "←" + loadText(b.Load), troubleText(a, b)}
		if onEthernet {
			row = slices.Delete(row, 2, 3)
		}
		t.Row(row...)
	}
	_ = t.Print(out)
}

// troubleText lists what the ends of a link have counted that is not zero.
func troubleText(a, b *control.LinkEnd) string {
	var parts []string
	if d := a.Wait + b.Wait; d > 0 {
		parts = append(parts, "waited "+waitText(d))
	}
	for _, c := range []struct {
		n         uint64
		one, many string
	}{{a.Errors + b.Errors, "error", "errors"}, {a.Discards + b.Discards, "discard", "discards"}, {max(a.Downed, b.Downed), "down", "downs"}} {
		if c.n > 0 {
			parts = append(parts, plural(int(c.n), c.one, c.many))
		}
	}
	for _, m := range slices.Concat(a.Mismatches, b.Mismatches) {
		name, _, _ := strings.Cut(m, ":")
		parts = append(parts, name)
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}

func loadText(load float64) string {
	switch {
	case load == 0:
		return "0 %"
	case load < 0.001:
		return "< 0.1 %"
	}
	return fmt.Sprintf("%.1f %%", 100*load)
}

func waitText(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Millisecond:
		return d.Round(10 * time.Nanosecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

func printRoutes(out io.Writer, r *control.Routes) {
	if r.Prefixes != nil {
		printPrefixes(out, r)
		return
	}
	fmt.Fprintf(out, "%s, LID %s: its linear forwarding table ends at LID %d\n", r.Switch, lidText([]uint16{r.LID}), r.Top)
	if len(r.Ports) == 0 {
		fmt.Fprintln(out, "and is empty: no subnet manager has written it")
	}
	for _, p := range r.Ports {
		where := "to itself"
		if p.Port != 0 {
			where = fmt.Sprintf("by port %d to %s", p.Port, p.To)
		}
		fmt.Fprintf(out, "  %s: %s\n", where, routeLIDs(p.LIDs))
	}
	for _, g := range r.Groups {
		fmt.Fprintf(out, "  multicast group %#x by %s %s\n", g.LID, strings.TrimPrefix(cli.Plural(len(g.Ports), "port"), fmt.Sprintf("%d ", len(g.Ports))), join(g.Ports))
	}
	if len(r.Groups) == 0 {
		fmt.Fprintln(out, "  no multicast group")
	}
}

func join(numbers []int) string {
	var parts []string
	for _, n := range numbers {
		parts = append(parts, fmt.Sprint(n))
	}
	return strings.Join(parts, ", ")
}

// routeLIDs lists LIDs with their nodes. Those of one node are together.
func routeLIDs(lids []control.RouteLID) string {
	var parts []string
	for i := 0; i < len(lids); {
		k := i
		for k+1 < len(lids) && lids[k+1].Node == lids[i].Node && lids[k+1].LID == lids[k].LID+1 {
			k++
		}
		text := fmt.Sprint(lids[i].LID)
		if k > i {
			text += fmt.Sprintf("-%d", lids[k].LID)
		}
		if lids[i].Node != "" {
			text = lids[i].Node + " (" + text + ")"
		}
		parts = append(parts, text)
		i = k + 1
	}
	return strings.Join(parts, ", ")
}

func printTrace(out io.Writer, t *control.Trace) {
	if t.FromIP != "" {
		printPath(out, t)
		return
	}
	fmt.Fprintf(out, "from %s (LID %d) to %s (LID %d) with service level %d", t.From, t.SLID, t.To, t.DLID, t.SL)
	if t.Assumed {
		fmt.Fprint(out, ", assumed: its manager is not the fabric's own")
	}
	fmt.Fprintln(out)
	hops := cli.NewTable()
	hops.Indent = "  "
	for i, h := range t.Hops {
		hops.Row(i, h.Node, "LID "+lidText([]uint16{h.LID}), hopText(&h, t.Broken == nil))
	}
	_ = hops.Print(out)
	if t.Trunk != "" {
		fmt.Fprintf(out, "leaves by the trunk to %s\n", t.Trunk)
	}
	printBreak(out, t.Broken)
}

// printBreak says where a packet is lost, if it is.
func printBreak(out io.Writer, b *control.Break) {
	if b == nil {
		return
	}
	fmt.Fprintf(out, "lost at %s: %s", b.Node, b.Text)
	if b.Reason != "" {
		fmt.Fprintf(out, " (%s)", b.Reason)
	}
	fmt.Fprintln(out)
}

// hopText says by which ports a packet passes a node, where it arrives if nothing is broken.
func hopText(h *control.Hop, arrives bool) string {
	switch {
	case h.Out == 0 && arrives:
		return fmt.Sprintf("arrives at port %d", h.In)
	case h.Out == 0:
		return fmt.Sprintf("in by port %d", h.In)
	case h.In == 0:
		return fmt.Sprintf("out by port %d on lane %d to %s", h.Out, h.VL, h.To)
	}
	return fmt.Sprintf("in by port %d, out by port %d on lane %d to %s", h.In, h.Out, h.VL, h.To)
}

func printCounters(out io.Writer, list []control.Counters) {
	for i := range list {
		c := &list[i]
		fmt.Fprintf(out, "%s:%d\n", c.Node, c.Port)
		t := cli.NewTable()
		t.Indent = "  "
		for _, v := range c.Values {
			t.Row(v.Name, v.Value)
		}
		_ = t.Print(out)
	}
}

// printChanged prints the state of links that were changed.
func printChanged(out io.Writer, links []control.Link) {
	for i := range links {
		l := &links[i]
		state := l.State
		if state == control.LinkDown {
			state = "back, and trains"
		}
		fmt.Fprintf(out, "%s - %s: %s\n", l.Ends[0].Name, l.Ends[1].Name, state)
	}
}

func printFaults(out io.Writer, r *control.Reply) {
	if len(r.Links) == 0 {
		fmt.Fprintln(out, "no cable has faults")
	}
	for i := range r.Links {
		l := &r.Links[i]
		text := "no faults"
		if f := l.Faults; f != nil {
			text = f.String()
		}
		fmt.Fprintf(out, "%s - %s: %s\n", l.Ends[0].Name, l.Ends[1].Name, text)
	}
}

func printLoads(out io.Writer, r *control.Reply) {
	if len(r.Loads) == 0 {
		fmt.Fprintln(out, "no load")
		return
	}
	t := cli.NewTable("FROM", "TO", strings.ToUpper(levelWord(r)), "BYTES", "PACKETS", "SENT", "ARRIVED")
	for i := range r.Loads {
		l := &r.Loads[i]
		to := l.To
		if to == "" {
			to = fmt.Sprintf("LID %d", l.DLID)
		}
		t.Row(l.From, to, l.SL, l.Size, l.Packets, l.Sent, l.Arrived)
	}
	_ = t.Print(out)
}

func printStalled(out io.Writer, r *control.Reply) {
	if len(r.Stalled) == 0 {
		fmt.Fprintf(out, "all %ss take packets\n", hostWord(r.Network))
	}
	word := "service " + levelWord(r)
	if r.Network == control.Ethernet {
		word = levelWord(r)
	}
	for _, s := range r.Stalled {
		fmt.Fprintf(out, "%s takes no packets of %s %s\n", s.Node, word, join(s.Levels))
	}
}
