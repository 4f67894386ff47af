package attack_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"softrdma/internal/attack"
	"softrdma/internal/attack/honest"
	"softrdma/internal/wire/mad"
)

// A flood of messages from forged sources does not affect an established connection:
// requests, requests for unknown services, service ID resolutions, and disconnects of
// unknown connections.
func TestAttackFloodsDoNotAffectConnections(t *testing.T) {
	for _, r := range routes[1:] {
		t.Run(r.name, func(t *testing.T) {
			s := honest.NewServer(t, honest.ServerConfig{Server: r.victim, Client: client(r.victim)})
			c, sender := s.Dial(t), r.sender(t)
			honest.Meanwhile(t, func() error {
				rnd, n := rand.New(rand.NewPCG(3, 4)), attack.Count(5000)
				_, err := attack.Pace(t.Context(), sender, 50_000, n, func(i int) attack.Datagram {
					return flood(rnd, i, anywhere(rnd, s.Dev.Addr().Addr()), s)
				})
				return err
			}, func() { s.Echo(t, c, 100_000) })
			now := honest.Refusals(s.Dev)
			if now["CM_CHALLENGE"] == 0 || now["CM_SERVICE"] == 0 {
				t.Errorf("counted %v", now)
			}
		})
	}
}

// anywhere returns an unused source address of an address's family.
func anywhere(r *rand.Rand, like netip.Addr) netip.AddrPort {
	var b [16]byte
	if like.Is4() {
		binary.BigEndian.PutUint32(b[:], 127<<24|1<<23|r.Uint32()>>9)
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[:4])), 50000)
	}
	binary.BigEndian.PutUint64(b[:], 0x20010db8<<32|uint64(r.Uint32()))
	binary.BigEndian.PutUint64(b[8:], r.Uint64())
	return netip.AddrPortFrom(netip.AddrFrom16(b), 50000)
}

// flood returns the i-th message of a flood.
func flood(r *rand.Rand, i int, src netip.AddrPort, s *honest.Server) attack.Datagram {
	to := s.Dev.Addr()
	q := attack.Request(src, s.Addr, mad.PortSpaceTCP, r.Uint32(), r.Uint32()>>8, r.Uint64())
	switch i % 4 {
	case 1:
		q.Service++
	case 2:
		return attack.Message(src, to, mad.AttrSIDRReq, r.Uint64(), &mad.SIDRReq{RequestID: r.Uint32(), PKey: attack.DefaultPKey, Service: q.Service})
	case 3:
		return attack.Message(src, to, mad.AttrDREQ, r.Uint64(), &mad.DREQ{LocalID: r.Uint32(), RemoteID: r.Uint32()})
	}
	return attack.Message(src, to, mad.AttrREQ, r.Uint64(), q)
}
