package fabric

import (
	"fmt"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/tap"
)

func newTap() *cobra.Command {
	return &cobra.Command{
		Use: "tap FABRIC/HOST INTERFACE", Short: "Join this system's network stack to a host of an Ethernet fabric",
		Long: `Makes a network interface (a tap device), gives it the addresses of a host of an Ethernet
fabric, and moves frames between the two until it is interrupted. The system then is that
host: its programs, its TCP and its RDMA drivers (rdma link add rxe0 type rxe netdev
INTERFACE) reach the other hosts through the fabric's switches, in the network namespace
in which the command runs. The interface ends with the command. It needs root.`,
		Example: "  softrdma fabric up --ethernet\n  sudo softrdma fabric tap fab0/node-3 tap0\n  ping 10.0.0.1", Args: cli.Args(2, 2, "FABRIC/HOST and INTERFACE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := tap.Run(cmd.Context(), args[0], args[1], func(i *attach.Info) {
				fmt.Fprintf(cmd.OutOrStdout(), "%s is %s of fabric %s: %v, MTU %d\n", args[1], i.Node, i.Fabric, i.Addrs[0], i.Ethernet.MTU)
			})
			if err == nil {
				return cli.ErrSignalled
			}
			return err
		},
	}
}
