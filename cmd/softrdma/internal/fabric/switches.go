package fabric

import (
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/topology"
	wire "softrdma/internal/wire/ethernet"
)

// switches has the flags of "fabric up --ethernet" for what switches do about pauses that do not end and
// about floods, and how their ports share the buffer.
type switches struct {
	detect, restore time.Duration
	forward         bool
	storm           uint
	burst           int
	alphas          map[string]string
	sharing         bridge.BufferConfig
}

var switchFlags = []string{"watchdog", "watchdog-restore", "watchdog-forward", "storm-control", "storm-burst", "alpha", "reserve", "resume"}

func (s *switches) addFlags(f *pflag.FlagSet) {
	f.DurationVar(&s.detect, "watchdog", 0, "with --ethernet: switches drop the frames of a queue that has been paused for `DURATION`, such as 200ms, until the neighbor ends its pauses (default: never)")
	f.DurationVar(&s.restore, "watchdog-restore", 0, "with --watchdog: `DURATION` without a pause after which a switch drops no more (default that of --watchdog)")
	f.BoolVar(&s.forward, "watchdog-forward", false, "with --watchdog: switches send in spite of the pauses, instead of dropping")
	f.UintVar(&s.storm, "storm-control", 0, "with --ethernet: limit the frames of a host or trunk that its switch floods to `MBIT` in a second (default: no limit)")
	f.IntVar(&s.burst, "storm-burst", 64<<10, "with --storm-control: `BYTES` that may come at once")
	f.StringToStringVar(&s.alphas, "alpha", nil, "with --ethernet: `WHAT=ALPHA,...`: arrivals of a port and priority may take alpha times the free buffer, with WHAT lossless or lossy, and a lossy priority's frames for a port, with WHAT queue; powers of 2, such as lossless=1/8,queue=2 (default 1)")
	f.IntVar(&s.sharing.Reserve, "reserve", 0, "with --ethernet: `BYTES` of the buffer that each port and priority has for itself")
	f.IntVar(&s.sharing.Resume, "resume", bridge.DefaultResume, "with --ethernet: `BYTES` below the threshold at which a switch ends a pause")
}

// check refuses what does not fit together.
func (s *switches) check(cmd *cobra.Command, e *ethernet) error {
	for _, pair := range [][2]string{{"watchdog-restore", "watchdog"}, {"watchdog-forward", "watchdog"}, {"storm-burst", "storm-control"}} {
		if cli.FlagGiven(cmd, pair[0]) && !cli.FlagGiven(cmd, pair[1]) {
			return cli.UsageErrorf("--%s: expected --%s beside it", pair[0], pair[1])
		}
	}
	for _, d := range []struct {
		flag string
		of   time.Duration
	}{{"watchdog", s.detect}, {"watchdog-restore", s.restore}} {
		if cli.FlagGiven(cmd, d.flag) && (d.of <= 0 || d.of > longest) {
			return cli.UsageErrorf("--%s: expected a duration greater than 0, up to %v, found %v", d.flag, longest, d.of)
		}
	}
	frame := e.mtu + wire.HeaderLen + wire.TagLen + wire.CheckLen
	switch {
	case cli.FlagGiven(cmd, "storm-control") && (s.storm < 1 || s.storm > maxMbit):
		return cli.UsageErrorf("--storm-control: expected 1 to %d Mbit/s, found %d", maxMbit, s.storm)
	case s.burst < frame || s.burst > 1<<30:
		return cli.UsageErrorf("--storm-burst: expected %d, a longest frame, to %d, found %d", frame, 1<<30, s.burst)
	case s.sharing.Reserve < 0 || s.sharing.Reserve > e.buffer:
		return cli.UsageErrorf("--reserve: expected 0 to %d, found %d", e.buffer, s.sharing.Reserve)
	case s.sharing.Resume < 1 || s.sharing.Resume > e.buffer:
		return cli.UsageErrorf("--resume: expected 1 to %d, found %d", e.buffer, s.sharing.Resume)
	}
	into := map[string]*bridge.Alpha{"lossless": &s.sharing.Lossless, "lossy": &s.sharing.Lossy, "queue": &s.sharing.Queue}
	for _, what := range slices.Sorted(maps.Keys(s.alphas)) {
		a, ok := parseAlpha(s.alphas[what])
		if !ok || into[what] == nil {
			return cli.UsageErrorf("--alpha: expected lossless, lossy or queue with a power of 2 from 1/%d to %d, found %s=%s", 1<<-bridge.MinAlpha, 1<<bridge.MaxAlpha, what, s.alphas[what])
		}
		*into[what] = a
	}
	return nil
}

// maxMbit is the speed of the fastest link, 800 Gbit/s.
const maxMbit = 800_000

// parseAlpha reads a power of 2, such as 8 or 1/8.
func parseAlpha(text string) (a bridge.Alpha, ok bool) {
	number, less := strings.CutPrefix(text, "1/")
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 || n&(n-1) != 0 || n > 1<<bridge.MaxAlpha {
		return 0, false
	}
	if a = bridge.Alpha(bits.TrailingZeros64(n)); less {
		a = -a
	}
	return a, true
}

// each returns what changes the links of a fabric, for lan.Config. A watchdog is for the ports of switches,
// and storm control for those at which hosts or trunks are: those that lead to no other switch of the fabric.
func (s *switches) each(f *topology.Fabric) func(topology.End, *lan.Link) {
	return func(e topology.End, l *lan.Link) {
		if f.Nodes[e.Node].Kind != topology.Switch {
			return
		}
		l.Port.Watchdog = dcb.Watchdog{Detect: dcb.FromDuration(s.detect), Restore: dcb.FromDuration(s.restore), Forward: s.forward}
		if peer := f.Port(e).Peer; s.storm != 0 && (peer.Port == 0 || f.Nodes[peer.Node].Kind != topology.Switch) {
			l.Storm = bridge.Storm{Rate: dcb.Speed(s.storm) * dcb.Mbit, Burst: s.burst}
		}
	}
}
