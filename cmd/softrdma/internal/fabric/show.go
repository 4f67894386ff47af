package fabric

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/fabric/control"
	"softrdma/internal/fabric/drawing"
)

// show runs a command that asks one question: it prints part of the reply in JSON, or all of
// it as text.
func (a *asker) show(cmd *cobra.Command, r control.Request, part func(*control.Reply) any, text func(io.Writer, *control.Reply)) error {
	reply, err := a.ask(cmd.Context(), r)
	if err != nil {
		return err
	}
	if a.json {
		return cli.WriteJSON(cmd.OutOrStdout(), part(reply))
	}
	text(cmd.OutOrStdout(), reply)
	return nil
}

func newStatus() *cobra.Command {
	var a asker
	verbose := false
	cmd := &cobra.Command{
		Use: "status", Short: "Show the nodes, links, LIDs and the subnet manager",
		Long: `Shows what a fabric consists of: its nodes with their LIDs, the states of its links,
and who manages it. The nodes of a large fabric are listed with -v.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.show(cmd, control.Request{Verb: control.VerbStatus}, func(r *control.Reply) any { return r.Status },
				func(w io.Writer, r *control.Reply) { printStatus(w, a.name, r, verbose) })
		},
	}
	a.flags(cmd)
	a.jsonFlag(cmd)
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "list all nodes")
	return cmd
}

// interval adds -i, the time over which load is measured.
func interval(cmd *cobra.Command, d *time.Duration) {
	cmd.Flags().DurationVarP(d, "interval", "i", time.Second/2, "measure the load for this `DURATION`; 0 leaves it out")
}

// askLinks asks for links, twice if their load is to be measured.
func (a *asker) askLinks(cmd *cobra.Command, nodes []string, d time.Duration) (*control.Reply, error) {
	if d < 0 {
		return nil, cli.UsageErrorf("--interval: expected a duration from 0, found %v", d)
	}
	r := control.Request{Verb: control.VerbLinks, Args: nodes}
	before, err := a.ask(cmd.Context(), r)
	if err != nil || d == 0 {
		return before, err
	}
	select {
	case <-time.After(d):
	case <-cmd.Context().Done():
		return nil, cmd.Context().Err()
	}
	after, err := a.ask(cmd.Context(), r)
	if err != nil {
		return nil, err
	}
	control.Loads(before, after)
	return after, nil
}

func newLinks() *cobra.Command {
	var a asker
	var d time.Duration
	cmd := &cobra.Command{
		Use: "links [NODE...]", Short: "Show each cable: ends, LIDs, speed, state, load and errors",
		Long: `Shows each cable, or those of some nodes: both ends with their LIDs, width and speed,
the state, the load that each end sends, and counters. A link is "init" until a subnet
manager has set it up, "down" if its ends do not answer each other, and "cut" if
"softrdma fabric link down" or "fail" took the cable away.`,
		Example: "  softrdma fabric links\n  softrdma fabric links leaf-0-0 -i 5s",
		RunE: func(cmd *cobra.Command, args []string) error {
			reply, err := a.askLinks(cmd, args, d)
			if err != nil {
				return err
			}
			if a.json {
				return cli.WriteJSON(cmd.OutOrStdout(), append([]control.Link{}, reply.Links...))
			}
			printLinks(cmd.OutOrStdout(), reply)
			return nil
		},
	}
	a.flags(cmd)
	a.jsonFlag(cmd)
	interval(cmd, &d)
	cmd.ValidArgsFunction = a.completeNodes("", cli.AnyNumber)
	return cmd
}

func newRoutes() *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use: "routes SWITCH", Short: "Show the forwarding tables of a switch, in words",
		Long: `Shows by which port a switch sends packets to which LIDs and nodes, as its linear
forwarding table says now, and the ports of each multicast group. On Ethernet, shows the
prefixes of IP addresses with the ports among which the switch chooses.`,
		Example: "  softrdma fabric routes leaf-0-0", Args: cli.Args(1, 1, "a SWITCH"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd, control.Request{Verb: control.VerbRoutes, Args: args}, func(r *control.Reply) any { return r.Routes },
				func(w io.Writer, r *control.Reply) { printRoutes(w, r.Routes) })
		},
	}
	a.flags(cmd)
	a.jsonFlag(cmd)
	cmd.ValidArgsFunction = a.completeNodes("switch", 1)
	return cmd
}

// levelFlag adds --sl.
func levelFlag(cmd *cobra.Command, sl *int) {
	cmd.Flags().IntVar(sl, "sl", -1, "service `LEVEL` of the packets, 0 to 15 (default: that of the fabric's subnet manager, else 0); on Ethernet the priority, 0 to 7")
}

// level is the value of --sl.
func level(cmd *cobra.Command, sl int) (*uint8, error) {
	if !cmd.Flag("sl").Changed {
		return nil, nil
	}
	if sl < 0 || sl > 15 {
		return nil, cli.UsageErrorf("--sl: expected 0 to 15, found %d", sl)
	}
	v := uint8(sl)
	return &v, nil
}

func newTrace() *cobra.Command {
	var a asker
	sl, source := 0, uint16(0)
	cmd := &cobra.Command{
		Use: "trace FROM TO", Short: "Follow a packet hop by hop, and see where it is lost",
		Long: `Follows a packet from one node to another, or to a LID, by the tables and states of
this moment: which port of which switch, on which virtual lane. If the packet would be
lost, it says where and why, and the exit code is 1.

On Ethernet the packet is one of RoCE v2 to a host or an IP address. Of several uplinks a
switch chooses one by a hash of the addresses and ports; --source-port is the one of
UDP by which RoCE v2 tells its flows apart. Pauses on the path are named, and so is a trunk
that takes no more.`,
		Example: "  softrdma fabric trace node-0 node-15\n  softrdma fabric trace node-0 17 --sl 1\n  softrdma fabric trace node-0 node-15 --source-port 50000", Args: cli.Args(2, 2, "the nodes FROM and TO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := level(cmd, sl)
			if err != nil {
				return err
			}
			var lost *control.Break
			err = a.show(cmd, control.Request{Verb: control.VerbTrace, Args: args, SL: v, SourcePort: source},
				func(r *control.Reply) any { lost = r.Trace.Broken; return r.Trace },
				func(w io.Writer, r *control.Reply) { lost = r.Trace.Broken; printTrace(w, r.Trace) })
			if err == nil && lost != nil {
				return fmt.Errorf("the packet is lost at %s: %s", lost.Node, lost.Text)
			}
			return err
		},
	}
	a.flags(cmd)
	a.jsonFlag(cmd)
	levelFlag(cmd, &sl)
	cmd.Flags().Uint16Var(&source, "source-port", 0, "on Ethernet: `PORT` of UDP from which the packet comes (default 49152)")
	cmd.ValidArgsFunction = a.completeNodes("", 2)
	return cmd
}

func newCounters() *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use: "counters [PORT|NODE...]", Short: "Show what ports have counted",
		Long: `Shows the counters of all ports, or of some, that are not zero. They count from the
start of the fabric: perfquery reads the same counters, and clearing them there does not
clear them here. PortXmitData and PortRcvData are in words of four bytes, PortXmitWait in
ticks of 4 ns. On Ethernet they are those of each priority: frames, pauses, marks, drops, and
what waits now, and for how long a trunk took no more.`,
		Example: "  softrdma fabric counters node-0\n  softrdma fabric counters leaf-0-0:1 leaf-0-0:2",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd, control.Request{Verb: control.VerbCounters, Args: args}, func(r *control.Reply) any { return append([]control.Counters{}, r.Counters...) },
				func(w io.Writer, r *control.Reply) { printCounters(w, r.Counters) })
		},
	}
	a.flags(cmd)
	a.jsonFlag(cmd)
	cmd.ValidArgsFunction = a.completeNodes("", cli.AnyNumber)
	return cmd
}

func newDeadlock() *cobra.Command {
	var a asker
	var still time.Duration
	sl := 0
	cmd := &cobra.Command{
		Use: "deadlock", Short: "Find lanes that can wait for each other in a circle, or do",
		Long: `Looks for deadlocks in two ways. First, whether the present forwarding tables allow
one: a cycle in the graph of channels (a virtual lane of a link), in which a packet that
holds the buffer behind one channel waits for the next. Second, which lanes stand still
now, and for what they wait: for a circle of lanes that wait for each other, for a program
that takes no packets, or for credits that were lost.

On Ethernet the channels are lossless priorities of links, which pauses stop, and the command
says what would leave no circle: routes that go up and then down, or a higher priority with
each switch.`,
		Example: "  softrdma fabric deadlock\n  softrdma fabric deadlock --still 100ms --json", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := level(cmd, sl)
			if err != nil {
				return err
			}
			return a.show(cmd, control.Request{Verb: control.VerbDeadlock, SL: v, Still: still}, func(r *control.Reply) any { return r.Deadlock },
				printDeadlock)
		},
	}
	a.flags(cmd)
	a.jsonFlag(cmd)
	levelFlag(cmd, &sl)
	cmd.Flags().DurationVar(&still, "still", time.Millisecond, "a lane stands still if its first packet has lacked credit for this `DURATION`")
	return cmd
}

// A drawer is the command that draws.
type drawer struct {
	asker
	interval time.Duration
	output   string
	watch    bool
	all      bool
}

func newDraw() *cobra.Command {
	var d drawer
	cmd := &cobra.Command{
		Use: "draw", Short: "Draw the fabric with load and errors, on the terminal or as SVG",
		Long: `Draws the fabric: trees in levels, tori and meshes as grids, groups as circles on a
circle, other shapes as a circle.
Each half of a link has the color of the load that the nearer end sends. Links that are
down, ports with errors, and lanes in a deadlock are marked. A fabric with more nodes than
the space can show is drawn by groups, unless --all says otherwise: a node stands for the
switches of a pod, of a dragonfly's group or of a plane of a torus, another one for their
adapters, and a line for all links between two groups, with the load of the busiest one.

With -o the drawing is an SVG file, in which each link and node has a tooltip.`,
		Example: "  softrdma fabric draw\n  softrdma fabric draw --watch\n  softrdma fabric draw -o fabric.svg", Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd) },
	}
	d.flags(cmd)
	interval(cmd, &d.interval)
	cmd.Flags().StringVarP(&d.output, "output", "o", "", "write SVG to `FILE`, - for standard output")
	cmd.Flags().BoolVarP(&d.all, "all", "a", false, "draw each node, however many there are")
	cmd.Flags().BoolVarP(&d.watch, "watch", "w", false, "draw again and again, until interrupted")
	return cmd
}

func (d *drawer) run(cmd *cobra.Command) error {
	if d.watch && d.interval == 0 {
		return cli.UsageErrorf("--watch: expected an --interval greater than 0")
	}
	for {
		p, err := d.picture(cmd)
		switch {
		case err != nil && cmd.Context().Err() != nil && d.watch:
			return cli.ErrSignalled
		case err != nil:
			return err
		}
		if err := d.write(cmd, p); err != nil || !d.watch {
			return err
		}
	}
}

// picture asks for all that is drawn.
func (d *drawer) picture(cmd *cobra.Command) (*drawing.Picture, error) {
	links, err := d.askLinks(cmd, nil, d.interval)
	if err != nil {
		return nil, err
	}
	status, err := d.ask(cmd.Context(), control.Request{Verb: control.VerbStatus})
	if err != nil {
		return nil, err
	}
	deadlock, err := d.ask(cmd.Context(), control.Request{Verb: control.VerbDeadlock})
	if err != nil {
		return nil, err
	}
	return &drawing.Picture{Title: summary(d.name, status.Status), Nodes: status.Status.Nodes, Links: links.Links, Deadlock: deadlock.Deadlock.Deadlock, Still: deadlock.Deadlock.Still, Network: status.Status.Network, All: d.all}, nil
}
