// Package fabric is the command that builds a fabric in software, shows it and
// disturbs it. Package internal/fabric/live runs the fabric, internal/fabric/control answers
// the questions; this package has flags, texts and tables.
package fabric

import (
	"github.com/spf13/cobra"
)

const long = `Builds InfiniBand fabrics in software and shows what happens in them: switches that
forward by LID with virtual lanes and credits, links with a speed and a delay, and a
subnet manager that programs them. With --ethernet the switches are Ethernet's, with
priorities, pauses and shared buffers. A fabric runs in the process of "softrdma fabric
up". The other commands ask that process.

Nodes are named by their description, ID or GUID (0x...), ports by NODE:PORT, or by NODE
if the node has one port.`

const example = `  softrdma fabric up --topology fat-tree:k=4
  softrdma fabric status
  softrdma fabric trace node-0 node-15
  softrdma fabric draw -o fabric.svg
  softrdma fabric link down leaf-0-0:1
  softrdma fabric deadlock
  softrdma fabric down`

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "fabric", Short: "Build, show and disturb a fabric of switches in software",
		Long: long, Example: example, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newUp(), newDown(), newStatus(), newLinks(), newRoutes(), newTrace(), newCounters(), newDeadlock(), newDraw(),
		newLoad(), newLink(), newFail(), newRepair(), newFaults(), newStall(), newManager(), newTap())
	return cmd
}
