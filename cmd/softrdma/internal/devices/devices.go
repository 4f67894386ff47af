// Package devices is the command that lists devices.
package devices

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/verbs"
)

const long = `Lists the addresses of this machine that can be an RDMA device, the best first:
the one that commands use without -d. It opens none of them.

-v prints for each device what ibv_devinfo -v prints for an adapter: limits, GUID,
GID table, port state, MTUs and speed. It also says why the best one is the best,
and which devices processes of this machine have published, to be reached through
memory.

Every address can be a device of either protocol. With --protocol iwarp the list
describes the iWARP devices.

If a daemon is running (softrdma daemon), the addresses that it shares follow,
with the names that -d of perf and pingpong takes. So do the ports of the InfiniBand
fabrics of this machine (softrdma fabric), with their state, their LID, the LID of the
subnet manager, and the process that has opened them. -v lists all ports of large fabrics.`

// NewCommand returns the command.
func NewCommand() *cobra.Command {
	var verbose, asJSON bool
	var protocol cli.Protocol
	cmd := &cobra.Command{
		Use: "devices [flags]", Short: "List the RDMA devices of this machine",
		Long: long, Args: noArguments,
		Example: "  softrdma devices\n  softrdma devices -v\n  softrdma devices --json | jq '.[0].address'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := verbs.Devices()
			if err != nil {
				return err
			}
			for i := range list {
				list[i].Protocol = protocol.Verbs()
			}
			out := cmd.OutOrStdout()
			var ports []cli.Fabric
			if !protocol.IWARP() {
				ports = fabrics(cmd.Context())
			}
			switch {
			case asJSON:
				return printDevicesJSON(out, list, ports)
			case len(list) == 0:
				return errors.New("this machine has no address that could be an RDMA device: bring up an interface, for example with \"ip link set lo up\"")
			case verbose:
				err = printDevicesVerbose(out, list)
			default:
				err = printDevices(out, list)
			}
			if err == nil && !protocol.IWARP() {
				printDaemons(cmd.Context(), out)
				err = printFabrics(out, ports, verbose)
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print all attributes of each device")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print all attributes as JSON")
	protocol.AddFlag(cmd.Flags(), "")
	return cmd
}

func printDevices(out io.Writer, list []verbs.DeviceInfo) error {
	t := cli.NewTable("", "INTERFACE", "ADDRESS", "STATE", "MTU", "SPEED", "GUID")
	for i := range list {
		d := &list[i]
		mark := ""
		if d.Best {
			mark = "*"
		}
		t.Row(mark, d.Interface, d.Addr, cli.StateName(d.Up), cli.MTUName(d.ActiveMTU), speedName(d.SpeedMbps), d.GUID.String())
	}
	if err := t.Print(out); err != nil {
		return err
	}
	if list[0].Best {
		fmt.Fprintln(out, "\n* is used without -d; softrdma devices -v says why.")
	}
	return nil
}

func speedName(mbps int) string {
	switch {
	case mbps <= 0:
		return "unknown"
	case mbps%1000 == 0:
		return fmt.Sprintf("%d Gb/s", mbps/1000)
	}
	return fmt.Sprintf("%d Mb/s", mbps)
}

func printDevicesVerbose(out io.Writer, list []verbs.DeviceInfo) error {
	h := publishedDevices(list)
	for i := range list {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := printDevice(out, &list[i], h.state(&list[i])); err != nil {
			return err
		}
	}
	h.print(out)
	return nil
}

func printDevice(out io.Writer, d *verbs.DeviceInfo, sameHost string) error {
	t := cli.NewTable()
	t.Indent = "    "
	row := func(name string, v any) { t.Row(name, fmt.Sprint(v)) }
	best := ""
	if d.Best {
		best = ", the best device"
	}
	fmt.Fprintf(out, "%s on %s%s\n", d.Addr, d.Interface, best)
	for i, why := range d.Why {
		row([]string{"chosen because:", ""}[min(i, 1)], why)
	}
	a, p := d.Query(), d.QueryPort()
	row("transport:", transportName(d.Protocol))
	row("node_guid:", a.NodeGUID)
	row("sys_image_guid:", a.SysImageGUID)
	if d.MAC != "" {
		row("mac:", d.MAC)
	}
	row("max_mr_size:", a.MaxMRSize)
	row("max_msg_sz:", uint64(verbs.MaxMessage))
	row("max_qp_wr:", a.MaxQPWR)
	row("max_srq_wr:", a.MaxSRQWR)
	row("max_sge:", a.MaxSGE)
	row("max_inline_data:", a.MaxInline)
	row("max_cqe:", a.MaxCQE)
	row("max_qp_rd_atom:", a.MaxQPRdAtom)
	row("max_qp_init_rd_atom:", a.MaxQPInitRdAtom)
	row("atomic_cap:", a.AtomicCap)
	row("atomic_write:", a.AtomicWrite)
	row("flush:", a.Flush)
	row("xrc:", a.XRC)
	row("max_pkeys:", a.MaxPKeys)
	row("phys_port_cnt:", a.PhysPorts)
	row("port 1 state:", "PORT_"+cli.StateName(p.Active))
	row("link_layer:", p.LinkLayer)
	row("link mtu:", d.LinkMTU)
	row("max_mtu:", p.MaxMTU)
	row("active_mtu:", cli.MTUName(p.ActiveMTU))
	row("active_speed:", speedName(p.SpeedMbps))
	row("pkey[0]:", fmt.Sprintf("%#04x", p.PKey))
	row("same_host:", sameHost)
	name, gids := "gid[0]:", d.GIDs()
	if n := len(gids); n > 1 { // all are the same
		name = fmt.Sprintf("gid[0-%d]:", n-1)
	}
	row(name, fmt.Sprintf("%v, %s, %s", gids[0].GID, gids[0].Type, gids[0].Interface))
	return t.Print(out)
}

func transportName(p verbs.Protocol) string {
	if p == verbs.IWARP {
		return "iWARP over TCP"
	}
	if p == verbs.RoCEv1 {
		return "RoCE v1 over Ethernet"
	}
	return fmt.Sprintf("RoCE v2 over UDP port %d", verbs.Port)
}

// A record is a device in JSON.
type record struct {
	Interface string       `json:"interface"`
	Address   string       `json:"address"`
	Best      bool         `json:"best"`
	Why       []string     `json:"why,omitempty"`
	GUID      string       `json:"guid"`
	MAC       string       `json:"mac,omitempty"`
	Loopback  bool         `json:"loopback"`
	Active    bool         `json:"active"`
	LinkMTU   int          `json:"link_mtu"`
	ActiveMTU int          `json:"active_mtu"`
	Published bool         `json:"same_host_published"` // other processes reach it through memory
	SpeedMbps int          `json:"speed_mbps,omitempty"`
	Protocol  string       `json:"protocol"`
	UDPPort   int          `json:"udp_port,omitempty"` // RoCE v2 only
	GIDs      []gidRecord  `json:"gids"`
	Limits    limitsRecord `json:"limits"`
}

type gidRecord struct {
	Index     int    `json:"index"`
	GID       string `json:"gid"`
	Type      string `json:"type"`
	Interface string `json:"interface"`
}

type limitsRecord struct {
	MaxMRSize       uint64 `json:"max_mr_size"`
	MaxMessage      uint64 `json:"max_msg_sz"`
	MaxQPWR         int    `json:"max_qp_wr"`
	MaxSRQWR        int    `json:"max_srq_wr"`
	MaxSGE          int    `json:"max_sge"`
	MaxInline       int    `json:"max_inline_data"`
	MaxCQE          int    `json:"max_cqe"`
	MaxQPRdAtom     int    `json:"max_qp_rd_atom"`
	MaxQPInitRdAtom int    `json:"max_qp_init_rd_atom"`
	AtomicCap       string `json:"atomic_cap"`
	AtomicWrite     bool   `json:"atomic_write"`
	Flush           string `json:"flush"`
	XRC             bool   `json:"xrc"`
}

func printDevicesJSON(out io.Writer, list []verbs.DeviceInfo, ports []cli.Fabric) error {
	records := make([]any, 0, len(list)) // never encoded as null
	h := publishedDevices(list)
	for i := range list {
		d := &list[i]
		a := d.Query()
		r := record{
			Interface: d.Interface, Address: d.Addr.String(), Best: d.Best, Why: d.Why, GUID: d.GUID.String(), MAC: strings.ToLower(d.MAC),
			Loopback: d.Loopback, Active: d.Up, LinkMTU: d.LinkMTU, ActiveMTU: d.ActiveMTU, SpeedMbps: d.SpeedMbps, Protocol: d.Protocol.String(), Published: h.published(d),
			Limits: limitsRecord{
				a.MaxMRSize, verbs.MaxMessage, a.MaxQPWR, a.MaxSRQWR, a.MaxSGE, a.MaxInline, a.MaxCQE, a.MaxQPRdAtom, a.MaxQPInitRdAtom, a.AtomicCap,
				a.AtomicWrite, a.Flush.String(), a.XRC,
			},
		}
		if d.Protocol == verbs.RoCE {
			r.UDPPort = verbs.Port
		}
		for _, g := range d.GIDs() {
			r.GIDs = append(r.GIDs, gidRecord{g.Index, g.GID.String(), g.Type, g.Interface})
		}
		records = append(records, r)
	}
	return cli.WriteJSON(out, append(records, portRecords(ports)...))
}

// noArguments refuses arguments, which could be taken for device names.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return cli.UsageErrorf("%s lists every device, expected no argument, found %q", cmd.CommandPath(), args[0])
}
