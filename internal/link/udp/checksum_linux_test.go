//go:build linux && !softrdma_portable

package udp

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

// Linux's Soft RoCE sends UDP checksum 0 over IPv6 too.
func TestReceiveIPv6WithoutChecksum(t *testing.T) {
	l, err := Open(netip.MustParseAddrPort("[::1]:4899"), Config{})
	if err != nil {
		t.Skipf("no IPv6 loopback: %v", err)
	}
	defer l.Close()
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_TX, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendto(fd, []byte("no checksum"), 0, &unix.SockaddrInet6{Port: 4899, Addr: netip.IPv6Loopback().As16()}); err != nil {
		t.Fatal(err)
	}
	if err := l.Wait(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	var rx link.Rx
	if ok, err := l.Receive(&rx); !ok || err != nil || string(rx.Data) != "no checksum" {
		t.Fatalf("received %v %q: %v", ok, rx.Data, err)
	}
}
