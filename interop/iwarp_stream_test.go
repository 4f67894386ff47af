//go:build interop && linux

package interop

import (
	"strconv"
	"testing"
	"time"
)

// TestIWARPRstreamEverySize streams the sizes of rstream over siw, both ways at the same time. siw is slower than rxe.
func TestIWARPRstreamEverySize(t *testing.T) { rstreamEverySize(t, true, 1<<20) }

// TestIWARPRcopyFileArrivesWhole copies a file of some megabytes over siw.
func TestIWARPRcopyFileArrivesWhole(t *testing.T) { rcopyFileArrivesWhole(t, true) }

// TestIWARPSoftrdmaLearnsThatSiwWasKilled kills siw's program in mid transfer: its kernel closes the connection.
func TestIWARPSoftrdmaLearnsThatSiwWasKilled(t *testing.T) {
	lab := openLab(t)
	softrdma := program(t, lab, "cmd/softrdma")
	cmpeer := program(t, lab, "interop/cmpeer")
	g := lab.Guests[0]
	t.Run("rping_client", func(t *testing.T) {
		ctx := within(t, 3*cmPatience)
		port := strconv.Itoa(nextPort())
		server := startHost(ctx, t, lab, softrdma, "rping", "-s", "-a", "iwarp:"+HostIWARPv4, "-p", port, "-v")
		if err := server.awaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		client := startGuest(ctx, t, g, "rping", "-c", "-a", HostIWARPv4, "-p", port)
		// Between two pings that is how a client ends which was given no count: the server may call it a success.
		killInMidTransfer(ctx, t, client, server, "rdma-ping-10:").ends(t, killPatience)
	})
	t.Run("rping_server", func(t *testing.T) {
		ctx := within(t, 3*cmPatience)
		port := nextPort()
		server := startGuest(ctx, t, g, "rping", "-s", "-a", g.IWARPv4, "-p", strconv.Itoa(port))
		if err := g.WaitRDMAListen(ctx, port); err != nil {
			t.Fatal(err)
		}
		client := startHost(ctx, t, lab, softrdma, "rping", "-c", "-I", "iwarp:"+HostIWARPv4, "-a", g.IWARPv4, "-p", strconv.Itoa(port), "-v")
		killInMidTransfer(ctx, t, server, client, "rdma-ping-10:").fails(t, killPatience)
	})
	t.Run("rstream_client", func(t *testing.T) {
		ctx := within(t, 3*cmPatience)
		port := strconv.Itoa(nextPort())
		server := startHost(ctx, t, lab, cmpeer, "-iwarp", "rstream", "-b", HostIWARPv4, "-p", port, "-S", "65536", "-C", "1000000")
		if err := server.awaitServing(ctx); err != nil {
			t.Fatal(err)
		}
		client := startGuest(ctx, t, g, "rstream", "-s", HostIWARPv4, "-p", port, "-S", "65536", "-C", "1000000", "-T", "v")
		killInMidTransfer(ctx, t, client, server, "connected with").fails(t, killPatience)
	})
	checkDevice(within(t, cmPatience), t, g, idleSiw, cmPatience)
}

// TestIWARPSiwLearnsThatSoftrdmaWasKilled kills softrdma while siw waits for its answer. Its system resets the connection,
// so that siw learns it at once, unlike rxe.
func TestIWARPSiwLearnsThatSoftrdmaWasKilled(t *testing.T) {
	lab := openLab(t)
	softrdma := program(t, lab, "cmd/softrdma")
	g := lab.Guests[0]
	ctx := within(t, 3*cmPatience)
	port := strconv.Itoa(nextPort())
	server := startHost(ctx, t, lab, softrdma, "rping", "-s", "-a", "iwarp:"+HostIWARPv4, "-p", port, "-v")
	if err := server.awaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	client := startGuest(ctx, t, g, "rping", "-c", "-a", HostIWARPv4, "-p", port)
	killInMidTransfer(ctx, t, server, server, "rdma-ping-10:")
	if err := client.awaitWords(within(t, killPatience), "DISCONNECT EVENT"); err != nil {
		t.Error(err)
	}
	// What it does then is its own: it was seen to wait in its cleaning up, for a thread of completions that nothing wakes.
	select {
	case <-client.done:
	case <-time.After(3 * time.Second):
		t.Log("rping knows, and does not end")
		client.kill()
	}
	checkDevice(ctx, t, g, idleSiw, cmPatience)
}

// TestIWARPSoftrdmaNamesWhySiwRefuses calls a port where nobody listens, and a server that takes fewer connections.
func TestIWARPSoftrdmaNamesWhySiwRefuses(t *testing.T) {
	lab := openLab(t)
	cmpeer := program(t, lab, "interop/cmpeer")
	g := lab.Guests[0]
	ctx := within(t, 3*cmPatience)
	nobody := strconv.Itoa(nextPort())
	startHost(ctx, t, lab, cmpeer, "-iwarp", "rdma_client", "-s", g.IWARPv4, "-p", nobody).fails(t, cmPatience, "no listener for the service ID")

	port := nextPort()
	server := startGuest(ctx, t, g, "ucmatose", "-b", g.IWARPv4, "-p", strconv.Itoa(port), "-C", "0")
	if err := g.WaitRDMAListen(ctx, port); err != nil {
		t.Fatal(err)
	}
	startHost(ctx, t, lab, cmpeer, "-iwarp", "ucmatose", "-s", g.IWARPv4, "-p", strconv.Itoa(port), "-C", "0", "-c", "2").fails(t, cmPatience, "reason 28")
	server.ends(t, cmPatience) // it calls itself failed when it rejects
	checkDevice(ctx, t, g, idleSiw, cmPatience)
}

// TestIWARPSiwLearnsThatSoftrdmaRefuses is the reverse: softrdma listens elsewhere.
func TestIWARPSiwLearnsThatSoftrdmaRefuses(t *testing.T) {
	lab := openLab(t)
	cmpeer := program(t, lab, "interop/cmpeer")
	g := lab.Guests[0]
	ctx := within(t, 3*cmPatience)
	there, elsewhere := strconv.Itoa(nextPort()), strconv.Itoa(nextPort())
	server := startHost(ctx, t, lab, cmpeer, "-iwarp", "rdma_server", "-s", HostIWARPv4, "-p", there)
	if err := server.awaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	startGuest(ctx, t, g, "rdma_client", "-s", HostIWARPv4, "-p", elsewhere).fails(t, cmPatience, "Connection refused")
	startGuest(ctx, t, g, "rdma_client", "-s", HostIWARPv4, "-p", there).succeeds(t, cmPatience)
	server.succeeds(t, cmPatience)
	checkDevice(ctx, t, g, idleSiw, cmPatience)
}
