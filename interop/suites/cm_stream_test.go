//go:build interop && linux

package suites

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// rstreamSizes returns the sizes of rstream -S all, up to one and a half times most. rstream transfers each 10,000 times,
// which takes hours in an emulated guest. Here each size is a run of a few transfers.
func rstreamSizes(most int) []int {
	sizes := []int{64}
	for size := 128; size <= most; size *= 2 {
		sizes = append(sizes, size, size+size/2)
	}
	return sizes
}

// rstreamLoop returns a command that runs Linux's rstream once for each size. The shell increases the port by step.
func rstreamLoop(end, addr string, port, step, most int) []string {
	script := fmt.Sprintf(`port=%d; for size; do rstream %s %s -S $size -I 1 -C 2 -T v -p $port >/run/rstream.$port 2>&1 || { echo size $size:; cat /run/rstream.$port; exit 1; }; port=$((port + %d)); done`, port, end, addr, step)
	return append([]string{"sh", "-c", script, "rstream"}, strings.Fields(joinSizes(" ", most))...)
}

func joinSizes(separator string, most int) string {
	var words []string
	for _, size := range rstreamSizes(most) {
		words = append(words, strconv.Itoa(size))
	}
	return strings.Join(words, separator)
}

// TestCMRstreamEverySize streams every size of rstream both ways, with softrdma as server and as client at the same time.
func TestCMRstreamEverySize(t *testing.T) { rstreamEverySize(t, false, 4<<20) }

func rstreamEverySize(t *testing.T, iwarp bool, most int) {
	l := openLab(t)
	p := cmProgram{iwarp: iwarp}
	cmpeer, theirAddr, second := p.network().cmpeer(t, l), p.network().guest(l.Guests[1]), lab.HostIPv4Second
	if iwarp {
		second = lab.HostIWARPv4Second
	}
	const timeLimit = 5 * time.Minute
	options := []string{"-S", joinSizes(",", most), "-I", "1", "-C", "2"}
	ctx := within(t, timeLimit)

	served := lab.NextPort()
	server := peers.StartHost(ctx, t, l, slices.Concat(cmpeer, []string{"rstream", "-b", second, "-p", strconv.Itoa(served)}, options)...)
	if err := server.AwaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	client := peers.StartGuest(ctx, t, l.Guests[0], rstreamLoop("-s", second, served, 0, most)...)

	t.Run("linux_serves_softrdma", func(t *testing.T) {
		first := lab.NextPort()
		for range rstreamSizes(most) {
			lab.NextPort()
		}
		theirs := peers.StartGuest(ctx, t, l.Guests[1], rstreamLoop("-b", theirAddr, first, 1, most)...)
		if err := l.Guests[1].WaitRDMAListen(ctx, first); err != nil {
			t.Fatal(err)
		}
		ours := peers.StartHost(ctx, t, l, slices.Concat(cmpeer, []string{"rstream", "-s", theirAddr, "-p", strconv.Itoa(first)}, options)...)
		ours.Succeeds(t, timeLimit)
		theirs.Succeeds(t, timeLimit)
	})
	t.Run("softrdma_serves_linux", func(t *testing.T) {
		client.Succeeds(t, timeLimit)
		server.Succeeds(t, timeLimit)
	})
	for _, g := range l.Guests {
		p.network().awaitIdle(ctx, t, g)
	}
}

// TestCMRcopyFileArrivesWhole copies a file of some megabytes: the guest's kernel.
func TestCMRcopyFileArrivesWhole(t *testing.T) { rcopyFileArrivesWhole(t, false) }

func rcopyFileArrivesWhole(t *testing.T, iwarp bool) {
	l := openLab(t)
	p := cmProgram{iwarp: iwarp}
	device := p.network().host()
	if iwarp {
		device = "iwarp:" + device
	}
	softrdma := program(t, l, "cmd/softrdma")
	file := l.Kernel.Image()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	want := hex.EncodeToString(sum[:])
	g := l.Guests[0]
	// serve starts Linux's server, which does not end by itself.
	serve := func(ctx context.Context, t *testing.T, g *lab.Guest) (*peers.Program, string) {
		port := lab.NextPort()
		server := peers.StartGuest(ctx, t, g, "rcopy", "-p", strconv.Itoa(port))
		if err := g.WaitRDMAListen(ctx, port); err != nil {
			t.Fatal(err)
		}
		return server, strconv.Itoa(port)
	}
	check := func(ctx context.Context, t *testing.T, g *lab.Guest, path string) {
		r, err := g.Run(ctx, "sha256sum", path)
		if err != nil || !strings.HasPrefix(r.Stdout, want) {
			t.Errorf("%s has the SHA-256 %s %v, expected %s", path, r.Stdout, err, want)
		}
	}
	t.Run("softrdma_serves_linux", func(t *testing.T) {
		ctx := within(t, 2*cmTimeLimit)
		to := filepath.Join(l.Dir(), "copied")
		port := strconv.Itoa(lab.NextPort())
		server := peers.StartHost(ctx, t, l, softrdma, "rcopy", "-a", device, "-p", port, "--dir", filepath.Dir(to), "--once")
		if err := server.AwaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		peers.StartGuest(ctx, t, g, "rcopy", file, p.network().host()+":"+filepath.Base(to), "-p", port).Succeeds(t, cmTimeLimit)
		server.Succeeds(t, cmTimeLimit)
		got, err := os.ReadFile(to)
		if sum := sha256.Sum256(got); err != nil || hex.EncodeToString(sum[:]) != want {
			t.Errorf("%d bytes with the SHA-256 %x arrived, %v; expected %d with %s", len(got), sum, err, len(content), want)
		}
	})
	t.Run("linux_serves_softrdma", func(t *testing.T) {
		ctx := within(t, 2*cmTimeLimit)
		server, port := serve(ctx, t, g)
		peers.StartHost(ctx, t, l, softrdma, "rcopy", "-I", device, file, p.network().guest(g)+":/run/copied", "-p", port).Succeeds(t, cmTimeLimit)
		check(ctx, t, g, "/run/copied")
		server.Kill()
		<-server.Done
	})
	t.Run("linux_serves_itself", func(t *testing.T) {
		ctx := within(t, 2*cmTimeLimit)
		server, port := serve(ctx, t, l.Guests[1])
		peers.StartGuest(ctx, t, g, "rcopy", file, p.network().guest(l.Guests[1])+":/run/copied", "-p", port).Succeeds(t, cmTimeLimit)
		check(ctx, t, l.Guests[1], "/run/copied")
		server.Kill()
		<-server.Done
	})
}

