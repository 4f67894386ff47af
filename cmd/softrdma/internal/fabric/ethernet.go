package fabric

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
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
	"softrdma/internal/topology"
	wire "softrdma/internal/wire/ethernet"
)

// ethernet has the flags of "fabric up --ethernet".
type ethernet struct {
	on       bool
	lossless []uint
	gbit     uint
	mtu      int
	buffer   int
}

// ethernetFlags are those that only an Ethernet has, and subnetFlags those that only an InfiniBand
// subnet has.
var (
	ethernetFlags = []string{"lossless", "gbit", "mtu", "buffer"}
	subnetFlags   = []string{"sm", "no-sm", "routing", "vls", "lmc", "priority", "partitions", "network", "trunk", "listen", trunkSecretFlag, "attach", attachSecretFlag}
)

// Speeds of links in Gbit/s.
var speeds = []uint{1, 2, 5, 10, 25, 40, 50, 100, 200, 400, 800}

func (e *ethernet) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&e.on, "ethernet", false, "build an Ethernet of switches and hosts, for RoCE v2, instead of an InfiniBand subnet")
	f.UintSliceVar(&e.lossless, "lossless", []uint{3}, "with --ethernet: `PRIORITIES` 0 to 7 that priority-based flow control pauses before they lose a frame")
	f.UintVar(&e.gbit, "gbit", 100, "with --ethernet: `SPEED` of each link in Gbit/s: 1 to 800")
	f.IntVar(&e.mtu, "mtu", 9000, "with --ethernet: `BYTES` of the longest IP packet, 1500 to 9000")
	f.IntVar(&e.buffer, "buffer", 4<<20, "with --ethernet: `BYTES` of each switch's shared buffer")
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
	return nil
}

// config is what the flags say.
func (e *ethernet) config(b *builder) (*live.Ethernet, error) {
	p := dcb.PortConfig{Speed: dcb.Speed(e.gbit) * dcb.Gbit, MTU: e.mtu + wire.HeaderLen + wire.CheckLen, Pause: dcb.ByClass}
	for _, i := range e.lossless {
		p.Lossless |= 1 << i
	}
	return &live.Ethernet{
		Link: lan.Link{Port: p, Cable: dcb.FromDuration(b.cable)},
		Control: func(now time.Duration, n *lan.Network, attached func(topology.End) int, question []byte) ([]byte, error) {
			return control.AnswerEthernet(now, n, attached, question)
		},
		Switch: bridge.Config{Hop: dcb.FromDuration(b.hop), StoreAndForward: b.store, Buffer: bridge.BufferConfig{Size: e.buffer}},
	}, nil
}

// greet says what was built and how to use it.
func (e *ethernet) greet(out io.Writer, name, from string, f *live.Fabric) error {
	question, err := json.Marshal(control.Request{Verb: control.VerbStatus})
	if err != nil {
		return err
	}
	var reply control.Reply
	answer, err := f.Ask(question)
	if err == nil {
		err = json.Unmarshal(answer, &reply)
	}
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
	fmt.Fprintf(out, "%s\nlinks of %d Gbit/s, lossless priorities: %s\n", summary(name, s), e.gbit, e.losslessText())
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
		address := n.IP
		if address == "" {
			address = "-"
		}
		t.Row(n.Name, n.Kind, address, n.MAC, n.Ports, n.Cables, n.Active)
	}
	_ = t.Print(out)
}
