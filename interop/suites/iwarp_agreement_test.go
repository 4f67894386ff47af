//go:build interop && linux

package suites

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// siwCRC sets whether siw asks for CRCs in its first frame. It always uses them if its peer asks.
func siwCRC(ctx context.Context, t *testing.T, g *lab.Guest, on int) {
	t.Helper()
	if _, err := g.Run(ctx, "sh", "-c", fmt.Sprintf("echo %d >/sys/module/siw/parameters/mpa_crc_required", on)); err != nil {
		t.Fatal(err)
	}
}

// Both ends agree on CRCs whatever each asks for, and every ping comes back unchanged.
func TestIWARPCRCsAsBothWant(t *testing.T) {
	l := openLab(t)
	softrdma := program(t, l, "cmd/softrdma")
	g := l.Guests[0]
	for _, siw := range []int{0, 1} {
		for _, ours := range [][]string{nil, {"--no-crc"}} {
			t.Run(fmt.Sprintf("siw_%d_softrdma%v", siw, ours), func(t *testing.T) {
				ctx := within(t, 3*cmTimeLimit)
				siwCRC(ctx, t, g, siw)
				defer siwCRC(ctx, t, g, 0)
				port := lab.NextPort()
				number := strconv.Itoa(port)
				server := peers.StartHost(ctx, t, l, append([]string{softrdma, "rping", "-s", "-a", "iwarp:" + lab.HostIWARPv4, "-p", number}, ours...)...)
				if err := server.AwaitServing(ctx); err != nil {
					t.Fatal(err)
				}
				peers.StartGuest(ctx, t, g, "rping", "-c", "-a", lab.HostIWARPv4, "-p", number, "-C", "20", "-V").Succeeds(t, cmTimeLimit)
				server.Succeeds(t, cmTimeLimit)

				theirs := peers.StartGuest(ctx, t, g, "rping", "-s", "-a", g.IWARPv4, "-p", number)
				if err := g.WaitRDMAListen(ctx, port); err != nil {
					t.Fatal(err)
				}
				args := append([]string{softrdma, "rping", "-c", "-I", "iwarp:" + lab.HostIWARPv4, "-a", g.IWARPv4, "-p", number, "-C", "20", "-V"}, ours...)
				peers.StartHost(ctx, t, l, args...).Succeeds(t, cmTimeLimit)
				theirs.Wait(t, cmTimeLimit)
			})
		}
	}
}

// siw has no markers (siw_cm.c: siw_proc_mpareq, siw_proc_mpareply): it rejects a request that asks for them, and ends a
// connection whose reply does. Both ends report that, and the servers continue.
func TestIWARPMarkersAreRefusedBySiw(t *testing.T) {
	l := openLab(t)
	softrdma := program(t, l, "cmd/softrdma")
	g := l.Guests[0]
	ctx := within(t, 4*cmTimeLimit)
	port := lab.NextPort()
	number := strconv.Itoa(port)
	theirs := peers.StartGuest(ctx, t, g, "rping", "-s", "-P", "-a", g.IWARPv4, "-p", number)
	if err := g.WaitRDMAListen(ctx, port); err != nil {
		t.Fatal(err)
	}
	client := []string{softrdma, "rping", "-c", "-I", "iwarp:" + lab.HostIWARPv4, "-a", g.IWARPv4, "-p", number, "-C", "5", "-V"}
	peers.StartHost(ctx, t, l, append(slices.Clone(client), "--markers")...).Fails(t, cmTimeLimit, "rejected")
	peers.StartHost(ctx, t, l, client...).Succeeds(t, cmTimeLimit)

	server := peers.StartHost(ctx, t, l, softrdma, "rping", "-s", "-P", "-a", "iwarp:"+lab.HostIWARPv4Second, "-p", number, "--markers")
	if err := server.AwaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	peers.StartGuest(ctx, t, g, "rping", "-c", "-a", lab.HostIWARPv4Second, "-p", number, "-C", "5").Fails(t, cmTimeLimit, "REJECTED")
	// A peer that sends markers is served.
	peers.StartHost(ctx, t, l, softrdma, "rping", "-c", "-I", "iwarp:"+lab.HostIWARPv4, "-a", lab.HostIWARPv4Second, "-p", number, "-C", "5", "-V").Succeeds(t, cmTimeLimit)
	theirs.Kill()
	peers.AwaitDevice(ctx, t, g, peers.IdleSiw, cmTimeLimit)
}
