package fabric

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	process "softrdma/internal/control"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/control"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/fabric/live"
	"softrdma/internal/fabric/node"
	"softrdma/internal/fabric/port"
	"softrdma/internal/fabric/subnet"
	"softrdma/internal/management/partitions"
	"softrdma/internal/management/routing"
	"softrdma/internal/management/sm"
	"softrdma/internal/reason"
	"softrdma/internal/topology"
)

const upLong = `Builds a fabric and runs it until it is interrupted, or "softrdma fabric down" ends it.
The nodes and cables come from a file in the format of ibnetdiscover and ibsim, or from
--topology:

  star:8                       one switch with eight adapters
  fat-tree:k=8                 three levels of switches with 8 ports (levels=2 for two)
  ring:5, torus:4x4, mesh:4x4  a switch at each point (hosts= adapters at each, 1)
  hyperx:4x4, dragonfly:routers=4,global=2,hosts=2,
  leaf-spine:leaves=4,spines=2,hosts=8   (or oversubscription=3 for spines= or hosts=)

width= and speed= set the links, which are 4x EDR otherwise, switch-speed= those of switches;
failed=2 leaves out two of these. For --trunk, spare= adds ports and part= changes names.

The fabric's own subnet manager sets it up, unless --no-sm leaves that to another one.
--routing chooses how it computes forwarding tables:

  auto    ftree for fat trees and leaf-spine, torus for rings, tori and meshes, minhop for stars,
          updn for everything else
  minhop  shortest paths; can deadlock where links form a cycle
  updn    up towards a root, then down
  ftree   for fat trees: as updn, spread by destination
  torus   dimensions in order, with a second virtual lane across the dateline

--trunk joins the fabric to one in another process, on this or another host: it is a cable
from a port of this fabric to a port of the other one, by UDP. Both ends name each other.
One of the fabrics runs the subnet manager, the others take --no-sm. Generated fabrics
need different part= numbers, because GUIDs are unique in a subnet. Fabrics of Ethernet
need different --network prefixes.

--ethernet builds Ethernet switches and hosts instead, of which programs open the hosts as RoCE
v2 devices, eth:NAME/NODE. Their links have the speed of --gbit if the topology names none.
Priorities in --lossless pause before they lose a frame. Pauses can deadlock on rings and
tori; --routing updn and --raise avoid that. "softrdma fabric tap" makes this system a host.

--attach :7701 --attach-secret FILE lets programs on other hosts attach to adapters, as
ib:NAME@HOST:7701/NODE, or to hosts of an Ethernet, as eth:NAME@HOST:7701/NODE, with
SOFTRDMA_FABRIC_SECRET=FILE. At a loopback address no secret is needed, and all users of
this host may attach.`

const upExample = `  softrdma fabric up
  softrdma fabric up --topology fat-tree:k=4 --name tree
  softrdma fabric up cluster.topo --no-sm
  softrdma fabric up --topology ring:5 --routing minhop --vls 1
  softrdma fabric up --topology star:4,spare=1 --trunk switch-0:5=host-b:7700
  softrdma fabric up --topology star:4,spare=1,part=1 --no-sm --trunk p1-switch-0:5=host-a:7700
  softrdma fabric up --attach :7701 --attach-secret secret
  softrdma fabric up --ethernet --topology fat-tree:k=4 --lossless 3`

// defaultNetwork has the IP addresses of adapters.
const defaultNetwork = "10.77.0.0/16"

// defaultTopology is a fabric on which everything can be tried.
const defaultTopology = "star:4"

// builder has the flags of "fabric up".
type builder struct {
	topology string
	name     string
	sm, noSM bool
	routing  string
	vls      int
	lmc      uint8
	priority uint8
	parts    string
	network  string
	hop      time.Duration
	cable    time.Duration
	store    bool
	verbose  bool
	trunks   []string
	listen   string
	attach   string
	ethernet ethernet
}

