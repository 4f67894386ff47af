package attack_test

import (
	"fmt"
	"net/netip"
	"testing"

	"softrdma/internal/attack"
	"softrdma/internal/attack/honest"
	"softrdma/internal/capture"
	"softrdma/internal/psn"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// A target is a pair under attack. The attacker knows the addresses, UDP ports and queue
// pair numbers of its packets, but not the PSNs.
type target struct {
	*honest.Pair
	sender attack.Sender
	ports  map[*honest.End]uint16 // source ports of the ends
}

func aim(t *testing.T, r route) *target {
	t.Helper()
	g := &target{
		Pair:   honest.NewPair(t, honest.Config{A: r.victim, B: client(r.victim)}),
		sender: r.sender(t), ports: make(map[*honest.End]uint16),
	}
	for _, e := range []*honest.End{g.A, g.B} {
		heard := honest.Overhear(t, e.Dev, func() { g.Round(t, 100) })
		for _, p := range heard {
			if p.Direction == capture.Outbound {
				g.ports[e] = p.Src.Port()
			}
		}
	}
	return g
}

// from returns the source address and port of an end's packets.
func (g *target) from(e *honest.End) netip.AddrPort {
	return netip.AddrPortFrom(e.Dev.Addr().Addr(), g.ports[e])
}

// strike sends n packets to an end, as if from the other one, and waits until the end
// has refused n packets with one of the names.
func (g *target) strike(e *honest.End, n int, names []string, craft func(i int) ib.Packet) error {
	peer := g.A
	if e == g.A {
		peer = g.B
	}
	before := honest.Refusals(e.Dev)
	for i := range n {
		p := craft(i)
		if p.DestQPN == 0 {
			p.DestQPN = e.QP.Number()
		}
		if err := g.sender.Send(attack.Packet(g.from(peer), e.Dev.Addr(), p)); err != nil {
			return err
		}
	}
	return honest.Refused(e.Dev, before, uint64(n), names...)
}

// far returns a PSN far ahead of or behind those that an end currently uses.
func far(e *honest.End, ahead bool, i int) psn.PSN {
	d := uint32(1<<21 + i*1009)
	if !ahead {
		d = -d
	}
	return psn.New(e.Local.PSN + d)
}

// raws are the routes that can forge a source with its port.
var raws = routes[1:]

// Forged acknowledges, NAKs of every code and responses do not complete an end's
// requests.
func TestAttackForgedResponses(t *testing.T) {
	syndromes := []ib.Syndrome{
		ib.ACK, ib.ACKNoCredits, ib.RNRNAK | 1, ib.NAKSequence, ib.NAKInvalidRequest, ib.NAKRemoteAccess, ib.NAKRemoteOperational,
		ib.NAKInvalidRDRequest, 0x60 | 31, 0x40,
	}
	var packets []ib.Packet
	for _, s := range syndromes {
		packets = append(packets, ib.Packet{BTH: ib.BTH{Opcode: ib.RCAcknowledge}, AETH: ib.AETH{Syndrome: s}})
	}
	for _, op := range []ib.Opcode{ib.RCReadResponseFirst, ib.RCReadResponseMiddle, ib.RCReadResponseLast, ib.RCReadResponseOnly} {
		packets = append(packets, ib.Packet{BTH: ib.BTH{Opcode: op}, Payload: make([]byte, 1024)})
	}
	packets = append(packets,
		ib.Packet{BTH: ib.BTH{Opcode: ib.RCAtomicAcknowledge}, AtomicAck: 1},
		ib.Packet{BTH: ib.BTH{Opcode: ib.RCSelectiveAck}, Payload: own.AppendRange(own.AppendDuplicates(nil, 0), 1, 60000)},
	)
	for _, r := range raws {
		t.Run(r.name, func(t *testing.T) {
			honest.LeavesNothing(t)
			g := aim(t, r)
			honest.Meanwhile(t, func() error {
				for _, p := range packets {
					for _, ahead := range []bool{true, false} {
						err := g.strike(g.A, attack.Count(20), []string{"RESPONSE_GHOST", "RESPONSE_STALE"}, func(i int) ib.Packet {
							p.PSN = far(g.A, ahead, i)
							return p
						})
						if err != nil {
							return fmt.Errorf("%v: %w", &p, err)
						}
					}
				}
				return nil
			}, func() { g.Round(t, 5000) })
		})
	}
}

// Forged requests with PSNs other than the next one are refused with a reason. None is
// executed, and no acknowledge that they cause harms the peer.
func TestAttackForgedRequests(t *testing.T) {
	for _, r := range raws {
		t.Run(r.name, func(t *testing.T) {
			honest.LeavesNothing(t)
			g := aim(t, r)
			at := g.B.MR.Addr()
			reth := ib.RETH{Addr: at, RKey: g.B.MR.RKey(), Length: 64} // known from an old packet
			atomic := ib.AtomicETH{Addr: at, RKey: g.B.MR.RKey(), SwapAdd: 1}
			payload := make([]byte, 64)
			packets := []ib.Packet{
				{BTH: ib.BTH{Opcode: ib.RCSendOnly}, Payload: payload},
				{BTH: ib.BTH{Opcode: ib.RCSendFirst}, Payload: make([]byte, 4096)},
				{BTH: ib.BTH{Opcode: ib.RCSendMiddle}, Payload: make([]byte, 4096)},
				{BTH: ib.BTH{Opcode: ib.RCSendLast}, Payload: payload},
				{BTH: ib.BTH{Opcode: ib.RCSendOnlyInvalidate}, IETH: g.B.MR.RKey(), Payload: payload},
				{BTH: ib.BTH{Opcode: ib.RCWriteOnly}, RETH: reth, Payload: payload},
				{BTH: ib.BTH{Opcode: ib.RCReadRequest}, RETH: reth},
				{BTH: ib.BTH{Opcode: ib.RCCompareSwap}, AtomicETH: atomic},
				{BTH: ib.BTH{Opcode: ib.RCFetchAdd}, AtomicETH: atomic},
			}
			honest.Meanwhile(t, func() error {
				for _, p := range packets {
					for _, ahead := range []bool{true, false} {
						names := []string{"SEQUENCE_AHEAD", "SEQUENCE_DUPLICATE", "SEQUENCE_DUPLICATE_UNKNOWN"}
						err := g.strike(g.B, attack.Count(20), names, func(i int) ib.Packet {
							p.PSN, p.AckReq = far(g.A, ahead, i), i%2 == 0
							return p
						})
						if err != nil {
							return fmt.Errorf("%v: %w", &p, err)
						}
					}
				}
				return nil
			}, func() { g.Round(t, 5000) })
		})
	}
}

// Malformed packets, and packets that the queue pair does not accept.
func TestAttackMalformedPackets(t *testing.T) {
	send := func(op ib.Opcode, change func(p *ib.Packet)) func(int) ib.Packet {
		return func(i int) ib.Packet {
			p := ib.Packet{BTH: ib.BTH{Opcode: op, PSN: psn.New(uint32(i))}, Payload: make([]byte, 16)}
			change(&p)
			return p
		}
	}
	same := func(*ib.Packet) {}
	for _, r := range raws {
		t.Run(r.name, func(t *testing.T) {
			honest.LeavesNothing(t)
			g := aim(t, r)
			cases := []struct {
				reason string
				craft  func(int) ib.Packet
			}{
				{"PACKET_PKEY", send(ib.RCSendOnly, func(p *ib.Packet) { p.PKey = 0x1234 })},
				{"PACKET_TRANSPORT", send(ib.UCSendOnly, same)},
				{"PACKET_TRANSPORT", send(ib.UDSendOnly, same)},
				{"PACKET_VERSION", send(ib.RCSendOnly, func(p *ib.Packet) { p.Version = 3 })},
				{"PACKET_EXTRA_PAYLOAD", send(ib.RCReadRequest, same)},
				{"PACKET_QPN", send(ib.RCSendOnly, func(p *ib.Packet) { p.DestQPN = g.B.QP.Number() ^ 1 })},
				{"PACKET_TRANSPORT", send(ib.RCSendOnly, func(p *ib.Packet) { p.DestQPN = 1 })},
				{"PACKET_MULTICAST", send(ib.UDSendOnly, func(p *ib.Packet) { p.DestQPN = 0xffffff })},
			}
			honest.Meanwhile(t, func() error {
				for _, c := range cases {
					if err := g.strike(g.B, attack.Count(50), []string{c.reason}, c.craft); err != nil {
						return err
					}
				}
				return nil
			}, func() { g.Round(t, 5000) })
		})
	}
}

// Valid packets, with the right PSN, from a host that is not the connection's peer.
func TestAttackPacketsFromAnotherHost(t *testing.T) {
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			honest.LeavesNothing(t)
			g := aim(t, r)
			src, n := forged(g.B.Dev.Addr()), attack.Count(500)
			before := honest.Refusals(g.B.Dev)
			honest.Meanwhile(t, func() error {
				for i := range n {
					p := ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, DestQPN: g.B.QP.Number(), PSN: psn.New(g.A.Local.PSN + uint32(i))}, Payload: make([]byte, 8)}
					if err := g.sender.Send(attack.Packet(src, g.B.Dev.Addr(), p)); err != nil {
						return err
					}
				}
				return honest.Refused(g.B.Dev, before, uint64(n), "PACKET_SOURCE")
			}, func() { g.Round(t, 5000) })
		})
	}
}

