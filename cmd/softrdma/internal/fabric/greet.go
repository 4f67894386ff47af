package fabric

import (
	"fmt"
	"io"
	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/fabric/live"
	"softrdma/internal/topology"
	"strings"
)

// greet says what was built and how to use it.
func (b *builder) greet(out io.Writer, c *live.Config, from string) {
	switches, adapters, cables := 0, 0, 0
	var ports []topology.End // of adapters, with a cable
	for i := range c.Fabric.Nodes {
		n := &c.Fabric.Nodes[i]
		if n.Kind == topology.Switch {
			switches++
		} else {
			adapters++
		}
		for p := range n.Ports {
			if !n.Ports[p].Connected() {
				continue
			}
			cables++
			if n.Kind != topology.Switch {
				ports = append(ports, topology.End{Node: i, Port: p})
			}
		}
	}
	fmt.Fprintf(out, "fabric %s from %s: %s, %s, %s\n", b.name, from, plural(switches, "switch", "switches"), cli.Plural(adapters, "adapter"), cli.Plural(cables/2, "link"))
	pair := len(ports) > 1
	var names, addrs [2]string
	if pair {
		all := c.Fabric.Names()
		for i, e := range []topology.End{ports[0], ports[len(ports)-1]} {
			names[i] = c.Fabric.PortName(all[e.Node], e)
			if list := c.Addrs[e]; len(list) > 0 {
				addrs[i] = " (" + list[0].String() + ")"
			}
		}
		fmt.Fprintf(out, "adapters %s%s to %s%s\n", names[0], addrs[0], names[1], addrs[1])
	}
	fmt.Fprintf(out, `
Look at it from another terminal:
  softrdma fabric status
  softrdma fabric draw
`)
	if pair {
		fmt.Fprintf(out, "  softrdma fabric trace %s %s\n", quote(names[0]), quote(names[1]))
		fmt.Fprintf(out, `
Attach programs to its adapters, for example:
  softrdma exec -d %s -- ibv_rc_pingpong
  softrdma exec -d %s -- ibv_rc_pingpong 127.0.0.1
`, quote("ib:"+b.name+"/"+names[0]), quote("ib:"+b.name+"/"+names[1]))
	}
	fmt.Fprintln(out)
}

// mostWarnings is how many warnings about a file are printed.
const mostWarnings = 10

// printWarnings prints the warnings about a topology.
func printWarnings(out io.Writer, warnings []string) {
	for _, w := range warnings[:min(len(warnings), mostWarnings)] {
		fmt.Fprintf(out, "softrdma: warning: %s\n", w)
	}
	if n := len(warnings) - mostWarnings; n > 0 {
		fmt.Fprintf(out, "softrdma: warning: and %d more\n", n)
	}
}

// quote quotes a name for a shell if it needs that.
func quote(name string) string {
	if strings.ContainsAny(name, " \t'\"$&;|<>()*?[]#~`\\") {
		return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	}
	return name
}
