package tcp

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

// A paced congestion control costs a third of the throughput between processes of one host.
func TestStreamsOfOneHostAreNotPaced(t *testing.T) {
	x, y, _, _ := streams(opener(Open).open(t, "127.13.6.1"), opener(Open).open(t, "127.13.6.2"))
	for _, s := range []link.Stream{x, y} {
		if name := control(t, s); name != "reno" {
			t.Errorf("%v to %v: %q, expected reno, which the system has and lets all use by default", s.Local(), s.Remote(), name)
		}
	}
}

// control returns the congestion control of a stream.
func control(t *testing.T, s link.Stream) (name string) {
	t.Helper()
	get := func(fd uintptr) {
		var err error
		if name, err = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION); err != nil {
			t.Fatal(err)
		}
	}
	switch s := s.(type) {
	case *stream:
		get(uintptr(s.fd))
	case *conn:
		raw, err := s.raw.(systemConn).SyscallConn()
		if err == nil {
			err = raw.Control(get)
		}
		if err != nil {
			t.Fatal(err)
		}
	default:
		t.Fatalf("no socket of a %T", s)
	}
	return strings.TrimRight(name, "\x00")
}

func TestStreamsHaveTheChosenCongestionControl(t *testing.T) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	allowed := strings.Fields(string(b))
	other := slices.IndexFunc(allowed, func(name string) bool { return name != "reno" }) // of one host by default
	if other < 0 {
		t.Skip("SKIPPED: this system allows no congestion control but reno")
	}
	secret := trusting(t)
	for kind, open := range map[string]opener{
		"epoll": Open,
		"TLS":   func(a netip.Addr, c Config) (link.Streams, error) { return OpenTLS(a, c, secret) },
	} {
		t.Run(kind, func(t *testing.T) {
			chosen := func(a netip.Addr, c Config) (link.Streams, error) {
				c.Congestion = allowed[other]
				return open(a, c)
			}
			x, y, _, _ := streams(opener(chosen).open(t, "127.13.6.3"), opener(chosen).open(t, "127.13.6.4"))
			for _, s := range []link.Stream{x, y} {
				if name := control(t, s); name != allowed[other] {
					t.Errorf("%v to %v: expected %s, found %s", s.Local(), s.Remote(), allowed[other], name)
				}
			}
			l, err := open(netip.MustParseAddr("127.13.6.5"), Config{Congestion: "none such"})
			if err == nil {
				l.Close()
			}
			if err == nil || !strings.Contains(err.Error(), `"reno"`) || !strings.Contains(err.Error(), `"none such"`) {
				t.Errorf("a control that the system does not have: %v", err)
			}
		})
	}
}