func newUp() *cobra.Command {
	var b builder
	cmd := &cobra.Command{
		Use: "up [FILE]", Short: "Build a fabric and run it",
		Long: upLong, Example: upExample, Args: cli.Args(0, 1, "at most one FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return b.run(cmd, args) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	f := cmd.Flags()
	f.StringVar(&b.topology, "topology", "", "generate a `SHAPE` such as fat-tree:k=8 (default "+defaultTopology+")")
	f.StringVar(&b.name, "name", "fab0", "`NAME` of the fabric, by which programs and commands find it")
	f.BoolVar(&b.sm, "sm", true, "run the fabric's own subnet manager")
	f.BoolVar(&b.noSM, "no-sm", false, "leave the fabric to a subnet manager that a program runs")
	f.StringVar(&b.routing, "routing", automatic, "compute forwarding tables by `ALGORITHM`")
	f.IntVar(&b.vls, "vls", 8, "`NUMBER` of data lanes that ports have: 1, 2, 4, 8 or 15")
	f.Uint8Var(&b.priority, "priority", 0, "`PRIORITY` of the fabric's own manager among managers, 0 to 15; the higher one is master")
	f.StringVar(&b.parts, "partitions", "", "part the fabric as `FILE` says, in the format of opensm's partitions.conf")
	f.Uint8Var(&b.lmc, "lmc", 0, "give each adapter's port two to the power of `LMC` LIDs")
	f.StringVar(&b.network, "network", "", "give the ports of adapters the IP addresses of `PREFIX` in turn (default "+defaultNetwork+"), or hosts of an Ethernet addresses of it (default "+lan.DefaultPrefix.String()+")")
	f.DurationVar(&b.hop, "hop", node.DefaultHop, "time of a packet in a switch")
	f.DurationVar(&b.cable, "cable", subnet.DefaultCable, "delay of a cable")
	f.BoolVar(&b.store, "store-and-forward", false, "switches send a packet on when all of it has arrived (default: cut-through)")
	f.StringArrayVar(&b.trunks, "trunk", nil, "join a port to another fabric: `NODE:PORT=HOST:UDPPORT`, again for each trunk")
	f.StringVar(&b.listen, "listen", ":7700", "local `ADDRESS:UDPPORT` of trunks")
	f.String(trunkSecretFlag, "", "accept the other ends of trunks only if they have the same secret in `FILE`, of 16 to 256 bytes")
	f.StringVar(&b.attach, "attach", "", "let programs on other hosts attach, at the local `ADDRESS:UDPPORT`")
	f.String(attachSecretFlag, "", "accept programs on other hosts only if they have the same secret in `FILE`, of 16 to 256 bytes")
	b.ethernet.addFlags(f)
	f.BoolVarP(&b.verbose, "verbose", "v", false, "print the first packet that is dropped for each reason, and at the end a count")
	cli.CompleteFlag(cmd, "topology", "star:4", "fat-tree:k=4", "ring:5", "torus:4x4", "mesh:4x4", "hyperx:4x4", "dragonfly:routers=4,global=2,hosts=2", "leaf-spine:leaves=4,spines=2,hosts=8")
	cli.CompleteFlag(cmd, "routing", append([]string{automatic}, algorithms...)...)
	cli.AddMetricsFlag(cmd)
	return cmd
}

// longest bounds times, whose sums are picoseconds in 63 bits.
const longest = time.Hour

// automatic is the routing that follows from the topology.
const automatic = "auto"

var algorithms = []string{routing.MinHop.String(), routing.UpDown.String(), routing.FatTree.String(), routing.Torus.String()}

// run runs a fabric until a signal ends it.
func (b *builder) run(cmd *cobra.Command, args []string) error {
	c, from, err := b.config(cmd, args)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	drops := &drops{out: cmd.ErrOrStderr(), fabric: c.Fabric, count: make(map[reason.Reason]int)}
	if b.verbose {
		c.Dropped, c.Remote.Dropped = drops.add, drops.addRemote
	}
	c.Remote.Changed = visitorNews(out, c.Fabric)
	if len(b.trunks) > 0 {
		c.Trunks.Changed = newTrunkNews(out, c.Fabric).changed
	}
	ctx, end := context.WithCancel(cmd.Context())
	defer end()
	cmd.SetContext(ctx)
	c.End = end
	f, err := live.Start(*c)
	if err != nil {
		return err
	}
	defer process.AddFabric(c.Name, f.Ask)()
	defer cli.ExportMetrics(newCollector(c.Name, c.Ethernet != nil, f.Ask))()
	if c.Ethernet == nil {
		b.greet(out, c, from)
	} else if err := b.ethernet.greet(out, b.name, from, f); err != nil {
		return errors.Join(err, f.Close())
	}
	for _, text := range b.trunks {
		fmt.Fprintf(out, "trunk %s waits for its other end\n", text)
	}
	if c.Ethernet == nil {
		b.await(cmd, f)
	}
	<-cmd.Context().Done()
	if err := f.Close(); err != nil {
		return err
	}
	drops.print()
	return cli.ErrSignalled
}

// config checks the flags and reads the topology. from says where that comes from.
func (b *builder) config(cmd *cobra.Command, args []string) (c *live.Config, from string, err error) {
	if err := b.check(cmd, args); err != nil {
		return nil, "", err
	}
	c = &live.Config{Name: b.name, Cable: b.cable, Port: port.Config{VLs: b.vls}, Node: node.Config{Hop: b.hop, StoreAndForward: b.store}, Control: control.Answer}
	shape := ""
	if len(args) > 0 {
		text, err := os.ReadFile(args[0])
		if err != nil {
			return nil, "", err
		}
		from = args[0]
		var warnings []string
		if c.Fabric, warnings, err = topology.Parse(args[0], string(text)); err != nil {
			return nil, "", err
		}
		printWarnings(cmd.ErrOrStderr(), warnings)
	} else {
		if from = b.topology; from == "" {
			from = defaultTopology
		}
		if c.Fabric, err = topology.Generate(from); err != nil {
			return nil, "", cli.UsageErrorf("--topology: %v", err)
		}
		shape, _, _ = strings.Cut(from, ":")
	}
	if b.ethernet.on {
		_, b.ethernet.named = c.Fabric.Ethernet()
		if err = errors.Join(b.plug(cmd, c), b.admit(cmd, c)); err == nil {
			c.Ethernet, err = b.ethernet.config(b, c.Fabric)
		}
		return c, from, err
	}
	if at, ok := c.Fabric.Ethernet(); ok {
		return nil, "", cli.UsageErrorf("%s: expected links of InfiniBand, like 4xEDR, or --ethernet; found %v at %s", from, c.Fabric.Port(at).Speed, c.Fabric.EndName(at))
	}
	if err = errors.Join(b.plug(cmd, c), b.admit(cmd, c)); err != nil {
		return nil, "", err
	}
	if c.Addrs, err = b.addresses(c.Fabric); err != nil {
		return nil, "", err
	}
	if b.sm && !b.noSM {
		a, err := b.algorithm(shape)
		if err != nil {
			return nil, "", err
		}
		c.Manager = &sm.Config{Algorithm: a, LMC: b.lmc, Priority: b.priority}
		if b.parts != "" {
			text, err := os.ReadFile(b.parts)
			if err != nil {
				return nil, "", err
			}
			if c.Manager.Partitions, err = partitions.Parse(b.parts, string(text), c.Fabric, live.ManagerGUID(c.Fabric)); err != nil {
				return nil, "", err
			}
		}
	}
	return c, from, nil
}

func (b *builder) check(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 0 && b.topology != "":
		return cli.UsageErrorf("expected a file or --topology, not both")
	case !slices.Contains([]int{1, 2, 4, 8, 15}, b.vls):
		return cli.UsageErrorf("--vls: expected 1, 2, 4, 8 or 15, found %d", b.vls)
	case b.priority > sm.MaxPriority:
		return cli.UsageErrorf("--priority: expected 0 to %d, found %d", sm.MaxPriority, b.priority)
	case b.parts != "" && (b.noSM || !b.sm):
		return cli.UsageErrorf("--partitions is for the fabric's own subnet manager: expected no --no-sm")
	case b.lmc > topology.MaxLMC:
		return cli.UsageErrorf("--lmc: expected 0 to %d, found %d", topology.MaxLMC, b.lmc)
	case min(b.hop, b.cable) <= 0 || max(b.hop, b.cable) > longest:
		return cli.UsageErrorf("--hop and --cable: expected durations greater than 0, up to %v", longest)
	}
	if err := b.ethernet.check(cmd); err != nil {
		return err
	}
	if err := attach.CheckName(b.name); err != nil {
		return cli.UsageErrorf("--name: %v", err)
	}
	return cli.NotBoth(cmd, "sm", "no-sm")
}

// addresses gives each port of an adapter an IP address, in the order of the topology.
func (b *builder) addresses(f *topology.Fabric) (map[topology.End][]netip.Addr, error) {
	prefix, err := netip.ParsePrefix(cmp.Or(b.network, defaultNetwork))
	if err != nil {
		return nil, cli.UsageErrorf("--network: expected a prefix such as %s, found %q", defaultNetwork, b.network)
	}
	table := make(map[topology.End][]netip.Addr)
	at := prefix.Masked().Addr()
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Switch {
			continue
		}
		for p := 1; p <= f.Nodes[i].NumPorts(); p++ {
			if at = at.Next(); !prefix.Contains(at) {
				return nil, cli.UsageErrorf("--network: expected a prefix with an address for each port of an adapter, found %v", prefix)
			}
			table[topology.End{Node: i, Port: p}] = []netip.Addr{at}
		}
	}
	return table, nil
}

