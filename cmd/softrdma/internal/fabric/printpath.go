package fabric

import (
	"fmt"
	"io"
	"strings"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/fabric/control"
)

// printPath prints a path through an Ethernet.
func printPath(out io.Writer, t *control.Trace) {
	to := t.ToIP
	if t.To != "" {
		to = t.To + " (" + to + ")"
	}
	fmt.Fprintf(out, "from %s (%s) to %s with priority %d, from UDP port %d: flow hash %#016x\n", t.From, t.FromIP, to, t.SL, t.SourcePort, t.Hash)
	hops := cli.NewTable()
	hops.Indent = "  "
	for i := range t.Hops {
		hops.Row(i, t.Hops[i].Node, pathText(&t.Hops[i], t.Broken == nil))
	}
	_ = hops.Print(out)
	printBreak(out, t.Broken)
}

// pathText says by which ports a frame passes a node, and why by these.
func pathText(h *control.Hop, arrives bool) string {
	var b strings.Builder
	if h.In != 0 {
		fmt.Fprintf(&b, "in by port %d, ", h.In)
	}
	switch {
	case h.Out == 0 && arrives:
		return fmt.Sprintf("arrives at port %d", h.In)
	case h.Out == 0:
		return strings.TrimSuffix(b.String(), ", ")
	}
	fmt.Fprintf(&b, "out by port %d on priority %d to %s", h.Out, h.VL, h.To)
	switch h.By {
	case "hash":
		fmt.Fprintf(&b, "; the hash chooses it among %s", join(h.Among))
	case "chance":
		fmt.Fprintf(&b, "; or by another one of %s, as it comes", join(h.Among))
	}
	if h.Paused > 0 {
		fmt.Fprintf(&b, "; PAUSED for %s", waitText(h.Paused))
	}
	if h.Held > 0 {
		fmt.Fprintf(&b, "; HELD for %s, as the other end of the trunk takes no more", waitText(h.Held))
	}
	return b.String()
}

// printPrefixes prints the routes of a switch of Ethernet.
func printPrefixes(out io.Writer, r *control.Routes) {
	fmt.Fprintf(out, "%s: %s\n", r.Switch, plural(len(r.Prefixes), "route", "routes"))
	t := cli.NewTable("PREFIX", "OF", "PORTS", "TO")
	t.Indent = "  "
	for i := range r.Prefixes {
		p := &r.Prefixes[i]
		ports := join(p.Ports)
		if len(p.Ports) == 0 {
			ports = "none"
		}
		if len(p.Down) > 0 {
			ports += " (down: " + join(p.Down) + ")"
		}
		t.Row(p.Prefix, p.Node, ports, strings.Join(p.To, ", "))
	}
	_ = t.Print(out)
	fmt.Fprintln(out, "Among several ports the hash of each flow chooses: see softrdma fabric trace.")
}
