package fabric

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/fabric/control"
)

func newLoad() *cobra.Command {
	var a asker
	var l control.LoadRequest
	sl := 0
	cmd := &cobra.Command{
		Use: "load [FROM TO]", Short: "Send test traffic through the fabric, or show what arrived of it",
		Long: `Sends packets from an adapter to another one, or with --shift N from each adapter to the
one N further on. The fabric itself sends them and takes them, so no program is needed.
They go the way of other packets: by the forwarding tables, on virtual lanes, with credits.

Without --rate they leave as fast as the lane takes them, so that links fill. Without
arguments the command lists the loads, with the packets that were sent and that arrived.

On Ethernet they are UDP datagrams between hosts, on the priority of --sl. Each load has a
source port of its own, so that the switches spread loads among equal paths.`,
		Example: `  softrdma fabric load node-0 node-3 --rate 1000 --packets 60000
  softrdma fabric load --shift 2 --packets 2000
  softrdma fabric load
  softrdma fabric load --stop`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) == 2 {
				return nil
			}
			return cli.UsageErrorf("expected the nodes FROM and TO, or neither; found %d arguments", len(args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r := control.Request{Verb: control.VerbLoad, Args: args}
			if len(args) > 0 || cmd.Flag("shift").Changed || l.Stop {
				r.Load = &l
			}
			var err error
			if r.SL, err = level(cmd, sl); err != nil {
				return err
			}
			text := func(w io.Writer, reply *control.Reply) {
				printLoads(w, reply)
				if r.Load != nil && !l.Stop {
					fmt.Fprintln(w, "\nSending has begun. softrdma fabric load shows what has arrived.")
				}
			}
			return a.show(cmd, r, func(r *control.Reply) any { return append([]control.Load{}, r.Loads...) }, text)
		},
	}
	a.flags(cmd)
	a.jsonFlag(cmd)
	levelFlag(cmd, &sl)
	f := cmd.Flags()
	f.IntVar(&l.Shift, "shift", 0, "send from each adapter to the one `N` further on")
	f.IntVarP(&l.Size, "size", "s", 2048, "`BYTES` of payload in a packet")
	f.IntVarP(&l.Packets, "packets", "n", 1000, "send this `NUMBER` of packets")
	f.Float64Var(&l.Rate, "rate", 0, "send this `NUMBER` of packets a second (default: as fast as the lane takes them)")
	f.BoolVar(&l.Stop, "stop", false, "end all loads and forget them")
	cmd.ValidArgsFunction = a.completeNodes("", 2)
	return cmd
}

func newStall() *cobra.Command {
	var a asker
	var levels []int
	none := false
	cmd := &cobra.Command{
		Use: "stall [NODE...]", Short: "Let adapters take no packets, or list those that do not",
		Long: `Lets adapters take no packets of some service levels, as if a receiver stood still, until
--none. The packets stay in the buffers of their virtual lanes, which fill back to the
senders. No packet is lost, and other lanes continue. Without arguments, lists the adapters
that do not take all packets.

On Ethernet the levels are priorities. Lossless ones pause, back to the senders; frames of
others are dropped when the buffer of the host's port is full.`,
		Example: `  softrdma fabric stall node-1 --sl 0
  softrdma fabric stall
  softrdma fabric stall node-1 --none`,
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flag("sl").Changed
			switch {
			case len(args) == 0 && (given || none):
				return cli.UsageErrorf("expected the adapters that are meant")
			case len(args) > 0 && given == none:
				return cli.UsageErrorf("expected --sl or --none")
			}
			r := control.Request{Verb: control.VerbStall, Args: args, Levels: levels}
			return a.show(cmd, r, func(r *control.Reply) any { return append([]control.Stalled{}, r.Stalled...) }, printStalled)
		},
	}
	a.flags(cmd)
	a.jsonFlag(cmd)
	cmd.Flags().IntSliceVar(&levels, "sl", nil, "take no packets of these service `LEVELS`, 0 to 15; on Ethernet priorities, 0 to 7")
	cmd.Flags().BoolVar(&none, "none", false, "take all packets again")
	cmd.ValidArgsFunction = a.completeHosts
	return cmd
}
