//go:build interop && linux

package suites

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

const fabricLimit = 12 * time.Minute

// A fabricHost is a guest at a host of an Ethernet fabric of softrdma.
type fabricHost struct {
	*lab.Guest
	ip, mac string
	port    string // interface on the host that leads to the fabric
}

// An ethernetFabric runs in the lab's network namespace, with a guest at node-0 and the other one at node-2.
type ethernetFabric struct {
	lab     *lab.Lab
	command string
	env     string
	hosts   []fabricHost
}

// isHost matches what softrdma fabric tap prints.
var isHost = regexp.MustCompile(`is (\S+) of fabric fab0: ([0-9.]+)/8, ([0-9a-f:]+), MTU`)

// startEthernet puts the guests behind two leaf switches, until the test ends.
func startEthernet(ctx context.Context, t *testing.T, l *lab.Lab, speeds string, flags ...string) *ethernetFabric {
	t.Helper()
	f := &ethernetFabric{lab: l, command: program(t, l, "cmd/softrdma"), env: "SOFTRDMA_FABRIC_DIR=" + t.TempDir()}
	up := f.start(ctx, t, append([]string{"fabric", "up", "--ethernet", "--topology", "leaf-spine:leaves=2,spines=1,hosts=2" + speeds}, flags...)...)
	await(ctx, t, up, "softrdma pingpong")
	for i, g := range l.Guests {
		port, bridge := fmt.Sprintf("fabric%d", i), fmt.Sprintf("fbridge%d", i)
		tap := f.start(ctx, t, "fabric", "tap", "--guest", fmt.Sprintf("fab0/node-%d", 2*i), port)
		await(ctx, t, tap, "MTU")
		m := isHost.FindStringSubmatch(tap.Said())
		if m == nil {
			t.Fatalf("softrdma fabric tap said %q", tap.Said())
		}
		h := fabricHost{Guest: g, ip: m[2], mac: m[3], port: port}
		name, err := g.Detach(ctx)
		if err != nil {
			t.Fatal(err)
		}
		f.host(ctx, t, "ip", "link", "add", bridge, "mtu", "9000", "type", "bridge", "mcast_snooping", "0")
		for _, member := range []string{port, name} {
			f.host(ctx, t, "ip", "link", "set", member, "master", bridge)
		}
		f.host(ctx, t, "ip", "link", "set", bridge, "up")
		old, err := g.Run(ctx, "cat", "/sys/class/net/eth0/address")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			after, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			_ = tryInGuest(after, g, fmt.Sprintf("ip addr del %s/8 dev eth0; ip link set eth0 address %s", h.ip, strings.TrimSpace(old.Stdout)))
			_ = l.Host(after, "ip", "link", "del", bridge).Run()
			if err := g.Attach(after); err != nil {
				t.Error(err)
			}
		})
		inGuest(ctx, t, g, fmt.Sprintf("ip link set eth0 address %s && ip addr add %s/8 dev eth0", h.mac, h.ip))
		f.hosts = append(f.hosts, h)
	}
	return f
}

// start starts the command on the host.
func (f *ethernetFabric) start(ctx context.Context, t *testing.T, args ...string) *peers.Program {
	t.Helper()
	return peers.StartHost(ctx, t, f.lab, append([]string{"env", f.env, f.command}, args...)...)
}

// run runs the command on the host.
func (f *ethernetFabric) run(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	return f.host(ctx, t, append([]string{"env", f.env, f.command}, args...)...)
}

// host runs a program on the host.
func (f *ethernetFabric) host(ctx context.Context, t *testing.T, argv ...string) string {
	t.Helper()
	out, err := f.lab.Host(ctx, argv...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", argv, err, out)
	}
	return string(out)
}

