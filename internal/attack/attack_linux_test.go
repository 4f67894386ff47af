package attack_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/attack"
	"softrdma/internal/attack/honest"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
	"softrdma/verbs"
)

// A route is a victim and a sender that forges sources.
type route struct {
	name   string
	victim string // name for honest.Open
	sender func(t *testing.T) attack.Sender
}

func any4(t *testing.T) attack.Sender {
	return attack.NewSocket(t, netip.MustParseAddrPort("0.0.0.0:0"))
}

var routes = []route{
	{"socket IPv4", "", any4},
	{"raw IPv4", "", func(t *testing.T) attack.Sender { return attack.NewRaw(t, true) }},
	{"raw IPv6", "[::1]:4820", func(t *testing.T) attack.Sender { return attack.NewRaw(t, false) }},
}

// forged returns an address of the victim's family that is not the attacker's.
func forged(victim netip.AddrPort) netip.AddrPort {
	if victim.Addr().Is4() {
		return netip.AddrPortFrom(netip.MustParseAddr(honest.Address()), 50000)
	}
	return netip.MustParseAddrPort("[2001:db8::1]:50000")
}

// Packets of package attack have a valid ICRC: they pass the ICRC check, and a packet
// with a wrong bit does not.
func TestAttackPacketsHaveAValidICRC(t *testing.T) {
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			dev := honest.Open(t, r.victim, verbs.Config{})
			s, dst := r.sender(t), dev.Addr()
			src := forged(dst)
			before := honest.Refusals(dev)
			good := attack.Packet(src, dst, ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, DestQPN: 0xabcdef}, Payload: []byte("abcde")})
			bad := attack.Seal(src, dst, good.Data[:len(good.Data)-ib.ICRCLen])
			bad.Data[ib.BTHLen] ^= 1
			bad.Sealed = false
			message := attack.Message(src, dst, mad.AttrRTU, 1, &mad.RTU{LocalID: 1, RemoteID: 2})
			if err := s.Send(good, bad, message); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"PACKET_QPN", "PACKET_ICRC", "CM_COMM_ID"} {
				honest.Counted(t, dev, before, name, 1)
			}
		})
	}
}

// A listener accepts the requests that floods send. Malformed requests would not be an
// attack.
func TestAttackRequestIsAdmitted(t *testing.T) {
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			s := honest.NewServer(t, honest.ServerConfig{Server: r.victim, Client: client(r.victim)})
			before := honest.Refusals(s.Dev)
			src := forged(s.Dev.Addr())
			q := attack.Request(src, s.Addr, mad.PortSpaceTCP, 77, 78, 79)
			d := attack.Message(src, s.Dev.Addr(), mad.AttrREQ, 80, q)
			// The second is a duplicate of the one that was admitted.
			if err := r.sender(t).Send(d, d); err != nil {
				t.Fatal(err)
			}
			honest.Counted(t, s.Dev, before, "CM_DUPLICATE", 1)
			s.Round(t, 10000)
		})
	}
}

// client returns the address of the honest client of a victim.
func client(victim string) string {
	if victim == "" {
		return ""
	}
	return "[::1]:4821"
}

// Honest traffic of each kind passes without an attack.
func TestAttackHarnessPasses(t *testing.T) {
	for _, r := range routes[1:] {
		t.Run(r.name, func(t *testing.T) {
			honest.LeavesNothing(t)
			c := honest.Config{A: r.victim, B: client(r.victim)}
			t.Run("RC", func(t *testing.T) {
				p := honest.NewPair(t, c)
				honest.Meanwhile(t, func() error { return nil }, func() { p.Round(t, 5000) })
			})
			t.Run("UD", func(t *testing.T) {
				d := honest.NewDatagrams(t, c, 0x1234)
				honest.Meanwhile(t, func() error { return nil }, func() { d.Round(t, 500) })
			})
			t.Run("stream", func(t *testing.T) {
				s := honest.NewServer(t, honest.ServerConfig{Server: r.victim, Client: client(r.victim)})
				c := s.Dial(t)
				honest.Meanwhile(t, func() error { return nil }, func() { s.Echo(t, c, 100000); s.Round(t, 1) })
			})
		})
	}
	t.Run("iWARP", func(t *testing.T) {
		s := honest.NewServer(t, honest.ServerConfig{Server: "iwarp:", Client: "iwarp:"})
		s.Round(t, 100000)
	})
}

// The senders send all datagrams. The test logs the rate, which depends on the machine.
func TestAttackSendersSendAll(t *testing.T) {
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			dst := netip.AddrPortFrom(netip.MustParseAddr(honest.Address()), 9) // discard
			if r.victim != "" {
				dst = netip.MustParseAddrPort("[::1]:9")
			}
			src, s, n := forged(dst), r.sender(t), attack.Count(5000)
			begun := time.Now()
			sent, err := attack.Pace(t.Context(), s, 0, n, func(i int) attack.Datagram {
				q := attack.Request(src, dst, mad.PortSpaceTCP, uint32(i), uint32(i), 1)
				return attack.Message(src, dst, mad.AttrREQ, 80, q)
			})
			if sent != n || err != nil {
				t.Fatalf("sent %d of %d: %v", sent, n, err)
			}
			t.Logf("%.0f requests a second", float64(n)/time.Since(begun).Seconds())
		})
	}
}

// noise returns random bytes of random length, determined by the seed.
func noise(seed uint64) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	r := rand.New(rand.NewChaCha8(key))
	b := make([]byte, r.IntN(1+r.IntN(4200)))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}
