package fabric

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/control"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/fabric/live"
	"softrdma/internal/management/routing"
	"softrdma/internal/topology"
	wire "softrdma/internal/wire/ethernet"
)

// ethernet has the flags of "fabric up --ethernet".
type ethernet struct {
	on       bool
	lossless []uint
	gbit     uint
	named    bool // the topology names speeds
	mtu      int
	buffer   int
	raise    bool
	ecn      string
	marking  bridge.Marking
	share    map[string]int
	ets      wire.ETS
	switches
}

// ethernetFlags are those that only an Ethernet has, and subnetFlags those that only an InfiniBand
// subnet has.
var (
	ethernetFlags = append([]string{"lossless", "gbit", "mtu", "buffer", "raise", "ecn", "share"}, switchFlags...)
	subnetFlags   = []string{"sm", "no-sm", "vls", "lmc", "priority", "partitions"}
)

// Speeds of links in Gbit/s.
var speeds = []uint{1, 2, 5, 10, 25, 40, 50, 100, 200, 400, 800}

func (e *ethernet) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&e.on, "ethernet", false, "build an Ethernet of switches and hosts, for RoCE v2, instead of an InfiniBand subnet")
	f.UintSliceVar(&e.lossless, "lossless", []uint{3}, "with --ethernet: `PRIORITIES` 0 to 7 that priority-based flow control pauses before they lose a frame")
	f.UintVar(&e.gbit, "gbit", 100, "with --ethernet: `SPEED` of each link in Gbit/s: 1 to 800")
	f.IntVar(&e.mtu, "mtu", 9000, "with --ethernet: `BYTES` of the longest IP packet, 1500 to 9000")
	f.BoolVar(&e.raise, "raise", false, "with --ethernet: switches send frames on with the next higher priority of --lossless, so that pauses cannot deadlock")
	f.StringVar(&e.ecn, "ecn", "", "with --ethernet: mark frames of queues between `MIN-MAX` bytes, such as 100000-400000 (default: no marks)")
	f.StringToIntVar(&e.share, "share", nil, "with --ethernet: guarantee `PRIORITY=PERCENT,...` of each link, 100 together, such as 0=20,3=80 (default: priorities take turns)")
	f.IntVar(&e.buffer, "buffer", 4<<20, "with --ethernet: `BYTES` of each switch's shared buffer")
	e.switches.addFlags(f)
}

// check refuses flags of the other kind of fabric.
func (e *ethernet) check(cmd *cobra.Command) error {
	wrong, kind := ethernetFlags, "--ethernet"
	if e.on {
		wrong, kind = subnetFlags, "no --ethernet"
	}
	for _, name := range wrong {
		if cli.FlagGiven(cmd, name) {
			return cli.UsageErrorf("--%s: expected %s beside it", name, kind)
		}
	}
	switch {
	case !slices.Contains(speeds, e.gbit):
		return cli.UsageErrorf("--gbit: expected one of %v, found %d", speeds, e.gbit)
	case e.mtu < 1500 || e.mtu > 9000:
		return cli.UsageErrorf("--mtu: expected 1500 to 9000, found %d", e.mtu)
	case e.buffer < 64<<10 || e.buffer > 1<<30:
		return cli.UsageErrorf("--buffer: expected %d to %d, found %d", 64<<10, 1<<30, e.buffer)
	}
	for _, p := range e.lossless {
		if p >= wire.Priorities {
			return cli.UsageErrorf("--lossless: expected priorities 0 to %d, found %d", wire.Priorities-1, p)
		}
	}
	for i := 1; i < len(e.lossless) && e.raise; i++ {
		if e.lossless[i] != e.lossless[i-1]+1 {
			return cli.UsageErrorf("--raise: expected --lossless with priorities in a row, like 3,4,5; found %s", e.losslessText())
		}
	}
	if e.ecn != "" {
		n, err := fmt.Sscanf(e.ecn, "%d-%d", &e.marking.Min, &e.marking.Max)
		if err != nil || n != 2 || e.marking.Min < 0 || e.marking.Max <= e.marking.Min {
			return cli.UsageErrorf("--ecn: expected MIN-MAX in bytes, like 100000-400000, found %q", e.ecn)
		}
		e.marking.Most = mostMarked
	}
	if err := e.switches.check(cmd, e); err != nil {
		return err
	}
	return e.checkShares()
}

// checkShares makes a class of each priority of --share. The others take turns in the class of the one that
// has most.
func (e *ethernet) checkShares() error {
	sum := 0
	for text, percent := range e.share {
		p, err := strconv.ParseUint(text, 10, 8)
		if err != nil || p >= wire.Priorities || percent < 1 || percent > 100 {
			return cli.UsageErrorf("--share: expected priorities 0 to %d with 1 to 100 percent, found %s=%d", wire.Priorities-1, text, percent)
		}
		e.ets.Class[p], e.ets.Algorithm[p], e.ets.Percent[p] = uint8(p), wire.Enhanced, uint8(percent)
		sum += percent
	}
	if len(e.share) > 0 && sum != 100 {
		return cli.UsageErrorf("--share: expected 100 percent together, found %d", sum)
	}
	most := slices.Index(e.ets.Percent[:], slices.Max(e.ets.Percent[:]))
	for p := range e.ets.Class {
		if e.ets.Percent[p] == 0 {
			e.ets.Class[p] = uint8(most)
		}
	}
	return nil
}

