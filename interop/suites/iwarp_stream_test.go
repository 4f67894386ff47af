//go:build interop && linux

package suites

import (
	"strconv"
	"testing"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// TestIWARPRstreamEverySize streams the sizes of rstream over siw, both ways at the same time. siw is slower than rxe.
func TestIWARPRstreamEverySize(t *testing.T) { rstreamEverySize(t, true, 1<<20) }

// TestIWARPRcopyFileArrivesWhole copies a file of some megabytes over siw.
func TestIWARPRcopyFileArrivesWhole(t *testing.T) { rcopyFileArrivesWhole(t, true) }

// TestIWARPSoftrdmaNamesWhySiwRefuses calls a port without a listener, and a server that takes fewer connections.
func TestIWARPSoftrdmaNamesWhySiwRefuses(t *testing.T) {
	l := openLab(t)
	cmpeer := program(t, l, "interop/peers/cmpeer")
	g := l.Guests[0]
	ctx := within(t, 3*cmTimeLimit)
	nobody := strconv.Itoa(lab.NextPort())
	peers.StartHost(ctx, t, l, cmpeer, "-iwarp", "rdma_client", "-s", g.IWARPv4, "-p", nobody).Fails(t, cmTimeLimit, "no listener for the service ID")

	port := lab.NextPort()
	server := peers.StartGuest(ctx, t, g, "ucmatose", "-b", g.IWARPv4, "-p", strconv.Itoa(port), "-C", "0")
	if err := g.WaitRDMAListen(ctx, port); err != nil {
		t.Fatal(err)
	}
	peers.StartHost(ctx, t, l, cmpeer, "-iwarp", "ucmatose", "-s", g.IWARPv4, "-p", strconv.Itoa(port), "-C", "0", "-c", "2").Fails(t, cmTimeLimit, "reason 28")
	server.Wait(t, cmTimeLimit) // it calls itself failed when it rejects
	peers.AwaitDevice(ctx, t, g, peers.IdleSiw, cmTimeLimit)
}

// TestIWARPSiwLearnsThatSoftrdmaRefuses is the reverse: softrdma listens elsewhere.
func TestIWARPSiwLearnsThatSoftrdmaRefuses(t *testing.T) {
	l := openLab(t)
	cmpeer := program(t, l, "interop/peers/cmpeer")
	g := l.Guests[0]
	ctx := within(t, 3*cmTimeLimit)
	there, elsewhere := strconv.Itoa(lab.NextPort()), strconv.Itoa(lab.NextPort())
	server := peers.StartHost(ctx, t, l, cmpeer, "-iwarp", "rdma_server", "-s", lab.HostIWARPv4, "-p", there)
	if err := server.AwaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	peers.StartGuest(ctx, t, g, "rdma_client", "-s", lab.HostIWARPv4, "-p", elsewhere).Fails(t, cmTimeLimit, "Connection refused")
	peers.StartGuest(ctx, t, g, "rdma_client", "-s", lab.HostIWARPv4, "-p", there).Succeeds(t, cmTimeLimit)
	server.Succeeds(t, cmTimeLimit)
	peers.AwaitDevice(ctx, t, g, peers.IdleSiw, cmTimeLimit)
}
