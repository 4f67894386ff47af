package verbs

import (
	"testing"

	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
)

// Devices of all kinds are at the same hosts at the same time, and each has its own address.
func TestHostsOfAnEthernetHaveDevicesOfEachKind(t *testing.T) {
	x := fabrictest.StartEthernet(t, "leaf-spine:leaves=2,spines=2,hosts=1", func(*live.Config) {})
	hosts := [2]string{x.Adapters[0], x.Adapters[1]}
	var ipv6 [2]string // the same hosts by their other address
	for i, name := range hosts {
		a := x.AttachHost(i).Info().Addrs[1]
		ipv6[i] = x.Name + "/" + a.String()
		if name == ipv6[i] || !a.Is6() {
			t.Fatal(a)
		}
	}
	for _, c := range []struct {
		kind, prefix string
		at           [2]string
	}{
		{"RoCE v2 over IPv6", "eth:", ipv6},
		{"RoCE v1", "roce1:eth:", hosts},
		{"RoCE v1 with IPv6", "roce1:eth:", ipv6},
	} {
		var devices []*Device
		for _, at := range c.at {
			name := c.prefix + at
			d, err := Open(name, Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close() // after the other kinds
			if p, gid := d.QueryPort(), d.GIDs()[0].GID.Addr(); !p.Active || p.LinkLayer != "Ethernet" || gid != d.Addr().Addr() {
				t.Errorf("%s: port %+v, GID %v, address %v", name, p, gid, d.Addr())
			}
			devices = append(devices, d)
		}
		for _, typ := range []QPType{RC, UC} {
			a, b := newFabricEnd(t, devices[0], typ), newFabricEnd(t, devices[1], typ)
			connectFabric(t, a, b, ConnectConfig{})
			t.Run(c.kind+" "+typ.String(), func(t *testing.T) { everyOperation(t, a, b, typ) })
		}
	}
}
