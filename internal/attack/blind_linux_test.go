package attack_test

import (
	"testing"
	"time"

	"softrdma/internal/attack"
	"softrdma/internal/attack/honest"
	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/wire/ib"
)

// blind returns a forged request that asks for selective acknowledges, with the d-th PSN
// after the connection's first one.
func blind(g *target, d uint32) ib.Packet {
	return ib.Packet{
		BTH:     ib.BTH{Opcode: ib.RCSendOnly, PSN: psn.New(g.A.Local.PSN + d), AckReq: true, Selective: true},
		Payload: []byte("forged.."),
	}
}

// Forged SENDs from the peer's address cover all PSNs so densely that one of them is
// always in the receiver's window. The attacker cannot use the peer's source port, as
// another user of the peer's host, or guesses it.
func TestAttackBlindInjectionWithoutThePort(t *testing.T) {
	const step = 2048
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			honest.LeavesNothing(t)
			g := aim(t, r)
			truth := g.ports[g.A]
			at := 0
			honest.Meanwhile(t, func() error {
				for at < attack.Count(1<<24/step) {
					g.ports[g.A] = 0xc000 | uint16(at*509)&0x3fff
					if g.ports[g.A] == truth {
						g.ports[g.A] ^= 1
					}
					err := g.strike(g.B, 256, []string{"PACKET_SOURCE_PORT"}, func(i int) ib.Packet {
						return blind(g, uint32(at+i)*step+step/2)
					})
					if err != nil {
						return err
					}
					at += 256
				}
				return nil
			}, func() { g.Round(t, 5000) })
		})
	}
}

// Forged SENDs with the PSN that is due, from another port, while the connection is idle. The
// attacker may be another user of the peer's host, who knows the PSN. The receiver probes the
// peer, which answers from its own port.
func TestAttackIdleConnectionWithTheRightPSN(t *testing.T) {
	for _, r := range routes[:1] { // its sender has a port of its own
		t.Run(r.name, func(t *testing.T) {
			honest.LeavesNothing(t)
			g := aim(t, r)
			for range attack.Count(5) {
				first := g.next(t)
				time.Sleep(machine.OriginQuiet + 20*time.Millisecond)
				err := g.strike(g.B, 400, []string{"PACKET_SOURCE_PORT"}, func(i int) ib.Packet {
					p := blind(g, 0)
					p.PSN = first.Add(i % 20)
					return p
				})
				if err != nil {
					t.Fatal(err)
				}
				g.Round(t, 5000)
			}
		})
	}
}

// An attacker who knows the port can have packets buffered out of order, but the peer
// reports that it has not sent them.
func TestAttackBlindInjectionAheadIsDropped(t *testing.T) {
	for _, r := range raws {
		t.Run(r.name, func(t *testing.T) {
			honest.LeavesNothing(t)
			g := aim(t, r)
			for range attack.Count(3) {
				sender, receiver := honest.Refusals(g.A.Dev), honest.Refusals(g.B.Dev)
				first := g.next(t)
				err := g.strike(g.B, 5, []string{"SEQUENCE_HELD"}, func(i int) ib.Packet {
					p := blind(g, 0)
					p.PSN = first.Add(2 + i)
					return p
				})
				if err != nil {
					t.Fatal(err)
				}
				honest.Counted(t, g.A.Dev, sender, "HELD_UNSENT", 1)
				g.Round(t, 8000)
				honest.Counted(t, g.B.Dev, receiver, "HELD_DISOWNED", 1)
				g.Round(t, 8000)
			}
		})
	}
}

// next returns the PSN of A's next request. It observes a round, whose last request is a
// READ of one packet.
func (g *target) next(t *testing.T) psn.PSN {
	var last psn.PSN
	for _, p := range honest.Sent(honest.Overhear(t, g.A.Dev, func() { g.Round(t, 64) }), g.A.Dev) {
		if p.Opcode == ib.RCReadRequest {
			last = p.PSN
		}
	}
	return last.Next()
}

// Forged congestion notifications: from another port, and from the right one about no
// recently sent packet.
func TestAttackForgedNotifications(t *testing.T) {
	for _, r := range raws {
		t.Run(r.name, func(t *testing.T) {
			honest.LeavesNothing(t)
			g := aim(t, r)
			truth := g.ports[g.B]
			honest.Meanwhile(t, func() error {
				for _, name := range []string{"PACKET_SOURCE_PORT", "CONGESTION_PSN"} {
					g.ports[g.B] = truth
					if name == "PACKET_SOURCE_PORT" {
						g.ports[g.B] ^= 1
					}
					err := g.strike(g.A, attack.Count(100), []string{name}, func(i int) ib.Packet {
						return ib.Packet{BTH: ib.BTH{Opcode: ib.CongestionNotify, BECN: true, PSN: g.apart().Add(i % 1000)}, Payload: make([]byte, 16)}
					})
					if err != nil {
						return err
					}
				}
				return nil
			}, func() { g.Round(t, 5000) })
		})
	}
}

// apart returns a PSN as far as possible from those of both ends. A notification may be
// about a request or a response, and responses have the PSNs of the peer's requests.
func (g *target) apart() psn.PSN {
	const space = 1 << 24
	d := (g.B.Local.PSN - g.A.Local.PSN) % space
	half := d / 2
	if d < space/2 {
		half += space / 2
	}
	return psn.New(g.A.Local.PSN + half)
}
