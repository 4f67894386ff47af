package verbs_test

import (
	"testing"

	"github.com/vishvananda/netlink"

	"softrdma/internal/host/hosttest"
	"softrdma/verbs"
)

// RoCE v1 devices in two network namespaces that a cable joins use memory, or the cable if
// memory is not allowed.
func TestRoCEv1BetweenNamespacesThroughMemory(t *testing.T) {
	if !hosttest.Inside(t) {
		return
	}
	const size = 2 << 20
	for _, c := range []struct {
		mode verbs.SameHost
		path verbs.Path
	}{{verbs.SameHostRequire, verbs.PathSameHost}, {verbs.SameHostOff, verbs.PathNetwork}} {
		t.Run(string(c.mode), func(t *testing.T) {
			hostDirectory(t)
			near := "c" + string(c.mode)[:2]
			hosttest.Cable(t, near, "10.9.1.1/24")
			peer := startHostPeer(t, peerConfig{
				Addr: "roce1:" + near + "b", Lanes: 1, Size: size, QPs: 1, Type: verbs.RC, Mode: c.mode, Report: true, Cable: near + "b", CableAddr: "10.9.1.2/24",
			})
			a := on(t, openHost(t, "roce1:"+near, verbs.Config{SameHost: c.mode}), make([]byte, size))
			peer.join(t, verbs.ConnectConfig{Timeout: 19}, a)
			before := transmitted(t, near)
			for i := range uint64(20) {
				a.round(t, peer, i)
			}
			if p := a.qp.Path(); p != c.path {
				t.Errorf("path %q, expected %q: %v", p, c.path, a.qp.WhyNetwork())
			}
			if sent := transmitted(t, near) - before; (sent > 1<<20) != (c.path == verbs.PathNetwork) {
				t.Errorf("%d bytes took the cable, path %q", sent, c.path)
			}
			peer.end(t)
		})
	}
}

// transmitted returns the number of bytes that an interface has sent.
func transmitted(t *testing.T, name string) uint64 {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return l.Attrs().Statistics.TxBytes
}
