package cm

import (
	"net/netip"
	"testing"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// A request through address translators names addresses of other networks. The answer goes back to where the packet
// came from, if the link says that the peer is behind a translator, and a peer may know this device by another address. Without that
// the addresses of the request count.
func TestRequestThroughTranslators(t *testing.T) {
	elsewhere := netip.MustParseAddr("10.0.0.7")
	for _, c := range []struct {
		name           string
		remote         netip.Addr // of this device, in the request
		own            netip.Addr // what the link says of it
		behind, served bool
	}{
		{name: "none", served: true},
		{name: "of the peer", behind: true, served: true},
		{name: "of this device", remote: elsewhere, own: elsewhere, served: true},
		{name: "of both", remote: elsewhere, own: elsewhere, behind: true, served: true},
		{name: "wrong device", remote: elsewhere},
		{name: "wrong device behind a translator", remote: elsewhere, own: netip.MustParseAddr("10.0.0.8")},
	} {
		w, a, b, _ := pair(t)
		asked := netip.AddrPort{}
		b.m.config.Translation = func(peer netip.AddrPort) (netip.Addr, bool) {
			asked = peer
			return c.own, c.behind
		}
		told, want := netip.MustParseAddr("192.168.1.2"), netip.MustParseAddr("192.168.1.2")
		if c.behind {
			want = a.addr.Addr()
		}
		q := asks(a, b)
		q.Primary.LocalGID = mad.GIDFrom(told)
		if c.remote.IsValid() {
			q.Primary.RemoteGID = mad.GIDFrom(c.remote)
		}
		b.m.Receive(0, back(a.origin(), 0), craft(mad.AttrREQ, &q))
		w.work()
		if !c.served {
			if j := lastREJ(t, b); j.Reason != mad.RejectInvalidGID || len(b.refused) != 1 || b.refused[0].Reason != reason.CMGID {
				t.Errorf("%s: rejected as %+v, refused %v", c.name, j, b.refused)
			}
			continue
		}
		if e := b.one(EventReqReceived); e.Conn.Path().Dst != netip.AddrPortFrom(want, a.addr.Port()) || asked.Addr() != a.addr.Addr() {
			t.Errorf("%s: the path leads to %v, expected %v; asked for %v", c.name, e.Conn.Path().Dst, want, asked)
		}
	}
}
