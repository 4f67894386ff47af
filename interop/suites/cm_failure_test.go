//go:build interop && linux

package suites

import (
	"strconv"
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
		ctx := within(t, 2*cmTimeLimit)
		there := strconv.Itoa(lab.NextPort())
		server := peers.StartHost(ctx, t, l, cmpeer, "rdma_server", "-s", lab.HostIPv4, "-p", there)
		if err := server.AwaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		elsewhere := strconv.Itoa(lab.NextPort())
		// IBTA 12.6.7.2: 8 is an invalid service ID. IBTA 12.11.2: 1 is a service ID that is not supported.
		peers.StartGuest(ctx, t, g, "rping", "-c", "-a", lab.HostIPv4, "-p", elsewhere, "-C", "1").Fails(t, cmTimeLimit, "RDMA_CM_EVENT_REJECTED, error 8")
		peers.StartGuest(ctx, t, g, "udaddy", "-s", lab.HostIPv4).Fails(t, cmTimeLimit, "RDMA_CM_EVENT_UNREACHABLE, error: 1")
		peers.StartGuest(ctx, t, g, "rdma_client", "-s", lab.HostIPv4, "-p", there).Succeeds(t, cmTimeLimit)
		server.Succeeds(t, cmTimeLimit)
	})
	t.Run("one_connection_too_many", func(t *testing.T) {
		ctx := within(t, 2*cmTimeLimit)
		port := strconv.Itoa(lab.NextPort())
		server := peers.StartHost(ctx, t, l, cmpeer, "ucmatose", "-b", lab.HostIPv4, "-p", port, "-C", "0", "-rejections", "1")
		if err := server.AwaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		// 28: the consumer rejects.
		peers.StartGuest(ctx, t, g, "ucmatose", "-s", lab.HostIPv4, "-p", port, "-C", "0", "-c", "2").Fails(t, cmTimeLimit, "RDMA_CM_EVENT_REJECTED, error: 28")
		server.Succeeds(t, cmTimeLimit)
	})
	peers.AwaitIdle(within(t, cmTimeLimit), t, g, cmTimeLimit)
}

// TestCMSoftrdmaNamesWhyLinuxRejects is the reverse.
func TestCMSoftrdmaNamesWhyLinuxRejects(t *testing.T) {
	l := openLab(t)
	cmpeer := program(t, l, "interop/peers/cmpeer")
	g := l.Guests[0]
	ctx := within(t, 3*cmTimeLimit)
	nobody := strconv.Itoa(lab.NextPort())
	peers.StartHost(ctx, t, l, cmpeer, "rdma_client", "-s", g.IPv4, "-p", nobody).Fails(t, cmTimeLimit, "no listener for the service ID", "reason 8")
	peers.StartHost(ctx, t, l, cmpeer, "udaddy", "-s", g.IPv4).Fails(t, cmTimeLimit, "service ID")
	peers.StartHost(ctx, t, l, cmpeer, "iperf3", "-c", g.IPv4, "-p", nobody).Fails(t, cmTimeLimit, "connection refused")

	port := lab.NextPort()
	server := peers.StartGuest(ctx, t, g, "ucmatose", "-b", g.IPv4, "-p", strconv.Itoa(port), "-C", "0")
	if err := g.WaitRDMAListen(ctx, port); err != nil {
		t.Fatal(err)
	}
	peers.StartHost(ctx, t, l, cmpeer, "ucmatose", "-s", g.IPv4, "-p", strconv.Itoa(port), "-C", "0", "-c", "2").Fails(t, cmTimeLimit, "reason 28")
	server.Wait(t, cmTimeLimit) // it calls itself failed when it rejects
	peers.AwaitIdle(ctx, t, g, cmTimeLimit)
}

// TestCMSoftrdmaGivesUpAnUnansweredRequest calls an unused address, and a server that is stopped before it accepts.
func TestCMSoftrdmaGivesUpAnUnansweredRequest(t *testing.T) {
	l := openLab(t)
	cmpeer := program(t, l, "interop/peers/cmpeer")
	g := l.Guests[0]
	ctx := within(t, 3*cmTimeLimit)
	began := time.Now()
	peers.StartHost(ctx, t, l, cmpeer, "rdma_client", "-s", lab.NobodyIPv4, "-limit", "2s").Fails(t, cmTimeLimit, lab.NobodyIPv4)
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
	peers.StartHost(ctx, t, l, cmpeer, "rdma_client", "-s", g.IPv4, "-p", strconv.Itoa(port), "-limit", "2s").Fails(t, cmTimeLimit, "deadline exceeded")
	p.Signal(syscall.SIGCONT)
	// The server finds a request whose client is gone: rdma_accept fails, or nothing arrives afterwards.
	time.Sleep(200 * time.Millisecond)
	p.Kill()
	p.Wait(ctx)
	peers.AwaitIdle(ctx, t, g, cmTimeLimit)
}
