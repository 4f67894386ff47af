package samehost

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/attack"
	"softrdma/internal/reason"
)

// have binds the same socket as a device's link.
func have(t *testing.T, local string) {
	t.Helper()
	c, err := net.ListenPacket("udp", local)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
}

// Users of other processes.
const (
	owning = 23456
	lying  = 12345
)

// Connections lead to the user who has the address, however many names others publish for it,
// and whatever times and files these have.
func TestAttackNamesOfAnotherUserTakeNoAddress(t *testing.T) {
	dir := sharedDirectory(t)
	server, thief := startAgent(t, asUser(t, owning)), startAgent(t, asUser(t, lying))
	const local = "127.0.0.2:4791"
	server.expect("ok", "bind %s", local)
	server.expect("ok", "open %s %s auto all", dir, local)
	thief.expect("ok", "open %s %s auto all", dir, local) // without a socket at the address
	in, err := ownSpace()
	if err != nil {
		t.Fatal(err)
	}
	of := name{kind: "rocev2", local: addr(local), space: in}
	for i := range attack.Count(40) { // newest files and newest times in names
		n := of
		n.since = 1<<64 - 1 - uint64(i)
		thief.expect("ok", "link %s %s", dir, n)
		n.slot = slot{i%255 + 1, 256}
		thief.expect("ok", "link %s %s", dir, n)
	}
	reached := 0
	for i, allow := range []string{"all", fmt.Sprint(owning), fmt.Sprint(owning)} {
		for _, qpn := range []uint32{0, 0x123401, 0x123407} {
			reached++
			here := fmt.Sprintf("127.0.0.%d:4791", 10+reached)
			have(t, here)
			mode := []Mode{Auto, Require, Auto}[i]
			d := openDevice(t, Config{Dir: dir, Local: addr(here), Mode: mode, Allow: []string{allow}})
			if err := d.Reach(addr(local), qpn, timeLimit); err != nil {
				t.Errorf("allowed %s: %v", allow, err)
			}
			server.expect("ok", "wait %d 0", reached)
		}
	}
	thief.expect("ok", "wait 0 0")
}

// A device accepts no connection from an address that the dialer's user does not have.
func TestAttackDialerHasItsAddress(t *testing.T) {
	dir := sharedDirectory(t)
	owner, thief := startAgent(t, asUser(t, owning)), startAgent(t, asUser(t, lying))
	have(t, "127.0.0.1:4791")
	d := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Allow: []string{"all"}})
	owner.expect("ok", "bind 127.0.0.2:4791")
	thief.expect("ok", "open %s 127.0.0.2:4791 auto all", dir)
	thief.expect("HOST_ADDRESS", "reach 127.0.0.1:4791 20000")
	if n, _ := d.seen(); n != 0 {
		t.Error("attached")
	}
	wantReason(t, d.Reach(addr("127.0.0.2:4791"), 0, timeLimit), reason.HostAddress)
	owner.expect("ok", "open %s 127.0.0.2:4791 auto all", dir)
	owner.expect("ok", "reach 127.0.0.1:4791 20000")
}

// Names of users who are not allowed neither make an address ambiguous nor hide a device.
func TestAttackNamesOfRefusedUsersChangeNothing(t *testing.T) {
	dir := sharedDirectory(t)
	thief := startAgent(t, asUser(t, lying))
	server := startAgent(t, apart(t, unix.CLONE_NEWNET))
	server.expect("ok", "open %s 10.9.0.1:4791 auto", dir)
	thief.expect("ok", "open %s 10.9.0.1:4791 auto all", dir)
	for i := range 3 {
		n := name{kind: "rocev2", local: addr("10.9.0.1:4791"), space: space{9, uint64(i + 1)}, since: 1<<64 - 1}
		thief.expect("ok", "link %s %s", dir, n)
	}
	d := openDevice(t, Config{Dir: dir, Local: addr("10.9.0.9:4791"), Mode: Require})
	if err := d.Reach(addr("10.9.0.1:4791"), 0, timeLimit); err != nil {
		t.Error(err)
	}
	server.expect("ok", "close")
	server.expect("ok", "open %s 10.9.0.1:4791 auto", dir)
	server.expect("ok", "reach 10.9.0.9:4791 20000")
}

