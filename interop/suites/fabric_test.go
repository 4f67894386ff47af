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
	index   string // of the GID of RoCE v2 that the guest has for its address
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
		h.index = h.gidIndex(ctx, t)
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
	file := filepath.Join(t.TempDir(), "port.pcapng")
	capture := peers.StartHost(ctx, t, l, "dumpcap", "-q", "-i", a.port, "-w", file)
	await(ctx, t, capture, "File:")
	const iterations = "100"
	own := "eth:fab0/node-3"
	// The command exchanges its settings over TCP, by addresses of the lab's RoCE network, which the guest's other
	// interface does not have: the guest's side is reached by the network of iWARP.
	server := f.start(ctx, t, "pingpong", "-d", own, "-n", iterations, "-p", "18600")
	await(ctx, t, server, "local address")
	out, err := a.Run(ctx, "ibv_rc_pingpong", "-d", "rxe0", "-g", a.index, "-n", iterations, "-p", "18600", lab.HostIWARPv4)
	if err != nil {
		t.Fatalf("%v\nsoftrdma said:\n%s", err, server.Said())
	}
	t.Logf("guest to host: %s", peers.LastLine(out.Stdout))
	guest := peers.StartGuest(ctx, t, a.Guest, "ibv_rc_pingpong", "-d", "rxe0", "-g", a.index, "-n", iterations, "-p", "18601")
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

// perftest runs a program of perftest between the guests, from a to b, and returns what it prints at a. It runs it again if the
// program has measured the guest's clock and found that it runs unevenly, as it may on a busy machine.
func (f *ethernetFabric) perftest(ctx context.Context, t *testing.T, a, b *fabricHost, program string, options ...string) string {
	t.Helper()
	argv := func(h *fabricHost) []string {
		return append([]string{program, "-d", "rxe0", "-x", h.index}, options...)
	}
	for {
		server := peers.StartGuest(ctx, t, b.Guest, argv(b)...)
		if err := b.WaitListen(ctx, 18515); err != nil {
			t.Fatal(err)
		}
		// The two ends connect over the other network: their messages would wait in the queue as well.
		out, err := a.Run(ctx, append(argv(a), b.IWARPv4)...)
		<-server.Done
		if err == nil {
			return out.Stdout
		}
		if !strings.Contains(out.Stdout+out.Stderr, "Can't produce a report") {
			t.Fatalf("%v\nthe server said:\n%s", err, server.Said())
		}
	}
}

// tcp sends TCP with a type of service from a to b, as much as it can, until end is called, which returns its Mbit/s of each
// second.
func (f *ethernetFabric) tcp(ctx context.Context, t *testing.T, a, b *fabricHost, tos int) (end func() []float64) {
	t.Helper()
	server := peers.StartGuest(ctx, t, b.Guest, "iperf3", "-s", "-1")
	if err := b.WaitListen(ctx, 5201); err != nil {
		t.Fatal(err)
	}
	client := peers.StartGuest(ctx, t, a.Guest, "iperf3", "-c", b.ip, "-t", "600", "-M", "1400", "-S", strconv.Itoa(tos), "-f", "m", "--forceflush")
	seconds := func() (rates []float64) {
		for _, m := range regexp.MustCompile(`-[0-9.]+\s+sec .*?([0-9.]+) Mbits/sec`).FindAllStringSubmatch(client.Said(), -1) {
			r, _ := strconv.ParseFloat(m[1], 64)
			rates = append(rates, r)
		}
		return rates
	}
	const filled = 5 // seconds until TCP has filled the queue
	for len(seconds()) < filled {
		select {
		case <-client.Done:
			t.Fatalf("iperf3 ended: %v", client.Err)
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
	return func() []float64 {
		rates := seconds()[filled:]
		client.Kill()
		<-client.Done
		server.Kill()
		<-server.Done
		return rates
	}
}

// RDMA of two guests shares a link with their TCP, which takes all of it. RDMA has as much of it as alone if DSCP maps the
// two apart. If TCP has the priority of RDMA, RDMA has less, and waits in the queue of TCP.
func TestFabricRDMABesideTCP(t *testing.T) {
	l := openLab(t)
	ctx := within(t, fabricLimit)
	// Emulated guests on a busy machine fill 10 Mbit/s, so that the queue of the switch decides, and not their processors.
	f := startEthernet(ctx, t, l, ",speed=100M,switch-speed=10M", "--share", "0=5,3=95", "--buffer", strconv.Itoa(256<<10))
	a, b := &f.hosts[0], &f.hosts[1]
	const lossy, lossless = 0, 3 << 5
	const timeout = "17" // half a second, which the queue does not take
	measure := func(name string) (latency, bandwidth float64) {
		t.Helper()
		out := f.perftest(ctx, t, a, b, "ib_write_lat", "--tclass", strconv.Itoa(lossless), "-u", timeout, "-n", "50", "-s", "64")
		latency = rate(t, out, `\n\s*64\s+50\s+\S+\s+\S+\s+\S+\s+([0-9.]+)`) / 1000
		out = f.perftest(ctx, t, a, b, "ib_write_bw", "--tclass", strconv.Itoa(lossless), "-u", timeout, "-D", "10", "-t", "8", "-s", "16384", "--report_gbits")
		bandwidth = 1000 * rate(t, out, `\n\s*16384\s+\d+\s+\S+\s+([0-9.]+)`)
		t.Logf("RDMA %s: ib_write_lat %.1f ms, ib_write_bw %.1f Mbit/s", name, latency, bandwidth)
		return latency, bandwidth
	}
	_, alone := measure("alone")
	end := f.tcp(ctx, t, a, b, lossy)
	apartLatency, apart := measure("beside TCP of another priority")
	t.Logf("iperf3 beside it, in Mbit/s: %.0f", end())
	end = f.tcp(ctx, t, a, b, lossless)
	sameLatency, same := measure("beside TCP of the same priority")
	t.Logf("iperf3 beside it, in Mbit/s: %.0f", end())
	if apart < .8*alone {
		t.Errorf("beside TCP of another priority RDMA had %.1f Mbit/s, expected four fifths of %.1f at least", apart, alone)
	}
	if same > .7*apart {
		t.Errorf("beside TCP of the same priority RDMA had %.1f Mbit/s, expected seven tenths of %.1f at most", same, apart)
	}
	if sameLatency < 3*apartLatency {
		t.Errorf("on the priority of TCP a WRITE takes %.1f ms, apart %.1f ms: expected at least three times as much", sameLatency, apartLatency)
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
