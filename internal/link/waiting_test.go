package link

import (
	"net/netip"
	"testing"
)

func TestDisplacedIsTheFirstOfTheHostWithMost(t *testing.T) {
	for _, c := range []struct {
		waiting []string
		want    int
	}{
		{[]string{"10.0.0.1"}, 0},
		{[]string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}, 0},
		{[]string{"10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.2", "10.0.0.1"}, 1},
		{[]string{"10.0.0.1", "10.0.0.2", "::ffff:10.0.0.2"}, 1},
		{[]string{"2001:db8::1", "2001:db8:0:1::1", "2001:db8:0:1::2"}, 1},
	} {
		var list []netip.Addr
		for _, a := range c.waiting {
			list = append(list, netip.MustParseAddr(a))
		}
		if got := Displaced(list); got != c.want {
			t.Errorf("%v: found %d, expected %d", c.waiting, got, c.want)
		}
	}
}