// await waits until a program has said something.
func await(ctx context.Context, t *testing.T, p *peers.Program, text string) {
	t.Helper()
	for !strings.Contains(p.Said(), text) {
		select {
		case <-ctx.Done():
			t.Fatalf("%s does not say %q, but %q", p.Name, text, p.Said())
		case <-p.Done:
			t.Fatalf("%s has ended: %v, %q", p.Name, p.Err, p.Said())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// gidIndex is the index of the GID of RoCE v2 that a guest has for its address on the fabric.
func (h *fabricHost) gidIndex(ctx context.Context, t *testing.T) string {
	t.Helper()
	out, err := h.Run(ctx, "sh", "-c", "cd /sys/class/infiniband/rxe0/ports/1; for i in $(seq 0 15); do echo $i $(cat gids/$i gid_attrs/types/$i 2>/dev/null); done")
	if err != nil {
		t.Fatal(err)
	}
	var a, b, c, d int
	_, _ = fmt.Sscanf(h.ip, "%d.%d.%d.%d", &a, &b, &c, &d)
	gid := fmt.Sprintf("ffff:%02x%02x:%02x%02x", a, b, c, d)
	for _, line := range strings.Split(out.Stdout, "\n") {
		if strings.Contains(line, gid) && strings.Contains(line, "v2") {
			index, _, _ := strings.Cut(line, " ")
			return index
		}
	}
	t.Fatalf("no GID with %s in\n%s", gid, out.Stdout)
	return ""
}

// Linux's Soft RoCE in a guest and softrdma at another host of the fabric reach each other both ways, a capture of
// the guest's port has no malformed frame, and LLDP is on it.
func TestFabricPingpongBetweenGuestAndHost(t *testing.T) {
	l := openLab(t)
	ctx := within(t, fabricLimit)
	f := startEthernet(ctx, t, l, "")
	a := f.hosts[0]
	index := a.gidIndex(ctx, t)
	file := filepath.Join(t.TempDir(), "port.pcapng")
	capture := peers.StartHost(ctx, t, l, "dumpcap", "-q", "-i", a.port, "-w", file)
	await(ctx, t, capture, "File:")
	const iterations = "100"
	own := "eth:fab0/node-3"
	// The command exchanges its settings over TCP, by addresses of the lab's RoCE network, which the guest's other
	// interface does not have: the guest's side is reached by the network of iWARP.
	server := f.start(ctx, t, "pingpong", "-d", own, "-n", iterations, "-p", "18600")
	await(ctx, t, server, "local address")
	out, err := a.Run(ctx, "ibv_rc_pingpong", "-d", "rxe0", "-g", index, "-n", iterations, "-p", "18600", lab.HostIWARPv4)
	if err != nil {
		t.Fatalf("%v\nsoftrdma said:\n%s", err, server.Said())
	}
	t.Logf("guest to host: %s", peers.LastLine(out.Stdout))
	guest := peers.StartGuest(ctx, t, a.Guest, "ibv_rc_pingpong", "-d", "rxe0", "-g", index, "-n", iterations, "-p", "18601")
	if err := a.WaitListen(ctx, 18601); err != nil {
		t.Fatal(err)
	}
	t.Logf("host to guest: %s", peers.LastLine(f.run(ctx, t, "pingpong", "-d", own, "-n", iterations, "-p", "18601", a.IWARPv4)))
	<-guest.Done
	if guest.Err != nil {
		t.Error(guest.Err)
	}
	capture.Interrupt()
	<-capture.Done
	count := func(filter string) int {
		return strings.Count(f.host(ctx, t, "sh", "-c", fmt.Sprintf("tshark -r %s -Y %q 2>/dev/null", file, filter)), "\n")
	}
	if n := count("_ws.malformed"); n != 0 {
		t.Errorf("%d malformed frames:\n%s", n, f.host(ctx, t, "sh", "-c", fmt.Sprintf("tshark -r %s -Y _ws.malformed -Vx 2>/dev/null", file)))
	}
	if n := count("infiniband"); n < 2*100 {
		t.Errorf("%d packets of RoCE in the capture", n)
	}
}

// TCP of the guests passes the fabric, and RDMA between them shares a link with test traffic that takes all of
// it. RDMA is as quick as before if DSCP maps the two apart, and waits in the queue of the other traffic otherwise.
func TestFabricRDMABesideOtherTraffic(t *testing.T) {
	l := openLab(t)
	ctx := within(t, fabricLimit)
	// 32 MB of a queue are a quarter of a second.
	f := startEthernet(ctx, t, l, ",speed=10G,switch-speed=1G", "--buffer", strconv.Itoa(64<<20))
	a, b := &f.hosts[0], &f.hosts[1]
	server := peers.StartGuest(ctx, t, b.Guest, "iperf3", "-s", "-1")
	if err := b.WaitListen(ctx, 5201); err != nil {
		t.Fatal(err)
	}
	out, err := a.Run(ctx, "iperf3", "-c", b.ip, "-t", "5", "-f", "m")
	if err != nil {
		t.Fatal(err)
	}
	<-server.Done
	t.Logf("iperf3: %.0f Mbit/s", rate(t, out.Stdout, `([0-9.]+) Mbits/sec.*receiver`))
	index := map[*fabricHost]string{a: a.gidIndex(ctx, t), b: b.gidIndex(ctx, t)}
	// The two ends connect over the other network: messages of rdma_cm would wait in the full queue as well.
	latency := func(priority, beside int) float64 {
		args := func(h *fabricHost) []string {
			return []string{"ib_write_lat", "-d", "rxe0", "-x", index[h], "--tclass", strconv.Itoa(priority << 5), "-n", "300", "-s", "64"}
		}
		if beside >= 0 {
			f.run(ctx, t, "fabric", "load", "node-1", "node-3", "--sl", strconv.Itoa(beside), "--size", "4096", "--rate", "40000", "--packets", "1000000")
			time.Sleep(3 * time.Second) // until the queue is full
		}
		server := peers.StartGuest(ctx, t, b.Guest, args(b)...)
		if err := b.WaitListen(ctx, 18515); err != nil {
			t.Fatal(err)
		}
		out, err := a.Run(ctx, append(args(a), b.IWARPv4)...)
		if err != nil {
			t.Fatal(err)
		}
		<-server.Done
		f.run(ctx, t, "fabric", "load", "--stop")
		return rate(t, out.Stdout, `\n\s*64\s+300\s+\S+\s+\S+\s+\S+\s+([0-9.]+)`)
	}
	alone, apart, together := latency(3, -1), latency(3, 0), latency(0, 0)
	t.Logf("ib_write_lat: %.0f us alone, %.0f beside traffic of another priority, %.0f beside traffic of the same one", alone, apart, together)
	if together < 2*apart {
		t.Errorf("on one priority a WRITE takes %.0f us, apart %.0f us: expected at least twice as much", together, apart)
	}
}

// rate is the number that a pattern finds.
func rate(t *testing.T, out, pattern string) float64 {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no %s in\n%s", pattern, out)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
