package fabric

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/faults/file"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/control"
	"softrdma/internal/fabric/drawing"
)

// terminalColumns is the width of a drawing that is not printed on a terminal.
const terminalColumns = 100

// write writes a picture where the user wants it.
func (d *drawer) write(cmd *cobra.Command, p *drawing.Picture) error {
	out := cmd.OutOrStdout()
	switch d.output {
	case "-":
		_, err := out.Write(drawing.SVG(p))
		return err
	case "":
		var b bytes.Buffer
		if d.watch && cli.IsTerminal(out) {
			b.WriteString("\x1b[H\x1b[2J")
		}
		b.WriteString(drawing.Terminal(p, cli.TerminalWidth(out, terminalColumns), cli.IsTerminal(out) && os.Getenv("NO_COLOR") == ""))
		_, err := out.Write(b.Bytes())
		return err
	}
	if err := cli.WriteFile(d.output, drawing.SVG(p)); err != nil {
		return err
	}
	if !d.watch {
		fmt.Fprintf(out, "wrote %s\n", d.output)
	}
	return nil
}

func newLink() *cobra.Command {
	cmd := &cobra.Command{
		Use: "link", Short: "Take cables away and put them back",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newChange(control.VerbLinkDown, "down PORT...", "Take the cables of ports away",
			`Takes cables away. Both ends go down, packets on the cable are lost, and switches
report the change to the subnet manager, which routes around it.`, "  softrdma fabric link down leaf-0-0:1"),
		newChange(control.VerbLinkUp, "up PORT...", "Put the cables of ports back",
			`Puts cables back that "softrdma fabric link down" or "fail" took away. The links train
again, and carry data once a subnet manager has set them up.`, "  softrdma fabric link up leaf-0-0:1"),
	)
	return cmd
}

func newFail() *cobra.Command {
	return newChange(control.VerbFail, "fail SWITCH...", "Take all cables of switches away",
		`Takes all cables of switches away, as if they had lost power. The switches keep their
tables. "softrdma fabric repair" puts the cables back.`, "  softrdma fabric fail spine-0-0")
}

func newRepair() *cobra.Command {
	return newChange(control.VerbRepair, "repair SWITCH...", "Put all cables of switches back",
		`Puts all cables of switches back, also those that "softrdma fabric link down" took away.`, "  softrdma fabric repair spine-0-0")
}

func newManager() *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use: "sm {on|off}", Short: "Stop the fabric's own subnet manager, or let it run again",
		Long: `Stops the fabric's own subnet manager, or lets it run again. A manager that is off answers
no request, and its port no longer says that a manager is there: standby managers, such as opensm
on a node, take the fabric over when it leaves some of their requests without a good answer. One
that is on discovers the fabric. It becomes master, or stands by if another is master already.

The ports keep what they have been given, so data flows without a manager, until a link
changes.`,
		Example: `  softrdma fabric sm off
  softrdma fabric sm on`,
		Args: cli.Args(1, 1, "on or off"), ValidArgs: []string{"on", "off"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd, control.Request{Verb: control.VerbManager, Args: args}, nil, func(w io.Writer, r *control.Reply) {
				fmt.Fprintf(w, "manager  %s\n", managerText(&r.Status.Manager))
			})
		},
	}
	a.flags(cmd)
	return cmd
}

func newDown() *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use: "down", Short: "End a fabric",
		Long: `Ends a fabric that "softrdma fabric up" runs, in another terminal or in the background.
Programs that are attached see their ports go down, and come back when a fabric of the same name
runs again.`,
		Example: `  softrdma fabric down
  softrdma fabric down --name tree`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.find(cmd.Context()); err != nil {
				return err
			}
			if err := attach.Down(cmd.Context(), a.name); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "fabric %s has ended\n", a.name)
			return nil
		},
	}
	a.flags(cmd)
	return cmd
}

// newChange returns a command that changes cables and prints what they are afterwards.
func newChange(verb, use, short, long, example string) *cobra.Command {
	var a asker
	expected := "one PORT or more"
	if verb == control.VerbFail || verb == control.VerbRepair {
		expected = "one SWITCH or more"
	}
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example, Args: cli.Args(1, cli.AnyNumber, expected),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd, control.Request{Verb: verb, Args: args}, nil, func(w io.Writer, r *control.Reply) { printChanged(w, r.Links) })
		},
	}
	a.flags(cmd)
	cmd.ValidArgsFunction = a.completePorts
	if verb == control.VerbFail || verb == control.VerbRepair {
		cmd.ValidArgsFunction = a.completeNodes("switch", cli.AnyNumber)
	}
	return cmd
}

func newFaults() *cobra.Command {
	var a asker
	var f control.Faults
	none, rules := false, ""
	cmd := &cobra.Command{
		Use: "faults [PORT...]", Short: "Let cables flip bits or lose credits, or list those that do",
		Long: `Without ports, lists the cables with faults. With ports, their cables flip bits of packets
(--bit-errors, the probability for each bit), or lose the link packets that grant credit
(--credit-loss, the probability for each), in both directions, until --none. A packet with
a flipped bit fails the check of its VCRC and is counted as an error at the end of the cable.
The ends of such a cable repeat their grants of credit every millisecond, so that the
credits of lost packets come back.

On Ethernet cables lose frames that pause (--pause-loss) instead of credits, and follow the
rules of a file, as "softrdma fault" describes them (--rules): drop, delay, duplicate, mark,
corrupt and black-hole, for the RoCE packets that a rule selects, in both directions.`,
		Example: `  softrdma fabric faults leaf-0-0:1 --bit-errors 1e-7
  softrdma fabric faults
  softrdma fabric faults leaf-0-0:1 --none
  softrdma fabric faults leaf-0-0:1 --rules rules.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			given := false
			for _, name := range []string{"bit-errors", "credit-loss", "pause-loss", "rules"} {
				given = given || cli.FlagGiven(cmd, name)
			}
			if given == none && len(args) > 0 {
				return cli.UsageErrorf("expected --bit-errors, --credit-loss, --pause-loss or --rules, or --none")
			}
			if rules != "" {
				read, err := file.Read(rules)
				if err != nil {
					return cli.UsageErrorf("--rules: %v", err)
				}
				f.Rules = &read
			}
			r := control.Request{Verb: control.VerbFaults, Args: args}
			if len(args) > 0 {
				r.Faults = &f
			} else if given || none {
				return cli.UsageErrorf("expected the ports whose cables are meant")
			}
			return a.show(cmd, r, func(r *control.Reply) any { return append([]control.Link{}, r.Links...) }, printFaults)
		},
	}
	a.flags(cmd)
	a.jsonFlag(cmd)
	cmd.Flags().Float64Var(&f.BitErrors, "bit-errors", 0, "`PROBABILITY` that a bit flips")
	cmd.Flags().Float64Var(&f.CreditLoss, "credit-loss", 0, "`PROBABILITY` that a link packet is lost")
	cmd.Flags().Float64Var(&f.PauseLoss, "pause-loss", 0, "on Ethernet: `PROBABILITY` that a frame that pauses is lost")
	cmd.Flags().StringVar(&rules, "rules", "", "on Ethernet: follow the rules of faults in `FILE`")
	cmd.Flags().BoolVar(&none, "none", false, "end the faults of these cables")
	cmd.ValidArgsFunction = a.completePorts
	return cmd
}