// TestCMIperf3UnderPreload runs an unmodified socket program in the guest against one that knows only net.Conn.
//
// The guest's iperf3 is the client: Debian's librspreload 44.0 answers a server's select with the wrong descriptor, so
// that iperf3 -s reads nothing from any peer, including Linux. -R reverses the direction of the data.
func TestCMIperf3UnderPreload(t *testing.T) {
	l := openLab(t)
	cmpeer := program(t, l, "interop/peers/cmpeer")
	for _, run := range []struct {
		name    string
		options []string
	}{{"linux_sends", nil}, {"linux_sends_2_streams", []string{"-P", "2"}}, {"softrdma_sends_2_streams", []string{"-P", "2", "-R"}}} {
		t.Run(run.name, func(t *testing.T) {
			ctx := within(t, 2*cmTimeLimit)
			port := strconv.Itoa(lab.NextPort())
			server := peers.StartHost(ctx, t, l, cmpeer, "iperf3", "-B", lab.HostIPv4, "-p", port)
			if err := server.AwaitServing(ctx); err != nil {
				t.Fatal(err)
			}
			argv := append([]string{"env", "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so",
				"iperf3", "-c", lab.HostIPv4, "-p", port, "-t", "1"}, run.options...)
			client := peers.StartGuest(ctx, t, l.Guests[0], argv...)
			client.Succeeds(t, cmTimeLimit)
			if said := client.Said(); !strings.Contains(said, "iperf Done.") {
				t.Errorf("iperf3 does not say that it is done, but:\n%s", lab.Tail(said, 1500))
			}
			server.Succeeds(t, cmTimeLimit)
			t.Log(strings.TrimSpace(server.Said()))
		})
	}
}

// TestCMMulticastReachesEveryMember sends to a group from Linux to Linux and softrdma, and from softrdma to both guests.
// Linux's mckey waits 3 s after it has joined.
func TestCMMulticastReachesEveryMember(t *testing.T) {
	l := openLab(t)
	cmpeer := program(t, l, "interop/peers/cmpeer")
	a, b := l.Guests[0], l.Guests[1]
	mckey := func(group, bind string, options ...string) []string {
		return append([]string{"mckey", "-m", group, "-b", bind}, options...)
	}
	t.Run("linux_sends", func(t *testing.T) {
		ctx := within(t, 2*cmTimeLimit)
		const group = "239.77.1.1"
		ours := peers.StartHost(ctx, t, l, append([]string{cmpeer}, mckey(group, lab.HostIPv4)...)...)
		if err := ours.AwaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		theirs := peers.StartGuest(ctx, t, b, mckey(group, b.IPv4)...)
		if err := awaitMember(ctx, b, group); err != nil {
			t.Fatal(err)
		}
		sender := peers.StartGuest(ctx, t, a, mckey(group, a.IPv4, "-s")...)
		for _, e := range []*peers.Program{sender, ours, theirs} {
			e.Succeeds(t, cmTimeLimit)
		}
		if said := ours.Said(); !strings.Contains(said, "joined dgid: ::ffff:"+group) {
			t.Errorf("softrdma does not have the group's GID of Linux, but says:\n%s", said)
		}
	})
	t.Run("softrdma_sends", func(t *testing.T) {
		ctx := within(t, 2*cmTimeLimit)
		const group = "239.77.1.2"
		var ends []*peers.Program
		for _, g := range []*lab.Guest{a, b} {
			ends = append(ends, peers.StartGuest(ctx, t, g, mckey(group, g.IPv4)...))
		}
		for _, g := range []*lab.Guest{a, b} {
			if err := awaitMember(ctx, g, group); err != nil {
				t.Fatal(err)
			}
		}
		ends = append(ends, peers.StartHost(ctx, t, l, append([]string{cmpeer}, mckey(group, lab.HostIPv4, "-s")...)...))
		for _, e := range ends {
			e.Succeeds(t, cmTimeLimit)
		}
	})
	for _, g := range l.Guests {
		peers.AwaitIdle(within(t, cmTimeLimit), t, g, cmTimeLimit)
	}
}

// awaitMember waits until a guest's kernel has joined an IPv4 group, which the kernel's table gives in memory order.
func awaitMember(ctx context.Context, g *lab.Guest, group string) error {
	var o [4]int
	fmt.Sscanf(group, "%d.%d.%d.%d", &o[0], &o[1], &o[2], &o[3])
	want := fmt.Sprintf("%02X%02X%02X%02X", o[3], o[2], o[1], o[0])
	for {
		r, err := g.Run(ctx, "cat", "/proc/net/igmp")
		if err != nil {
			return err
		}
		if strings.Contains(r.Stdout, want) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("guest %s does not join %s: %w", g.Name, group, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
