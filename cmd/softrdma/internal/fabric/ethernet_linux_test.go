package fabric

import (
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/clitest"
	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/topology"
)

func TestEthernetFabric(t *testing.T) {
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	p := clitest.Start(t, "fabric", "up", "--ethernet", "--topology", "star:3", "--gbit", "25", "--lossless", "3,4")
	p.Prints("softrdma pingpong -d eth:fab0/node-2 127.0.0.1")
	expect(t, clitest.Run(t, "fabric", "status"), "fabric fab0: 1 switch, 3 hosts, 3 links (3 active)", "node-1    host    10.0.0.2, fd00::a00:2  02:00:00:00:00:03")
	port := clitest.FreePort(t)
	server := clitest.Start(t, "pingpong", "-d", "eth:fab0/node-0", "-n", "10", "-p", port)
	server.Prints("local address")
	expect(t, clitest.Run(t, "pingpong", "-d", "eth:fab0/node-1", "-n", "10", "-p", port, "127.0.0.1"), "GID ::ffff:10.0.0.2", "10 iters")
	expect(t, clitest.Run(t, "fabric", "links", "-i", "0"), "LINK", "node-0", "active  25G")
	expect(t, clitest.Run(t, "fabric", "counters", "node-0"), "priority 0 frames sent")
	expect(t, clitest.Run(t, "fabric", "deadlock"), "no deadlock of frames that hosts send with priority 3, 4", "No priority stands still.")
	expect(t, clitest.Run(t, "fabric", "routes", "switch-0"), "10.0.0.2/32      node-1", "fd00::a00:2/128  node-1")
	expect(t, clitest.Run(t, "fabric", "trace", "node-0", "node-1", "--sl", "3"), "from node-0 (10.0.0.1) to node-1 (10.0.0.2) with priority 3", "arrives at port 1")
	expect(t, clitest.Run(t, "fabric", "stall", "node-2", "--sl", "3"), "node-2 takes no packets of priority 3")
	clitest.Run(t, "fabric", "load", "node-1", "node-2", "--sl", "3", "--packets", "2000")
	until(t, "a host that takes no packets", "fabric", "deadlock")
	expect(t, clitest.Run(t, "fabric", "draw", "-i", "0"), "switch-0:3 priority 3 → node-2: paused for", "the host takes nothing")
	expect(t, clitest.Run(t, "fabric", "stall", "node-2", "--none"), "all hosts take packets")
	until(t, "2000  2000     2000", "fabric", "load")
	expect(t, clitest.Run(t, "fabric", "faults", "node-2", "--pause-loss", "0.5"), "node-2 - switch-0:3: pause loss 0.5")
	clitest.Start(t, "fabric", "faults", "node-2", "--credit-loss", "0.5").Fails(cli.ExitFailed, "which only InfiniBand has")
	expect(t, clitest.Run(t, "fabric", "link", "down", "node-2"), "node-2 - switch-0:3: cut")
	until(t, "eth:fab0/node-2  CUT", "devices")
	expect(t, clitest.Run(t, "fabric", "draw"), "node-1")
	clitest.Start(t, "fabric", "sm", "off").Fails(cli.ExitFailed, "sm: expected an InfiniBand fabric, found an Ethernet")
	p.Suspend()
	clitest.Start(t, "fabric", "status").Fails(cli.ExitPeer, "fabric fab0 does not answer", "is stopped, and kill -CONT")
	clitest.Start(t, "fabric", "down", "--name", "fab0").Fails(cli.ExitPeer, "is stopped, and kill -CONT")
	if err := p.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	clitest.Start(t, "pingpong", "-d", "ib:fab0/node-0").Fails(cli.ExitFailed, "fabric fab0 is Ethernet: expected a device of it, eth:fab0/node-0:1")
}

func TestEthernetFlagsAreChecked(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--routing: expected auto, minhop or updn with --ethernet, found torus", []string{"--ethernet", "--routing", "torus"}},
		{"--gbit: expected --ethernet beside it", []string{"--gbit", "10"}},
		{"--gbit: expected one of [1 2 5 10 25 40 50 100 200 400 800], found 3", []string{"--ethernet", "--gbit", "3"}},
		{"--network: expected a prefix of IPv4 of up to 21 bits for 5 nodes, like 10.0.0.0/21; found 10.0.0.0/24", []string{"--ethernet", "--network", "10.0.0.0/24"}},
		{"--mtu: expected 1500 to 9000, found 100", []string{"--ethernet", "--mtu", "100"}},
		{"--lossless: expected priorities 0 to 7, found 8", []string{"--ethernet", "--lossless", "8"}},
		{"--buffer: expected 65536 to 1073741824, found 1", []string{"--ethernet", "--buffer", "1"}},
		{"--buffer: expected 65536 to 1073741824, found 4611686018427387904", []string{"--ethernet", "--buffer", "4611686018427387904"}},
		{"--hop and --cable: expected durations greater than 0, up to 1h0m0s", []string{"--ethernet", "--cable", "2562047h"}},
		{"--watchdog: expected --ethernet beside it", []string{"--watchdog", "1ms"}},
		{"--watchdog: expected a duration greater than 0, up to 1h0m0s, found 2h0m0s", []string{"--ethernet", "--watchdog", "2h"}},
		{"--watchdog-restore: expected --watchdog beside it", []string{"--ethernet", "--watchdog-restore", "1ms"}},
		{"--watchdog-forward: expected --watchdog beside it", []string{"--ethernet", "--watchdog-forward"}},
		{"--storm-control: expected 1 to 800000 Mbit/s, found 0", []string{"--ethernet", "--storm-control", "0"}},
		{"--storm-burst: expected --storm-control beside it", []string{"--ethernet", "--storm-burst", "9022"}},
		{"--storm-burst: expected 9022, a longest frame, to 1073741824, found 9021", []string{"--ethernet", "--storm-control", "1", "--storm-burst", "9021"}},
		{"--alpha: expected lossless, lossy or queue with a power of 2 from 1/256 to 256, found lossy=3", []string{"--ethernet", "--alpha", "lossless=1,lossy=3"}},
		{"--alpha: expected lossless, lossy or queue with a power of 2 from 1/256 to 256, found all=1", []string{"--ethernet", "--alpha", "all=1"}},
		{"--reserve: expected 0 to 4194304, found -1", []string{"--ethernet", "--reserve", "-1"}},
		{"--resume: expected 1 to 4194304, found 0", []string{"--ethernet", "--resume", "0"}},
	} {
		clitest.Start(t, append([]string{"fabric", "up"}, c.args...)...).Fails(cli.ExitUsage, c.want)
	}
}

