//go:build interop && linux

package suites

import (
	"strconv"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// TestIWARPRstreamEverySize streams the sizes of rstream over siw, both ways at the same time. siw is slower than rxe.
func TestIWARPRstreamEverySize(t *testing.T) { rstreamEverySize(t, true, 1<<20) }

// TestIWARPRcopyFileArrivesWhole copies a file of some megabytes over siw.
func TestIWARPRcopyFileArrivesWhole(t *testing.T) { rcopyFileArrivesWhole(t, true) }

// TestIWARPSoftrdmaLearnsThatSiwWasKilled kills siw's program in mid transfer: its kernel closes the connection.
func TestIWARPSoftrdmaLearnsThatSiwWasKilled(t *testing.T) {
	l := openLab(t)
	softrdma := program(t, l, "cmd/softrdma")
	cmpeer := program(t, l, "interop/peers/cmpeer")
	g := l.Guests[0]
	t.Run("rping_client", func(t *testing.T) {
		ctx := within(t, 3*cmPatience)
		port := strconv.Itoa(lab.NextPort())
		server := peers.StartHost(ctx, t, l, softrdma, "rping", "-s", "-a", "iwarp:"+lab.HostIWARPv4, "-p", port, "-v")
		if err := server.AwaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		client := peers.StartGuest(ctx, t, g, "rping", "-c", "-a", lab.HostIWARPv4, "-p", port)
		// Between two pings that is how a client ends which was given no count: the server may call it a success.
		killInMidTransfer(ctx, t, client, server, "rdma-ping-10:").Wait(t, killPatience)
	})
	t.Run("rping_server", func(t *testing.T) {
		ctx := within(t, 3*cmPatience)
		port := lab.NextPort()
		server := peers.StartGuest(ctx, t, g, "rping", "-s", "-a", g.IWARPv4, "-p", strconv.Itoa(port))
		if err := g.WaitRDMAListen(ctx, port); err != nil {
			t.Fatal(err)
		}
		client := peers.StartHost(ctx, t, l, softrdma, "rping", "-c", "-I", "iwarp:"+lab.HostIWARPv4, "-a", g.IWARPv4, "-p", strconv.Itoa(port), "-v")
		killInMidTransfer(ctx, t, server, client, "rdma-ping-10:").Fails(t, killPatience)
	})
	t.Run("rstream_client", func(t *testing.T) {
		ctx := within(t, 3*cmPatience)
		port := strconv.Itoa(lab.NextPort())
		server := peers.StartHost(ctx, t, l, cmpeer, "-iwarp", "rstream", "-b", lab.HostIWARPv4, "-p", port, "-S", "65536", "-C", "1000000")
		if err := server.AwaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		client := peers.StartGuest(ctx, t, g, "rstream", "-s", lab.HostIWARPv4, "-p", port, "-S", "65536", "-C", "1000000", "-T", "v")
		killInMidTransfer(ctx, t, client, server, "connected with").Fails(t, killPatience)
	})
	peers.AwaitDevice(within(t, cmPatience), t, g, peers.IdleSiw, cmPatience)
}

// TestIWARPSiwLearnsThatSoftrdmaWasKilled kills softrdma while siw waits for its answer. Its system resets the connection,
// so that siw learns it at once, unlike rxe.
func TestIWARPSiwLearnsThatSoftrdmaWasKilled(t *testing.T) {
	l := openLab(t)
	softrdma := program(t, l, "cmd/softrdma")
	g := l.Guests[0]
	ctx := within(t, 3*cmPatience)
	port := strconv.Itoa(lab.NextPort())
	server := peers.StartHost(ctx, t, l, softrdma, "rping", "-s", "-a", "iwarp:"+lab.HostIWARPv4, "-p", port, "-v")
	if err := server.AwaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	client := peers.StartGuest(ctx, t, g, "rping", "-c", "-a", lab.HostIWARPv4, "-p", port)
	killInMidTransfer(ctx, t, server, server, "rdma-ping-10:")
	if err := client.AwaitOutput(within(t, killPatience), "DISCONNECT EVENT"); err != nil {
		t.Error(err)
	}
	// What it does then is its own: it was seen to wait in its cleaning up, for a thread of completions that nothing wakes.
	select {
	case <-client.Done:
	case <-time.After(3 * time.Second):
		t.Log("rping knows, and does not end")
		client.Kill()
	}
	peers.AwaitDevice(ctx, t, g, peers.IdleSiw, cmPatience)
}

// TestIWARPSoftrdmaNamesWhySiwRefuses calls a port where nobody listens, and a server that takes fewer connections.
func TestIWARPSoftrdmaNamesWhySiwRefuses(t *testing.T) {
	l := openLab(t)
	cmpeer := program(t, l, "interop/peers/cmpeer")
	g := l.Guests[0]
	ctx := within(t, 3*cmPatience)
	nobody := strconv.Itoa(lab.NextPort())
	peers.StartHost(ctx, t, l, cmpeer, "-iwarp", "rdma_client", "-s", g.IWARPv4, "-p", nobody).Fails(t, cmPatience, "no listener for the service ID")

	port := lab.NextPort()
	server := peers.StartGuest(ctx, t, g, "ucmatose", "-b", g.IWARPv4, "-p", strconv.Itoa(port), "-C", "0")
	if err := g.WaitRDMAListen(ctx, port); err != nil {
		t.Fatal(err)
	}
	peers.StartHost(ctx, t, l, cmpeer, "-iwarp", "ucmatose", "-s", g.IWARPv4, "-p", strconv.Itoa(port), "-C", "0", "-c", "2").Fails(t, cmPatience, "reason 28")
	server.Wait(t, cmPatience) // it calls itself failed when it rejects
	peers.AwaitDevice(ctx, t, g, peers.IdleSiw, cmPatience)
}

// TestIWARPSiwLearnsThatSoftrdmaRefuses is the reverse: softrdma listens elsewhere.
func TestIWARPSiwLearnsThatSoftrdmaRefuses(t *testing.T) {
	l := openLab(t)
	cmpeer := program(t, l, "interop/peers/cmpeer")
	g := l.Guests[0]
	ctx := within(t, 3*cmPatience)
	there, elsewhere := strconv.Itoa(lab.NextPort()), strconv.Itoa(lab.NextPort())
	server := peers.StartHost(ctx, t, l, cmpeer, "-iwarp", "rdma_server", "-s", lab.HostIWARPv4, "-p", there)
	if err := server.AwaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	peers.StartGuest(ctx, t, g, "rdma_client", "-s", lab.HostIWARPv4, "-p", elsewhere).Fails(t, cmPatience, "Connection refused")
	peers.StartGuest(ctx, t, g, "rdma_client", "-s", lab.HostIWARPv4, "-p", there).Succeeds(t, cmPatience)
	server.Succeeds(t, cmPatience)
	peers.AwaitDevice(ctx, t, g, peers.IdleSiw, cmPatience)
}