// Datagrams with wrong Q_Keys at a high rate: a program receives none of them, and its
// own traffic continues.
func TestAttackWrongQKeysAtRate(t *testing.T) {
	const qkey = 0x1ee7
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			honest.LeavesNothing(t)
			d := honest.NewDatagrams(t, honest.Config{A: r.victim, B: client(r.victim)}, qkey)
			s, dst := r.sender(t), d.B.Dev.Addr()
			src := forged(dst)
			before := honest.Refusals(d.B.Dev)
			honest.Meanwhile(t, func() error {
				_, err := attack.Pace(t.Context(), s, 0, attack.Count(20000), func(i int) attack.Datagram {
					key := uint32(i)
					if key == qkey {
						key = 0x80000000 // a controlled one
					}
					return attack.Packet(src, dst, ib.Packet{
						BTH: ib.BTH{Opcode: ib.UDSendOnly, DestQPN: d.B.QP.Number()}, DETH: ib.DETH{QKey: key, SrcQPN: d.A.QP.Number()}, Payload: make([]byte, 32),
					})
				})
				return err
			}, func() { d.Round(t, 500) })
			honest.Counted(t, d.B.Dev, before, "PACKET_QKEY", 1)
		})
	}
}

// garbage returns a datagram of random bytes, of any length.
func garbage(src, dst netip.AddrPort, seed uint64) attack.Datagram {
	return attack.Datagram{Src: src, Dst: dst, Data: noise(seed)}
}

// Random bytes, with and without a valid ICRC, to every UDP socket of a device: the
// receiving one and those of its flows.
func TestAttackGarbageOnEveryUDPSocket(t *testing.T) {
	for _, r := range raws {
		t.Run(r.name, func(t *testing.T) {
			honest.LeavesNothing(t)
			g := aim(t, r)
			from := []netip.AddrPort{forged(g.B.Dev.Addr()), g.from(g.A), g.A.Dev.Addr()}
			to := []netip.AddrPort{g.B.Dev.Addr(), g.from(g.B)}
			before := honest.Refusals(g.B.Dev)
			honest.Meanwhile(t, func() error {
				_, err := attack.Pace(t.Context(), g.sender, 0, attack.Count(5000), func(i int) attack.Datagram {
					d := garbage(from[i%3], to[i/3%2], uint64(i))
					if i%4 == 0 && len(d.Data) >= ib.BTHLen {
						d = attack.Seal(d.Src, d.Dst, d.Data)
					}
					return d
				})
				return err
			}, func() { g.Round(t, 5000) })
			honest.Counted(t, g.B.Dev, before, "PACKET_ICRC", 1)
			honest.Counted(t, g.B.Dev, before, "PACKET_SHORT", 1)
		})
	}
}
