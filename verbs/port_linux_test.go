package verbs_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"softrdma/internal/host/hosttest"
	"softrdma/verbs"
)

func TestPortEventsFollowInterfaceAndAddress(t *testing.T) {
	hosttest.InNamespace(t, func(t *testing.T) {
		l, other := hosttest.Cable(t, "port0", "10.1.2.3/24")
		before := use()
		d, err := verbs.Open("port0", verbs.Config{})
		hosttest.Must(t, err)
		port := func(active bool, gids int) {
			t.Helper()
			if p := d.QueryPort(); p.Active != active || p.GIDs != gids || len(d.GIDs()) != gids {
				t.Errorf("port %+v with %d GIDs, expected active %v with %d", p, len(d.GIDs()), active, gids)
			}
		}
		port(true, 4)
		hosttest.Must(t, netlink.LinkSetDown(l))
		event(t, d, verbs.EventPortErr)
		port(false, 4)
		hosttest.Must(t, netlink.LinkSetUp(l))
		event(t, d, verbs.EventPortActive)
		port(true, 4)
		hosttest.Must(t, netlink.LinkSetDown(other)) // as if the cable were pulled
		event(t, d, verbs.EventPortErr)
		hosttest.Must(t, netlink.LinkSetUp(other))
		event(t, d, verbs.EventPortActive)
		a, err := netlink.ParseAddr("10.1.2.3/24")
		hosttest.Must(t, err)
		hosttest.Must(t, netlink.AddrDel(l, a))
		event(t, d, verbs.EventGIDChange)
		port(true, 0)
		hosttest.Must(t, netlink.AddrAdd(l, a))
		event(t, d, verbs.EventGIDChange)
		port(true, 4)
		hosttest.Must(t, d.Close())
		hosttest.Must(t, netlink.LinkDel(l))
		if _, err := d.NextEvent(t.Context()); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("event after Close: %v", err)
		}
		port(false, 0)
		noLeak(t, before)
	})
}

// When the address is removed and added again, the same connection continues.
func TestConnectionOutlivesPortThatWasDown(t *testing.T) {
	if *overFabric {
		t.Skip("SKIPPED with -infiniband: a test of an interface's address")
	}
	hosttest.InNamespace(t, func(t *testing.T) {
		l, _ := hosttest.Cable(t, "port0", "10.1.2.3/24")
		lo, err := netlink.LinkByName("lo")
		hosttest.Must(t, err)
		hosttest.Must(t, netlink.LinkSetUp(lo))
		z := newZoo(t, "10.1.2.3")
		defer z.dev.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		a, err := netlink.ParseAddr("10.1.2.3/24")
		hosttest.Must(t, err)
		hosttest.Must(t, netlink.AddrDel(l, a))
		event(t, z.dev, verbs.EventGIDChange)
		hosttest.Must(t, z.write())
		time.Sleep(20 * time.Millisecond) // packets are lost, but within the retries
		hosttest.Must(t, netlink.AddrAdd(l, a))
		hosttest.Must(t, z.cq.Wait(ctx))
		var wc [1]verbs.WC
		if n, err := z.cq.Poll(wc[:]); n != 1 || err != nil || wc[0].Err() != nil {
			t.Errorf("polled %d: %v, %v", n, err, wc[0].Err())
		}
	})
}

func TestOpenWhereNetlinkIsForbidden(t *testing.T) {
	needUDP(t)
	hosttest.OnThread(t, func() {
		hosttest.ForbidNetlink(t)
		z := newZoo(t, leakA)
		defer z.dev.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		hosttest.Must(t, errors.Join(z.write(), z.cq.Wait(ctx)))
		if p := z.dev.QueryPort(); !p.Active || p.GIDs != 4 {
			t.Errorf("port %+v", p)
		}
		if !slices.ContainsFunc(z.dev.Explain(), func(s string) bool { return strings.Contains(s, "There are no port events") }) {
			t.Errorf("not explained: %q", z.dev.Explain())
		}
	})
}

// Idle devices cost nothing: neither their lanes nor the watchers of their ports run.
func TestIdleDevicesCostNothing(t *testing.T) {
	for _, addr := range []string{leakA, leakB, "127.7.1.3"} {
		defer newZoo(t, addr).dev.Close()
	}
	cost := func() (cpu time.Duration, switches int64) {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Nvcsw
	}
	var cpu time.Duration
	var switches int64
	for range 20 { // the runtime works now and then, on a busy machine often
		runtime.GC()
		time.Sleep(50 * time.Millisecond)
		c, n := cost()
		time.Sleep(200 * time.Millisecond)
		cpu, switches = cost()
		if cpu, switches = cpu-c, switches-n; cpu < 2*time.Millisecond && switches < 20 {
			return
		}
	}
	t.Fatalf("3 idle devices used %v of CPU and ran %d times in 200 ms", cpu, switches)
}