func TestAlphasArePowersOfTwo(t *testing.T) {
	for text, want := range map[string]bridge.Alpha{"1": 0, "1/1": 0, "8": 3, "1/8": -3, "256": bridge.MaxAlpha, "1/256": bridge.MinAlpha} {
		if a, ok := parseAlpha(text); !ok || a != want {
			t.Errorf("%s: %d, %v, expected %d", text, a, ok, want)
		}
	}
	for _, text := range []string{"", "0", "3", "512", "1/512", "2/8", "1/", "-1", "1/1/2", "65536"} {
		if a, ok := parseAlpha(text); ok {
			t.Errorf("%q: %d", text, a)
		}
	}
}

// The flags reach the ports that they are for: those of switches, and of these, for floods, those at which
// hosts are, and those without a cable, which may have a trunk.
func TestSwitchFlagsReachTheSwitches(t *testing.T) {
	e, cmd := &ethernet{}, &cobra.Command{}
	e.addFlags(cmd.Flags())
	err := cmd.ParseFlags([]string{"--ethernet", "--watchdog", "5ms", "--watchdog-restore", "9ms", "--watchdog-forward", "--storm-control", "7", "--storm-burst", "20000",
		"--alpha", "lossless=1/8,lossy=2,queue=1/2", "--reserve", "3000", "--resume", "4000", "--buffer", "2000000"})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.check(cmd); err != nil {
		t.Fatal(err)
	}
	f, err := topology.Generate("leaf-spine:leaves=2,spines=1,hosts=1,spare=1")
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.config(&builder{routing: automatic}, f)
	if err != nil {
		t.Fatal(err)
	}
	if want := (bridge.BufferConfig{Size: 2_000_000, Reserve: 3000, Lossless: -3, Lossy: 1, Queue: -1, Resume: 4000}); c.Switch.Buffer != want {
		t.Errorf("%+v, expected %+v", c.Switch.Buffer, want)
	}
	watchdog := dcb.Watchdog{Detect: 5 * dcb.Millisecond, Restore: 9 * dcb.Millisecond, Forward: true}
	storm := bridge.Storm{Rate: 7 * dcb.Mbit, Burst: 20_000}
	seen := 0
	for i := range f.Nodes {
		for p := 1; p <= f.Nodes[i].NumPorts(); p++ {
			at := topology.End{Node: i, Port: p}
			peer, l := f.Port(at).Peer, c.Link
			c.Each(at, &l)
			own := f.Nodes[i].Kind == topology.Switch
			edge := own && (peer.Port == 0 || f.Nodes[peer.Node].Kind != topology.Switch)
			if (l.Port.Watchdog == watchdog) != own || (l.Port.Watchdog == dcb.Watchdog{}) == own || (l.Storm == storm) != edge || (l.Storm == bridge.Storm{}) == edge {
				t.Errorf("%s: %+v, %+v", f.EndName(at), l.Port.Watchdog, l.Storm)
			}
			if edge {
				seen++
			}
		}
	}
	if seen != 2+3 {
		t.Errorf("%d ports with hosts or for trunks", seen)
	}
}

// A watchdog ends what a host that takes nothing does to others.
func TestWatchdogOfAFabricDropsWhatIsPausedForTooLong(t *testing.T) {
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	another(t, "--ethernet", "--topology", "star:2", "--watchdog", "1ms")
	clitest.Run(t, "fabric", "stall", "node-1", "--sl", "3")
	clitest.Run(t, "fabric", "load", "node-0", "node-1", "--sl", "3", "--packets", "2000")
	until(t, "ETHERNET_PAUSE_STORM", "fabric", "counters", "switch-0:2")
	expect(t, clitest.Run(t, "fabric", "counters", "switch-0:2"), "priority 3 storms")
}

func TestBufferWithoutRoomForHeadroomIsRefused(t *testing.T) {
	t.Setenv("SOFTRDMA_FABRIC_DIR", t.TempDir())
	clitest.Start(t, "fabric", "up", "--ethernet", "--buffer", "65536").Fails(cli.ExitFailed, "switch-0: expected a buffer of more than the", "found 65536 (--buffer)")
}
