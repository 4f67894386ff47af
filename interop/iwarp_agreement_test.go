//go:build interop && linux

package interop

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
)

// siwCRC sets whether siw asks for CRCs in what it says first. It uses them in any case where its peer asks.
func siwCRC(ctx context.Context, t *testing.T, g *Guest, on int) {
	t.Helper()
	if _, err := g.Run(ctx, "sh", "-c", fmt.Sprintf("echo %d >/sys/module/siw/parameters/mpa_crc_required", on)); err != nil {
		t.Fatal(err)
	}
}

// Whatever the two want of CRCs, they agree, and every ping comes back as it was.
func TestIWARPCRCsAsBothWant(t *testing.T) {
	lab := openLab(t)
	softrdma := program(t, lab, "cmd/softrdma")
	g := lab.Guests[0]
	for _, siw := range []int{0, 1} {
		for _, ours := range [][]string{nil, {"--no-crc"}} {
			t.Run(fmt.Sprintf("siw_%d_softrdma%v", siw, ours), func(t *testing.T) {
				ctx := within(t, 3*cmPatience)
				siwCRC(ctx, t, g, siw)
				defer siwCRC(ctx, t, g, 0)
				port := nextPort()
				number := strconv.Itoa(port)
				server := startHost(ctx, t, lab, append([]string{softrdma, "rping", "-s", "-a", "iwarp:" + HostIWARPv4, "-p", number}, ours...)...)
				if err := server.awaitServing(ctx); err != nil {
					t.Fatal(err)
				}
				startGuest(ctx, t, g, "rping", "-c", "-a", HostIWARPv4, "-p", number, "-C", "20", "-V").succeeds(t, cmPatience)
				server.succeeds(t, cmPatience)

				theirs := startGuest(ctx, t, g, "rping", "-s", "-a", g.IWARPv4, "-p", number)
				if err := g.WaitRDMAListen(ctx, port); err != nil {
					t.Fatal(err)
				}
				args := append([]string{softrdma, "rping", "-c", "-I", "iwarp:" + HostIWARPv4, "-a", g.IWARPv4, "-p", number, "-C", "20", "-V"}, ours...)
				startHost(ctx, t, lab, args...).succeeds(t, cmPatience)
				theirs.ends(t, cmPatience)
			})
		}
	}
}

// siw has no markers (siw_cm.c: siw_proc_mpareq, siw_proc_mpareply): it rejects a request that asks for them, and ends a
// connection whose reply does. Both ends say so, and the servers go on.
func TestIWARPMarkersAreRefusedBySiw(t *testing.T) {
	lab := openLab(t)
	softrdma := program(t, lab, "cmd/softrdma")
	g := lab.Guests[0]
	ctx := within(t, 4*cmPatience)
	port := nextPort()
	number := strconv.Itoa(port)
	theirs := startGuest(ctx, t, g, "rping", "-s", "-P", "-a", g.IWARPv4, "-p", number)
	if err := g.WaitRDMAListen(ctx, port); err != nil {
		t.Fatal(err)
	}
	client := []string{softrdma, "rping", "-c", "-I", "iwarp:" + HostIWARPv4, "-a", g.IWARPv4, "-p", number, "-C", "5", "-V"}
	startHost(ctx, t, lab, append(slices.Clone(client), "--markers")...).fails(t, cmPatience, "rejected")
	startHost(ctx, t, lab, client...).succeeds(t, cmPatience)

	server := startHost(ctx, t, lab, softrdma, "rping", "-s", "-P", "-a", "iwarp:"+HostIWARPv4Second, "-p", number, "--markers")
	if err := server.awaitServing(ctx); err != nil {
		t.Fatal(err)
	}
	startGuest(ctx, t, g, "rping", "-c", "-a", HostIWARPv4Second, "-p", number, "-C", "5").fails(t, cmPatience, "REJECTED")
	// A peer that has them is served.
	startHost(ctx, t, lab, softrdma, "rping", "-c", "-I", "iwarp:"+HostIWARPv4, "-a", HostIWARPv4Second, "-p", number, "-C", "5", "-V").succeeds(t, cmPatience)
	theirs.kill()
	checkDevice(ctx, t, g, idleSiw, cmPatience)
}
