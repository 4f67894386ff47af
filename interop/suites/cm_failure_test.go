//go:build interop && linux

package suites

import (
	"context"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// TestCMLinuxLearnsWhySoftrdmaRejects calls a softrdma that listens elsewhere, and one that takes fewer connections.
func TestCMLinuxLearnsWhySoftrdmaRejects(t *testing.T) {
	l := openLab(t)
	cmpeer := program(t, l, "interop/peers/cmpeer")
	g := l.Guests[0]
	t.Run("nobody_listens", func(t *testing.T) {
		ctx := within(t, 2*cmPatience)
		there := strconv.Itoa(lab.NextPort())
		server := peers.StartHost(ctx, t, l, cmpeer, "rdma_server", "-s", lab.HostIPv4, "-p", there)
		if err := server.AwaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		elsewhere := strconv.Itoa(lab.NextPort())
		// IBTA 12.6.7.2: 8 is an invalid service ID. IBTA 12.11.2: 1 is a service ID that is not supported.
		peers.StartGuest(ctx, t, g, "rping", "-c", "-a", lab.HostIPv4, "-p", elsewhere, "-C", "1").Fails(t, cmPatience, "RDMA_CM_EVENT_REJECTED, error 8")
		peers.StartGuest(ctx, t, g, "udaddy", "-s", lab.HostIPv4).Fails(t, cmPatience, "RDMA_CM_EVENT_UNREACHABLE, error: 1")
		peers.StartGuest(ctx, t, g, "rdma_client", "-s", lab.HostIPv4, "-p", there).Succeeds(t, cmPatience)
		server.Succeeds(t, cmPatience)
	})
	t.Run("one_connection_too_many", func(t *testing.T) {
		ctx := within(t, 2*cmPatience)
		port := strconv.Itoa(lab.NextPort())
		server := peers.StartHost(ctx, t, l, cmpeer, "ucmatose", "-b", lab.HostIPv4, "-p", port, "-C", "0", "-rejections", "1")
		if err := server.AwaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		// 28: the consumer rejects.
		peers.StartGuest(ctx, t, g, "ucmatose", "-s", lab.HostIPv4, "-p", port, "-C", "0", "-c", "2").Fails(t, cmPatience, "RDMA_CM_EVENT_REJECTED, error: 28")
		server.Succeeds(t, cmPatience)
	})
	peers.AwaitIdle(within(t, cmPatience), t, g, cmPatience)
}

// TestCMSoftrdmaNamesWhyLinuxRejects is the reverse.
func TestCMSoftrdmaNamesWhyLinuxRejects(t *testing.T) {
	l := openLab(t)
	cmpeer := program(t, l, "interop/peers/cmpeer")
	g := l.Guests[0]
	ctx := within(t, 3*cmPatience)
	nobody := strconv.Itoa(lab.NextPort())
	peers.StartHost(ctx, t, l, cmpeer, "rdma_client", "-s", g.IPv4, "-p", nobody).Fails(t, cmPatience, "no listener for the service ID", "reason 8")
	peers.StartHost(ctx, t, l, cmpeer, "udaddy", "-s", g.IPv4).Fails(t, cmPatience, "service ID")
	peers.StartHost(ctx, t, l, cmpeer, "iperf3", "-c", g.IPv4, "-p", nobody).Fails(t, cmPatience, "connection refused")

	port := lab.NextPort()
	server := peers.StartGuest(ctx, t, g, "ucmatose", "-b", g.IPv4, "-p", strconv.Itoa(port), "-C", "0")
	if err := g.WaitRDMAListen(ctx, port); err != nil {
		t.Fatal(err)
	}
	peers.StartHost(ctx, t, l, cmpeer, "ucmatose", "-s", g.IPv4, "-p", strconv.Itoa(port), "-C", "0", "-c", "2").Fails(t, cmPatience, "reason 28")
	server.Wait(t, cmPatience) // it calls itself failed when it rejects
	peers.AwaitIdle(ctx, t, g, cmPatience)
}

// TestCMSoftrdmaGivesUpAnUnansweredRequest calls an address that nobody has, and a server that does not come to accept.
func TestCMSoftrdmaGivesUpAnUnansweredRequest(t *testing.T) {
	l := openLab(t)
	cmpeer := program(t, l, "interop/peers/cmpeer")
	g := l.Guests[0]
	ctx := within(t, 3*cmPatience)
	began := time.Now()
	peers.StartHost(ctx, t, l, cmpeer, "rdma_client", "-s", lab.NobodyIPv4, "-limit", "2s").Fails(t, cmPatience, lab.NobodyIPv4)
	t.Logf("an address that nobody has: %v", time.Since(began).Round(time.Millisecond))

	port := lab.NextPort()
	p, err := g.Start(ctx, "rdma_server", "-s", g.IPv4, "-p", strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.WaitRDMAListen(ctx, port); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGSTOP)
	peers.StartHost(ctx, t, l, cmpeer, "rdma_client", "-s", g.IPv4, "-p", strconv.Itoa(port), "-limit", "2s").Fails(t, cmPatience, "deadline exceeded")
	p.Signal(syscall.SIGCONT)
	// The server finds a request whose client has gone: rdma_accept fails, or nothing comes any more.
	time.Sleep(200 * time.Millisecond)
	p.Kill()
	p.Wait(ctx)
	peers.AwaitIdle(ctx, t, g, cmPatience)
}

// killPatience is how long an end may take to learn that its peer was killed.
const killPatience = time.Minute

// TestCMSoftrdmaLearnsThatLinuxWasKilled kills Linux's end in mid transfer. Its kernel says goodbye.
func TestCMSoftrdmaLearnsThatLinuxWasKilled(t *testing.T) {
	l := openLab(t)
	softrdma := program(t, l, "cmd/softrdma")
	cmpeer := program(t, l, "interop/peers/cmpeer")
	g := l.Guests[0]
	t.Run("rping_client", func(t *testing.T) {
		ctx := within(t, 3*cmPatience)
		port := strconv.Itoa(lab.NextPort())
		server := peers.StartHost(ctx, t, l, softrdma, "rping", "-s", "-a", lab.HostIPv4, "-p", port, "-v")
		if err := server.AwaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		client := peers.StartGuest(ctx, t, g, "rping", "-c", "-a", lab.HostIPv4, "-p", port)
		// Between two pings that is how a client ends which was given no count: the server may call it a success.
		killInMidTransfer(ctx, t, client, server, "rdma-ping-10:").Wait(t, killPatience)
	})
	t.Run("rping_server", func(t *testing.T) {
		ctx := within(t, 3*cmPatience)
		server, port := servePings(ctx, t, g)
		client := peers.StartHost(ctx, t, l, softrdma, "rping", "-c", "-a", g.IPv4, "-p", port, "-v")
		killInMidTransfer(ctx, t, server, client, "rdma-ping-10:").Fails(t, killPatience, "disconnected by "+g.IPv4)
	})
	t.Run("rstream_client", func(t *testing.T) {
		ctx := within(t, 3*cmPatience)
		port := strconv.Itoa(lab.NextPort())
		server := peers.StartHost(ctx, t, l, cmpeer, "rstream", "-b", lab.HostIPv4, "-p", port, "-S", "65536", "-C", "1000000")
		if err := server.AwaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		client := peers.StartGuest(ctx, t, g, "rstream", "-s", lab.HostIPv4, "-p", port, "-S", "65536", "-C", "1000000", "-T", "v")
		killInMidTransfer(ctx, t, client, server, "connected with").Fails(t, killPatience, "EOF")
	})
	peers.AwaitIdle(within(t, cmPatience), t, g, cmPatience)
}

// servePings starts Linux's rping server.
func servePings(ctx context.Context, t *testing.T, g *lab.Guest) (*peers.Program, string) {
	t.Helper()
	port := lab.NextPort()
	server := peers.StartGuest(ctx, t, g, "rping", "-s", "-a", g.IPv4, "-p", strconv.Itoa(port))
	if err := g.WaitRDMAListen(ctx, port); err != nil {
		t.Fatal(err)
	}
	return server, strconv.Itoa(port)
}

// killInMidTransfer kills an end once softrdma's has said some words and a little more was transferred. It waits for the
// end of softrdma's, which it returns.
func killInMidTransfer(ctx context.Context, t *testing.T, victim, softrdma *peers.Program, words string) *peers.Program {
	t.Helper()
	if err := softrdma.AwaitOutput(ctx, words); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	victim.Kill()
	began := time.Now()
	softrdma.Wait(t, killPatience)
	t.Logf("learned after %v: %s", time.Since(began).Round(time.Millisecond), peers.LastLine(softrdma.Said()))
	return softrdma
}

// TestCMLinuxLearnsThatSoftrdmaWasKilled kills softrdma's end while Linux sends to it. Nobody says goodbye: who sends
// learns it from what is not acknowledged, as soon as the timeout and the count that softrdma asked for have passed. It
// asks for 5 repetitions, because Linux's rxe takes 7 for no end and then never learns; and who only waits for data,
// like rping, does not learn it either.
func TestCMLinuxLearnsThatSoftrdmaWasKilled(t *testing.T) {
	l := openLab(t)
	cmpeer := program(t, l, "interop/peers/cmpeer")
	g := l.Guests[0]
	ctx := within(t, 3*cmPatience)
	port := lab.NextPort()
	options := []string{"-p", strconv.Itoa(port), "-S", "100000", "-C", "300"}
	// A line that goes to a pipe must not wait in a buffer.
	server := peers.StartGuest(ctx, t, g, append([]string{"stdbuf", "-oL", "ucmatose", "-b", g.IPv4}, options...)...)
	if err := g.WaitRDMAListen(ctx, port); err != nil {
		t.Fatal(err)
	}
	client := peers.StartHost(ctx, t, l, append([]string{cmpeer, "ucmatose", "-s", g.IPv4, "-a", "16"}, options...)...)
	if err := client.AwaitOutput(ctx, "connected with"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	if strings.Contains(server.Said(), "data transfers complete") {
		t.Fatal("the transfer was over too soon to be interrupted")
	}
	client.Kill()
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, killPatience)
	defer cancel()
	// Its sends fail, which ucmatose does not look at: it goes on to the end, where it asks a dead peer to disconnect.
	if err := server.AwaitOutput(bounded, "cmatose: disconnecting"); err != nil {
		t.Fatal(err)
	}
	t.Logf("learned after %v", time.Since(began).Round(time.Millisecond))
	server.Kill()
	<-server.Done
	peers.AwaitIdle(ctx, t, g, cmPatience)
}