// A name that leads to the wrong socket, to no listener, or to one that does not answer, does
// not end the search.
func TestAttackBadNameDoesNotEndTheSearch(t *testing.T) {
	dir := t.TempDir()
	a := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.1:4791"), Stack: 1})
	b := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.2:4791"), Stack: 2})
	other := openDevice(t, Config{Dir: dir, Local: addr("127.0.0.3:4791"), Stack: 3})
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	l, err := net.Listen("unixpacket", elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	closed, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(dir, "closed"), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	closed.SetUnlinkOnClose(false)
	_ = closed.Close()
	at := func(i int) string {
		n := b.name
		n.since = ^uint64(i)
		return filepath.Join(dir, n.String())
	}
	for i, bad := range []func(path string) error{
		func(p string) error { return os.Link(filepath.Join(dir, other.Name()), p) },
		func(p string) error { return os.Link(filepath.Join(dir, "closed"), p) },
		func(p string) error { return os.Symlink(elsewhere, p) },
		func(p string) error { return os.WriteFile(p, nil, 0o600) },
		func(p string) error { return unix.Mkfifo(p, 0o600) },
		func(p string) error { return os.Mkdir(p, 0o700) },
	} {
		if err := bad(at(i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Reach(b.cfg.Local, 0, timeLimit); err != nil {
		t.Error(err)
	}
	only(t, b)
}

// Users take turns, and each has a limited number of names.
func TestEntriesOfUsersTakeTurns(t *testing.T) {
	var list []entry
	for i := range 3 * maxEntries {
		list = append(list, entry{uid: lying, changed: unix.Timespec{Sec: int64(1000 + i)}})
	}
	list = append(list, entry{uid: owning, changed: unix.Timespec{Sec: 1}}, entry{uid: owning, changed: unix.Timespec{Sec: 2}},
		entry{uid: owning, changed: unix.Timespec{Sec: 2}, name: name{since: 1}})
	got := inTurn(slices.Clone(list))
	var of []entry
	for _, e := range got[:6] {
		if e.uid == owning {
			of = append(of, e)
		}
	}
	if len(got) != maxEntries+3 || len(of) != 3 || of[0].since != 1 || of[1].changed.Sec != 2 || of[2].changed.Sec != 1 {
		t.Errorf("%d entries, of the user with few %+v", len(got), of)
	}
}

// Both IPv4 and IPv6 tables of the kernel are parsed correctly.
func TestHoldersOfAnAddress(t *testing.T) {
	for _, local := range []string{"127.0.0.1:0", "[::1]:0"} {
		c, err := net.ListenPacket("udp", local)
		if err != nil {
			t.Fatal(err)
		}
		a := c.LocalAddr().(*net.UDPAddr).AddrPort()
		if got, err := holders(kindUDP, a); err != nil || !slices.Equal(got, []uint32{uint32(os.Geteuid())}) {
			t.Errorf("%v belongs to %v, %v", a, got, err)
		}
		_ = c.Close()
		if got, err := holders(kindUDP, a); err != nil || len(got) != 0 {
			t.Errorf("%v belongs to %v, %v afterwards", a, got, err)
		}
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0x1589) // in network order
	if err != nil {
		t.Skipf("SKIPPED: packet sockets take privilege: %v", err)
	}
	defer unix.Close(fd)
	if got, err := holders(kindEthernet, netip.AddrPort{}); err != nil || !slices.Contains(got, uint32(os.Geteuid())) {
		t.Errorf("RoCE v1 belongs to %v, %v", got, err)
	}
}

// Commands print names.
func TestNameHasNoControlCharacters(t *testing.T) {
	n := name{kind: "rocev2", local: netip.AddrPortFrom(netip.MustParseAddr("fe80::1").WithZone("e\x1b[31m"), 4791)}
	if _, ok := parseName(n.String()); ok || strings.Contains(n.String(), "_e_") {
		t.Errorf("%q is a name", n)
	}
}

// A listener with a full queue blocks no device.
func TestFullListenerBlocksNoDevice(t *testing.T) {
	dir := sharedDirectory(t)
	d := openDevice(t, Config{Dir: dir, Local: addr("10.9.0.9:4791"), Allow: []string{"all"}})
	thief := startAgent(t, asUser(t, lying))
	n := name{kind: "rocev2", local: addr("10.9.0.1:4791"), space: space{9, 9}, since: 1}
	thief.expect("ok", "listen %s %s", dir, n)
	for full := false; !full; {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		switch err := unix.Connect(fd, &unix.SockaddrUnix{Name: d.dir.at(n.String())}); err {
		case nil:
		case syscall.EAGAIN:
			full = true
		default:
			t.Fatal(err)
		}
	}
	start := time.Now()
	wantReason(t, d.Reach(n.local, 0, timeLimit), reason.HostTimeout)
	if waited := time.Since(start); waited > timeLimit/2 {
		t.Errorf("waited %v", waited)
	}
}
