package tcp

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

// A paced congestion control costs a third of the throughput between processes of one host.
func TestStreamsOfOneHostAreNotPaced(t *testing.T) {
	x, y, _, _ := streams(opener(Open).open(t, "127.13.6.1"), opener(Open).open(t, "127.13.6.2"))
	for _, s := range []link.Stream{x, y} {
		name, err := unix.GetsockoptString(s.(*stream).fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimRight(name, "\x00") != "reno" {
			t.Errorf("%v to %v: %q, expected reno, which the system has and lets all use by default", s.Local(), s.Remote(), name)
		}
	}
}
