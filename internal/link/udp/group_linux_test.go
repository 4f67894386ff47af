//go:build linux && !softrdma_portable

package udp

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

// joined makes two links that have both joined the group, on one port of two addresses if the
// system has two.
func joined(t *testing.T, group string, hosts [2]string) (a, b *Link) {
	t.Helper()
	open := func(host string, port uint16) *Link {
		l, err := Open(netip.AddrPortFrom(netip.MustParseAddr(host), port), Config{})
		if err != nil {
			t.Skipf("no link on %s: %v", host, err)
		}
		t.Cleanup(func() { _ = l.Close() })
		if err := l.Join(netip.MustParseAddr(group)); err != nil {
			t.Fatal(err)
		}
		return l
	}
	a = open(hosts[0], 0)
	return a, open(hosts[1], a.Local().Port())
}

func TestJoinGroupReceivesAtEveryMember(t *testing.T) {
	a, b := joined(t, "239.17.18.19", [2]string{"127.0.0.1", "127.0.0.2"})
	exchangeInGroup(t, "239.17.18.19", a, b)
}

// The loopback interface has no route for IPv6 multicast, so this test needs a network
// interface.
func TestJoinIPv6GroupReceivesOwnPackets(t *testing.T) {
	host := multicastIPv6(t)
	for _, group := range []string{"ff05::1718", "ff02::1718", "ff0e::1718"} {
		l, err := Open(netip.AddrPortFrom(host, 0), Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err := l.Join(netip.MustParseAddr(group)); err != nil {
			t.Fatal(err)
		}
		exchangeInGroup(t, group, l)
	}
}

func exchangeInGroup(t *testing.T, group string, members ...*Link) {
	t.Helper()
	dst := netip.AddrPortFrom(netip.MustParseAddr(group), members[0].Local().Port())
	f := openFlow(t, members[0], dst, 7)
	data := pattern(4 * 1000)
	send(t, members[0], &link.Tx{Flow: &f.Flow, Pieces: [][]byte{data}, Bytes: len(data), Size: 1000, TOS: 4, HopLimit: 1})
	for _, l := range members {
		var rx link.Rx
		for got := 0; got < len(data); got += len(rx.Data) {
			receive(t, l, &rx)
			if rx.Dst != dst || rx.Src != f.Src || rx.HopLimit != 1 || rx.TOS != 4 {
				t.Fatalf("%v received from %v to %v, hop limit %d, TOS %d; want %v, %v, 1, 4", l.Local(), rx.Src, rx.Dst, rx.HopLimit, rx.TOS, f.Src, dst)
			}
		}
	}
}

// multicastIPv6 returns an IPv6 address of an interface with multicast.
func multicastIPv6(t *testing.T) netip.Addr {
	ifaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range ifaces {
		if i.Flags&(net.FlagUp|net.FlagMulticast) != net.FlagUp|net.FlagMulticast {
			continue
		}
		addrs, _ := i.Addrs()
		for _, x := range addrs {
			a, ok := netip.AddrFromSlice(x.(*net.IPNet).IP)
			if ok && a.Is6() && !a.Is4In6() && a.IsGlobalUnicast() {
				return a
			}
		}
	}
	t.Skip("no interface that multicasts has a global IPv6 address")
	return netip.Addr{}
}

func TestLeaveGroupEndsReceiving(t *testing.T) {
	a, _ := pair(t, "127.0.0.1", Config{})
	group := netip.MustParseAddr("239.17.18.20")
	f := openFlow(t, a, netip.AddrPortFrom(group, a.Local().Port()), 7)
	tx := &link.Tx{Flow: &f.Flow, Pieces: [][]byte{pattern(64)}, Bytes: 64, Size: 64}
	for range 2 {
		if err := a.Join(group); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Leave(group); err != nil {
		t.Fatal(err)
	}
	var rx link.Rx
	send(t, a, tx)
	receive(t, a, &rx) // joined twice, left once
	if err := a.Leave(group); err != nil {
		t.Fatal(err)
	}
	send(t, a, tx)
	if err := a.Wait(10 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if ok, err := a.Receive(&rx); ok || err != nil {
		t.Fatalf("receive after leaving: %v %v, want nothing", ok, err)
	}
	if err := a.Leave(group); !errors.Is(err, ErrGroup) {
		t.Fatalf("leave of a group not joined: %v, want ErrGroup", err)
	}
	for _, bad := range []string{"127.0.0.1", "ff02::1"} {
		if err := a.Join(netip.MustParseAddr(bad)); !errors.Is(err, ErrGroup) {
			t.Fatalf("join %s on an IPv4 link: %v, want ErrGroup", bad, err)
		}
	}
}

// Steady unicast traffic must not starve a group, nor one group another.
func TestReceiveTakesGroupsInTurns(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{NoSegmentation: true})
	dsts := []netip.AddrPort{b.Local()}
	for _, g := range []string{"239.17.18.21", "239.17.18.22"} {
		if err := b.Join(netip.MustParseAddr(g)); err != nil {
			t.Fatal(err)
		}
		dsts = append(dsts, netip.AddrPortFrom(netip.MustParseAddr(g), b.Local().Port()))
	}
	for _, dst := range dsts {
		f := openFlow(t, a, dst, 7)
		for range 100 {
			send(t, a, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{pattern(64)}, Bytes: 64, Size: 64})
		}
	}
	seen := map[netip.AddrPort]int{}
	var rx link.Rx
	for range 2*groupTurns + 2 {
		receive(t, b, &rx)
		seen[rx.Dst] += len(rx.Data) / rx.Size
	}
	for _, dst := range dsts {
		if seen[dst] == 0 {
			t.Fatalf("nothing of %v among %v", dst, seen)
		}
	}
	if seen[dsts[0]] < 2*groupTurns-2 {
		t.Fatalf("unicast is not first: %v", seen)
	}
}

func TestJoinDuringWaitReceives(t *testing.T) {
	a, b := pair(t, "127.0.0.1", Config{})
	group := netip.MustParseAddr("239.17.18.23")
	waited := make(chan error)
	go func() { waited <- b.Wait(-1) }()
	time.Sleep(5 * time.Millisecond)
	if err := b.Join(group); err != nil {
		t.Fatal(err)
	}
	f := openFlow(t, a, netip.AddrPortFrom(group, b.Local().Port()), 7)
	send(t, a, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{pattern(64)}, Bytes: 64, Size: 64})
	select {
	case err := <-waited:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("a packet to the group does not end the wait")
	}
	n, err := unix.GetsockoptInt(b.group.groups[0].fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL)
	if err != nil || n != 0 {
		t.Fatalf("IP_MULTICAST_ALL is %d (%v), want 0", n, err)
	}
}
