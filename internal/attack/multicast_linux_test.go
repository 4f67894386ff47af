package attack_test

import (
	"errors"
	"net/netip"
	"testing"

	"softrdma/internal/attack"
	"softrdma/internal/attack/honest"
	"softrdma/internal/wire/ib"
)

// Datagrams to a multicast group of a queue pair, with wrong Q_Keys, of another
// transport, and garbage. The program receives none of them, and its own traffic
// continues.
func TestAttackMulticastGarbage(t *testing.T) {
	const qkey = 0x1ee7
	honest.LeavesNothing(t)
	d := honest.NewDatagrams(t, honest.Config{}, qkey)
	group := netip.MustParseAddr("239.77.66.55")
	if err := d.B.QP.AttachMulticast(group); err != nil {
		t.Fatal(err)
	}
	s := attack.NewSocket(t, netip.MustParseAddrPort("0.0.0.0:0"))
	if err := s.MulticastByLoopback(); err != nil {
		t.Fatal(err)
	}
	src, dst := forged(d.B.Dev.Addr()), netip.AddrPortFrom(group, d.B.Dev.Addr().Port())
	strike := func(name string, n int, craft func(i int) attack.Datagram) error {
		before := honest.Refusals(d.B.Dev)
		_, err := attack.Pace(t.Context(), s, 0, n, craft)
		return errors.Join(err, honest.Refused(d.B.Dev, before, uint64(n), name))
	}
	datagram := func(op ib.Opcode, qpn, qkey uint32) attack.Datagram {
		return attack.Packet(src, dst, ib.Packet{BTH: ib.BTH{Opcode: op, DestQPN: qpn}, DETH: ib.DETH{QKey: qkey, SrcQPN: 9}, Payload: make([]byte, 16)})
	}
	honest.Meanwhile(t, func() error {
		return errors.Join(
			strike("PACKET_QKEY", attack.Count(100), func(i int) attack.Datagram { return datagram(ib.UDSendOnly, 0xffffff, uint32(i)) }),
			strike("PACKET_TRANSPORT", attack.Count(100), func(int) attack.Datagram { return datagram(ib.RCSendOnly, 0xffffff, 0) }),
			strike("PACKET_QPN", attack.Count(100), func(int) attack.Datagram { return datagram(ib.UDSendOnly, 0xfffffe, qkey) }),
			strike("PACKET_SHORT", attack.Count(100), func(i int) attack.Datagram {
				return attack.Datagram{Src: src, Dst: dst, Data: make([]byte, 1+i%15)}
			}),
		)
	}, func() { d.Round(t, 500) })
}
