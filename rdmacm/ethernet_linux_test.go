package rdmacm

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"

	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
	"softrdma/verbs"
)

// Devices of each kind at two hosts of an Ethernet connect by address, through a device that the program
// names, and through the one that the fabric's hosts are found by.
func TestConnectionsOfAnEthernet(t *testing.T) {
	x := fabrictest.StartEthernet(t, "leaf-spine:leaves=2,spines=2,hosts=1", func(*live.Config) {})
	var ipv6 []string
	for i := range x.Adapters {
		p := x.AttachHost(i)
		ipv6 = append(ipv6, x.Name+"/"+p.Info().Addrs[1].String())
		must(t, p.Close())
	}
	for _, prefix := range []string{"eth:", "roce1:eth:", "iwarp:eth:"} {
		for _, hosts := range [][]string{x.Adapters, ipv6} {
			t.Run(prefix+hosts[1], func(t *testing.T) {
				var devices []*verbs.Device
				for _, at := range hosts {
					d, err := verbs.Open(prefix+at, verbs.Config{})
					must(t, err)
					t.Cleanup(func() { closed(t, d) })
					devices = append(devices, d)
				}
				addr := devices[1].Addr().Addr().String()
				if strings.Contains(addr, ":") {
					addr = "[" + addr + "]"
				}
				l := listenAt(t, devices[1], addr, ListenConfig{})
				var insecure *SecurityError
				tlsDialer := Dialer{Protocol: devices[0].Protocol(), TLS: new(tls.Config)}
				if _, err := tlsDialer.Dial(within(t), l.Addr().String()); prefix != "roce1:eth:" && !errors.As(err, &insecure) || err == nil {
					t.Errorf("TLS over a device without it: %v", err)
				}
				for _, d := range []Dialer{dialerAt(devices[0]), {Protocol: devices[0].Protocol(), QP: verbs.QPConfig{MaxInline: 64}}} {
					c, s := connected(t, l, d)
					if d.Device != nil && (c.LocalAddr().Addr() != devices[0].Addr().Addr() || s.RemoteAddr().Addr() != devices[0].Addr().Addr()) {
						t.Errorf("the client has the address %v, by the server %v", c.LocalAddr(), s.RemoteAddr())
					}
					talk(t, c, s, "from the client")
					talk(t, s, c, "from the server")
				}
			})
		}
	}
}
