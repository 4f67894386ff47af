//go:build interop && linux

package uverbs

import (
	"net/netip"
	"strings"
	"testing"

	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
)

// Programs connect at the hosts of an Ethernet: in the server's process and, but for iWARP, in their own, at
// two hosts and several at one host, for each protocol and both families of addresses.
func TestProgramsConnectOnAnEthernet(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds of real programs")
	}
	lib, all := library(t), engines(t)
	f := fabrictest.StartEthernet(t, "leaf-spine:leaves=2,spines=2,hosts=1", func(*live.Config) {})
	hosts := make([][]netip.Addr, 2)
	for i := range hosts {
		p := f.AttachHost(i)
		hosts[i] = p.Info().Addrs
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, prefix := range []string{"eth:", "roce1:eth:", "iwarp:eth:"} {
		for k := range 2 { // IPv4, IPv6
			peer, own := hosts[0][k].String(), hosts[1][k].String()
			a, b := newServer(t, prefix+"test/"+peer), newServer(t, prefix+"test/"+own)
			group, perftest := "239.1.2.3", programPair{[]string{"ib_write_bw", "-R", "-F", "-n", "100"}, []string{"ib_write_bw", "-R", "-F", "-n", "100", peer}, "MsgRate"}
			if k == 1 { // perftest takes no IPv6 address
				group, perftest = "ff0e::77", programPair{[]string{"ib_write_bw", "-F", "-n", "100"}, []string{"ib_write_bw", "-F", "-n", "100", "127.0.0.1"}, "MsgRate"}
			}
			pairs := []programPair{
				{[]string{"rping", "-s", "-a", peer, "-C", "10"}, []string{"rping", "-c", "-a", peer, "-C", "10", "-V", "-v"}, "rdma-ping-9"},
				{[]string{"ucmatose", "-b", peer}, []string{"ucmatose", "-s", peer}, "return status 0"},
				perftest,
				{[]string{"udaddy", "-b", peer}, []string{"udaddy", "-s", peer}, "return status 0"},
				{[]string{"mckey", "-b", peer, "-m", group}, []string{"mckey", "-b", own, "-m", group, "-s"}, "test complete"},
			}
			engines, atOneHost := all, "program"
			if strings.HasPrefix(prefix, "iwarp") { // which has no datagrams, connects by addresses only, and stays in the server's process
				pairs, engines, atOneHost = pairs[:3-k], map[string][]string{"daemon": nil}, "daemon"
			}
			for _, x := range pairs {
				for engine, env := range engines {
					t.Run(prefix+peer+" "+engine+" "+x.client[0], func(t *testing.T) { x.run(t, lib, env, a, b) })
				}
				if x.client[0] != "mckey" { // which names its own address
					t.Run(prefix+peer+" at one host "+x.client[0], func(t *testing.T) { x.run(t, lib, all[atOneHost], a, a) })
				}
			}
		}
	}
}
