//go:build interop && linux

package suites

import (
	"context"
	"testing"
	"time"

	"softrdma/interop/lab"
	"softrdma/interop/peers"
)

// iwarpPrograms are librdmacm's programs over iWARP, which has no datagrams and no port space IB.
var iwarpPrograms = []cmProgram{
	{name: "rping", argv: rping("-C", "100", "-V"), command: true, itself: true},
	{name: "rping_many", argv: rping("-C", "1000", "-V"), command: true, slowness: 3},
	{name: "rping_ipv6", argv: rping("-C", "20", "-V"), command: true, v6: true, itself: true},
	{name: "rping_small", argv: rping("-C", "20", "-V", "-S", "23"), command: true},
	{name: "rping_large", argv: rping("-C", "50", "-V", "-S", "65535"), command: true},
	{name: "ucmatose", argv: connecting("ucmatose", "-c", "5"), itself: true},
	{name: "ucmatose_large", argv: connecting("ucmatose", "-C", "20", "-S", "100000")},
	{name: "ucmatose_empty", argv: connecting("ucmatose", "-C", "0", "-c", "20")},
	{name: "ucmatose_ipv6", argv: connecting("ucmatose"), v6: true},
	{name: "rdma_server_and_client", argv: rdmaServerAndClient, itself: true},
	{name: "cmtime", argv: connecting("cmtime", "-c", "50"), endless: true, itself: true},
	{name: "riostream_64", argv: connecting("riostream", "-S", "64", "-C", "10", "-I", "20", "-T", "v"), itself: true},
	{name: "riostream_100000", argv: connecting("riostream", "-S", "100000", "-C", "5", "-I", "5", "-T", "v")},
	{name: "rstream_ipv6", argv: connecting("rstream", "-S", "10000", "-C", "5", "-I", "5", "-T", "v"), v6: true, itself: true},
}

func init() {
	for i := range iwarpPrograms {
		iwarpPrograms[i].iwarp = true
	}
}

func TestIWARPSoftrdmaServesSiw(t *testing.T) { cmSoftrdmaServes(t, iwarpPrograms) }

func TestIWARPSiwServesSoftrdma(t *testing.T) { cmLinuxServes(t, iwarpPrograms) }

// siwTries is how often a program is tried between siw and siw. As a responder siw overlooks frames that come between its
// reply and full operation, and as an initiator it sends them once, so both ends may wait forever. softrdma sends
// again, see internal/iwarp/wakeup.go.
const siwTries = 6

// TestIWARPSiwAgainstItself shows that the runs are fair.
func TestIWARPSiwAgainstItself(t *testing.T) {
	l := openLab(t)
	for _, p := range iwarpPrograms {
		if !p.itself {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			ctx := within(t, 6*time.Minute)
			err := lab.Retry(t, siwTries, lab.AnyError, func(attempt int) error { return p.siwWithItself(ctx, t, l, standstill<<(attempt-1)) })
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// standstill is how long the first try with siw at both ends may take. On an idle machine it takes some 2 s. Only time
// distinguishes a slow run from one that waits forever, so each try has twice the time of the one before.
const standstill = 5 * time.Second

// siwWithItself tries once.
func (p cmProgram) siwWithItself(ctx context.Context, t *testing.T, l *lab.Lab, limit time.Duration) error {
	server, r := p.serveInGuest(ctx, t, l.Guests[1])
	client := peers.StartGuest(ctx, t, l.Guests[0], p.argv(r)...)
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, e := range []*peers.Program{client, server} {
		defer e.Kill()
		if e == server && p.endless {
			continue
		}
		select {
		case <-e.Done:
			if e.Err != nil {
				return e.Err
			}
		case <-bounded.Done():
			return bounded.Err()
		}
	}
	return nil
}