// mostMarked is the part of the frames that are marked as a queue reaches its upper length.
const mostMarked = 0.1

// upDown reports whether routes go up and then down.
func (b *builder) upDown() (bool, error) {
	switch b.routing {
	case automatic, routing.MinHop.String():
		return false, nil
	case routing.UpDown.String():
		return true, nil
	}
	return false, cli.UsageErrorf("--routing: expected %s, %v or %v with --ethernet, found %s", automatic, routing.MinHop, routing.UpDown, b.routing)
}

// config is what the flags say.
func (e *ethernet) config(b *builder, f *topology.Fabric) (*live.Ethernet, error) {
	p := dcb.PortConfig{Speed: dcb.Speed(e.gbit) * dcb.Gbit, MTU: e.mtu + wire.HeaderLen + wire.CheckLen, Pause: dcb.ByClass, Selection: e.ets}
	for _, i := range e.lossless {
		p.Lossless |= 1 << i
	}
	upDown, err := b.upDown()
	if err != nil {
		return nil, err
	}
	c := &live.Ethernet{
		UpDown: upDown,
		Link:   lan.Link{Port: p, Cable: dcb.FromDuration(b.cable)},
		Control: func(now time.Duration, n *lan.Network, attached control.Attached, question []byte) ([]byte, error) {
			return control.AnswerEthernet(now, n, attached, question)
		},
		Switch: bridge.Config{Hop: dcb.FromDuration(b.hop), StoreAndForward: b.store, Buffer: e.sharing},
		Each:   e.switches.each(f),
	}
	c.Switch.Buffer.Size = e.buffer
	if b.network != "" {
		prefix, err := netip.ParsePrefix(b.network)
		if err == nil {
			err = lan.CheckPrefix(f, prefix)
		}
		if err != nil {
			return nil, cli.UsageErrorf("--network: %v", err)
		}
		c.Prefix = prefix
	}
	for i := range c.Switch.Marking {
		c.Switch.Marking[i] = e.marking
	}
	if n := len(e.lossless); e.raise && n > 0 {
		c.Switch.Remark = bridge.RaisePriorities(uint8(e.lossless[0]), uint8(e.lossless[n-1]))
	}
	return c, nil
}

// greet says what was built and how to use it.
func (e *ethernet) greet(out io.Writer, name, from string, f *live.Fabric) error {
	reply, err := askFabric(f.Ask, control.Request{Verb: control.VerbStatus})
	if err != nil {
		return err
	}
	s := reply.Status
	var hosts []*control.Node
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.IP != "" {
			hosts = append(hosts, n)
		}
	}
	links := fmt.Sprintf("links of %d Gbit/s", e.gbit)
	if e.named {
		links = "links as the topology says"
	}
	fmt.Fprintf(out, "%s\n%s, lossless priorities: %s\n", summary(name, s), links, e.losslessText())
	fmt.Fprintf(out, `generated from %s

Look at it from another terminal:
  softrdma fabric links
  softrdma fabric counters
  softrdma fabric draw
`, from)
	if len(hosts) > 1 {
		a, b := hosts[0], hosts[len(hosts)-1]
		fmt.Fprintf(out, `
Its hosts are %s (%s) to %s (%s). Open them as RoCE v2 devices, for example:
  softrdma pingpong -d %s
  softrdma pingpong -d %s 127.0.0.1
`, a.Name, a.IP, b.Name, b.IP, quote("eth:"+name+"/"+a.Name), quote("eth:"+name+"/"+b.Name))
	}
	return nil
}

// askFabric asks the fabric of this process.
func askFabric(ask func(question []byte) (answer []byte, err error), r control.Request) (reply control.Reply, err error) {
	b, err := json.Marshal(r)
	if err == nil {
		b, err = ask(b)
	}
	if err == nil {
		err = json.Unmarshal(b, &reply)
	}
	return reply, err
}

func (e *ethernet) losslessText() string {
	if len(e.lossless) == 0 {
		return "none"
	}
	return strings.Trim(fmt.Sprint(e.lossless), "[]")
}

// printHosts lists the nodes of an Ethernet.
func printHosts(out io.Writer, s *control.Status) {
	t := cli.NewTable("NODE", "KIND", "ADDRESS", "MAC", "PORTS", "CABLES", "ACTIVE")
	for i := range s.Nodes {
		n := &s.Nodes[i]
		t.Row(n.Name, n.Kind, cmp.Or(strings.Join(n.IPs, ", "), "-"), n.MAC, n.Ports, n.Cables, n.Active)
	}
	_ = t.Print(out)
}