// algorithm is the routing for a generated shape, "" for a file.
func (b *builder) algorithm(shape string) (routing.Algorithm, error) {
	if b.routing != automatic {
		a, err := routing.ParseAlgorithm(b.routing)
		if err != nil {
			return a, cli.UsageErrorf("--routing: %v", err)
		}
		return a, nil
	}
	switch shape {
	case "star":
		return routing.MinHop, nil
	case "fat-tree", "leaf-spine":
		return routing.FatTree, nil
	case "ring", "torus", "mesh":
		if b.vls >= 2 {
			return routing.Torus, nil
		}
	}
	return routing.UpDown, nil
}

// Times of the wait for the manager.
const (
	awaitPoll = 10 * time.Millisecond
	awaitMost = time.Minute
)

// await waits until the manager has set up the fabric, and says so.
func (b *builder) await(cmd *cobra.Command, f *live.Fabric) {
	out := cmd.OutOrStdout()
	if !b.sm || b.noSM {
		fmt.Fprintln(out, "No subnet manager: links stay in state init until a program is one.")
		return
	}
	begin := time.Now()
	for time.Since(begin) < awaitMost {
		var status *control.Status
		f.Do(func(now time.Duration, s *subnet.Subnet, m *sm.Manager) {
			if r, err := control.Do(now, s, m, control.Request{Verb: control.VerbStatus}); err == nil {
				status = r.Status
			}
		})
		if status != nil && status.Manager.Own.Idle && status.Manager.Own.Sweeps > 0 && status.Links[control.LinkActive] > 0 {
			own := status.Manager.Own
			fmt.Fprintf(out, "Its subnet manager set it up in %v: %s, routing %s.\n", max(time.Since(begin).Round(time.Millisecond), time.Millisecond), linkStates(status), own.Routing)
			if own.Note != "" {
				fmt.Fprintf(out, "Not routed as asked: %s.\n", own.Note)
			}
			return
		}
		select {
		case <-cmd.Context().Done():
			return
		case <-time.After(awaitPoll):
		}
	}
	fmt.Fprintln(out, "Its subnet manager has not set it up yet: see softrdma fabric status.")
}
