//go:build interop && linux

package suites

import (
	"path/filepath"
	"strconv"
	"testing"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// TestCMTypeOfServiceIsOnEveryPacket sets the type of service at the client. The server takes it from the primary
// traffic class of the REQ (IBTA 12.6.5), for its own packets and for those of the connection manager.
func TestCMTypeOfServiceIsOnEveryPacket(t *testing.T) {
	l := openLab(t)
	cmpeer := program(t, l, "interop/peers/cmpeer")
	g := l.Guests[0]
	const dscp = 8 // the type of service without ECN's two bits, which softrdma sets
	for _, run := range []struct {
		name  string
		linux bool // Linux is the client
	}{{"softrdma_asks", false}, {"linux_asks", true}} {
		t.Run(run.name, func(t *testing.T) {
			ctx := within(t, 2*cmTimeLimit)
			port := lab.NextPort()
			file := filepath.Join(l.Dir(), "tos_"+run.name+".pcapng")
			capture, err := l.Capture(ctx, file, "udp port 4791 and udp[4:2] > 8") // not the empty one of link/udp's identify
			if err != nil {
				t.Fatal(err)
			}
			options := []string{"-p", strconv.Itoa(port)}
			client := append(options, "-t", strconv.Itoa(dscp<<2))
			var ends []*peers.Program
			if run.linux {
				server := peers.StartHost(ctx, t, l, append([]string{cmpeer, "ucmatose", "-b", lab.HostIPv4}, options...)...)
				if err := server.AwaitServing(ctx); err != nil {
					t.Fatal(err)
				}
				ends = []*peers.Program{peers.StartGuest(ctx, t, g, append([]string{"ucmatose", "-s", lab.HostIPv4}, client...)...), server}
			} else {
				server := peers.StartGuest(ctx, t, g, append([]string{"ucmatose", "-b", g.IPv4}, options...)...)
				if err := g.WaitRDMAListen(ctx, port); err != nil {
					t.Fatal(err)
				}
				ends = []*peers.Program{peers.StartHost(ctx, t, l, append([]string{cmpeer, "ucmatose", "-s", g.IPv4}, client...)...), server}
			}
			for _, e := range ends {
				e.Succeeds(t, cmTimeLimit)
			}
			if err := capture.Stop(); err != nil {
				t.Fatal(err)
			}
			found := fieldCounts(ctx, t, file, "ip.dsfield.dscp")
			// REQ, REP, RTU, DREQ, DREP; ten messages each way.
			if len(found) != 1 || found[dscp] < 25 {
				t.Errorf("packets by DSCP: %v, expected at least 25, all with %d", found, dscp)
			}
		})
	}
}
