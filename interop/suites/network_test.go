//go:build interop && linux

package suites

import (
	"context"
	"testing"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// A network is one of the lab's two: of RoCE, where the guests have rxe, or of iWARP, where they have siw.
type network struct{ iwarp, v6 bool }

// host returns softrdma's address.
func (n network) host() string {
	switch {
	case n.iwarp && n.v6:
		return lab.HostIWARPv6
	case n.iwarp:
		return lab.HostIWARPv4
	case n.v6:
		return lab.HostIPv6
	}
	return lab.HostIPv4
}

// guest returns a guest's address.
func (n network) guest(g *lab.Guest) string {
	switch {
	case n.iwarp && n.v6:
		return g.IWARPv6
	case n.iwarp:
		return g.IWARPv4
	case n.v6:
		return g.IPv6
	}
	return g.IPv4
}

// device returns the name of softrdma's device, as the softrdma command takes it.
func (n network) device() string {
	if n.iwarp {
		return "iwarp:" + n.host()
	}
	return n.host()
}

// cmpeer returns the beginning of a command line of cmpeer.
func (n network) cmpeer(t *testing.T, l *lab.Lab) []string {
	t.Helper()
	argv := []string{program(t, l, "interop/peers/cmpeer")}
	if n.iwarp {
		argv = append(argv, "-iwarp")
	}
	return argv
}

// awaitIdle waits until a guest's device holds nothing.
func (n network) awaitIdle(ctx context.Context, t *testing.T, g *lab.Guest) {
	t.Helper()
	if n.iwarp {
		peers.AwaitDevice(ctx, t, g, peers.IdleSiw, cmTimeLimit)
	} else {
		peers.AwaitIdle(ctx, t, g, cmTimeLimit)
	}
}
