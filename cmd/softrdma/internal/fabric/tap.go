package fabric

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/tap"
	wire "softrdma/internal/wire/ethernet"
)

// addresses are those of a host, as an interface has them.
func addresses(i *attach.Info) string {
	var list []string
	for _, a := range i.Addrs {
		bits := i.Ethernet.Prefix.Bits()
		if a.Is6() {
			bits = i.Ethernet.Prefix6.Bits()
		}
		list = append(list, netip.PrefixFrom(a, bits).String())
	}
	return strings.Join(list, ", ")
}

func newTap() *cobra.Command {
	guest := false
	cmd := &cobra.Command{
		Use: "tap FABRIC/HOST INTERFACE", Short: "Join this system's network stack to a host of an Ethernet fabric",
		Long: `Makes a network interface (a tap device), gives it the addresses of a host of an Ethernet
fabric, and moves frames between the two until it is interrupted. The system then is that
host: its programs, its TCP and its RDMA drivers (rdma link add rxe0 type rxe netdev
INTERFACE) reach the other hosts through the fabric's switches, in the network namespace
in which the command runs. The interface ends with the command. It needs root.

The switch speaks LLDP with DCBX at the port, and shows the frames by which ports pause.
The system does not obey these: what it sends on a paused priority waits in the port's
queue of 256 KiB, and is dropped behind it ("softrdma fabric counters", ETHERNET_QUEUE_FULL).

With --guest the interface has no addresses, for a bridge to the interface of a virtual
machine, which gets the addresses of the host: it is the machine that is the host then.`,
		Example: "  softrdma fabric up --ethernet\n  sudo softrdma fabric tap fab0/node-3 tap0\n  ping 10.0.0.1", Args: cli.Args(2, 2, "FABRIC/HOST and INTERFACE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := tap.Run(cmd.Context(), args[0], args[1], guest, func(i *attach.Info) {
				what := args[1] + " is"
				if guest {
					what = "a machine behind " + args[1] + " is"
				}
				fmt.Fprintf(cmd.OutOrStdout(), "%s %s of fabric %s: %v, %v, MTU %d\n", what, i.Node, i.Fabric, addresses(i), wire.MAC(i.Ethernet.MAC), i.Ethernet.MTU)
			})
			if err == nil {
				return cli.ErrSignalled
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&guest, "guest", false, "give the interface no addresses: a virtual machine behind a bridge has them")
	return cmd
}
