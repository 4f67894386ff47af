package nvme

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/storage/nvmeof/host"
	"softrdma/storage/nvmeof/wire/logpage"
)

// newLister completes a command that lists what a target or one of its subsystems has, as a table or as the
// named kind of JSON.
func newLister(cmd *cobra.Command, kind string, subsystem bool, list func(c *client, ctx context.Context, arg string, asJSON bool) error) *cobra.Command {
	c, asJSON := &client{}, false
	cmd.Args = cli.Args(1, 1, "the HOST of the target")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return list(c, cmd.Context(), args[0], asJSON) }
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON "+kind)
	c.addFlags(cmd, subsystem)
	return cmd
}

func newDiscover() *cobra.Command {
	return newLister(&cobra.Command{
		Use: "discover HOST[:PORT]", Short: "List the subsystems of a target",
		Long: `Lists the subsystems that a target's discovery service names, and where they are.`, Example: "  softrdma nvme discover 192.0.2.1",
	}, "array", false, (*client).discover)
}

// An entry is an entry of the discovery log in JSON.
type entry struct {
	Subsystem string `json:"subsystem"`
	Type      string `json:"type"`
	Address   string `json:"address"`
	Port      string `json:"port"`
	Provider  string `json:"provider"`
}

var providerNames = map[uint8]string{
	logpage.ProviderAny: "any", logpage.ProviderInfiniBand: "infiniband", logpage.ProviderRoCE: "roce", logpage.ProviderRoCEv2: "roce-v2", logpage.ProviderIWARP: "iwarp",
}

func (c *client) discover(ctx context.Context, arg string, asJSON bool) (err error) {
	at := address(arg)
	cfg, err := c.config(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.device.Close()) }()
	within, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	list, err := host.Discover(within, at, cfg)
	if err != nil {
		return c.failed(ctx, at, err)
	}
	entries := make([]entry, 0, len(list))
	for _, e := range list {
		entries = append(entries, entry{e.Subsystem, e.Type.String(), e.Address, e.Service, providerNames[e.Provider]})
	}
	if asJSON {
		return cli.WriteJSON(c.cmd.OutOrStdout(), entries)
	}
	table := cli.NewTable("SUBSYSTEM", "TYPE", "ADDRESS", "PORT", "PROVIDER")
	for _, e := range entries {
		table.Row(cli.Text(e.Subsystem), e.Type, cli.Text(e.Address), cli.Text(e.Port), e.Provider)
	}
	return table.Print(c.cmd.OutOrStdout())
}

func newList() *cobra.Command {
	return newLister(&cobra.Command{
		Use: "list HOST[:PORT] --subsystem NQN", Short: "List the namespaces of a subsystem",
		Long: `Connects to a subsystem and lists its namespaces.`, Example: "  softrdma nvme list 192.0.2.1 -n nqn.2024-01.org.example:disk",
	}, "object", true, func(c *client, ctx context.Context, arg string, asJSON bool) error {
		return c.with(ctx, arg, 1, func(k *host.Controller) error { return c.list(ctx, k, asJSON) })
	})
}

// A listing is a subsystem in JSON.
type listing struct {
	Subsystem  string      `json:"subsystem"`
	Model      string      `json:"model"`
	Serial     string      `json:"serial"`
	Controller uint16      `json:"controller"`
	Namespaces []namespace `json:"namespaces"`
}

type namespace struct {
	ID       uint32 `json:"id"`
	Bytes    int64  `json:"bytes"`
	Block    int    `json:"block"`
	ReadOnly bool   `json:"read_only,omitempty"`
	NGUID    string `json:"nguid"`
}

func (c *client) list(ctx context.Context, k *host.Controller, asJSON bool) error {
	about := k.About()
	l := listing{about.Subsystem, about.Model, about.Serial, about.Controller, []namespace{}}
	ids, err := k.Namespaces(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		n, err := k.Namespace(ctx, id)
		if err != nil {
			return err
		}
		guid := n.About().NGUID
		l.Namespaces = append(l.Namespaces, namespace{id, n.Size(), n.BlockSize(), n.About().Attributes&1 != 0, fmt.Sprintf("%x", guid)})
	}
	if asJSON {
		return cli.WriteJSON(c.cmd.OutOrStdout(), l)
	}
	out := c.cmd.OutOrStdout()
	fmt.Fprintln(out, cli.Text(fmt.Sprintf("%s: %s, serial %s, controller %d", l.Subsystem, l.Model, l.Serial, l.Controller)))
	table := cli.NewTable("NAMESPACE", "BYTES", "BLOCK", "ACCESS", "NGUID")
	for _, n := range l.Namespaces {
		access := "read-write"
		if n.ReadOnly {
			access = "read-only"
		}
		table.Row(n.ID, n.Bytes, n.Block, access, n.NGUID)
	}
	return table.Print(out)
}
