package attack_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/attack"
	"softrdma/internal/attack/honest"
	"softrdma/internal/testenv"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/psp"
	"softrdma/verbs"
)

// sealing returns the configuration of devices that encrypt.
func sealing(t *testing.T) verbs.Config {
	t.Helper()
	secret, err := verbs.SharedSecret([]byte("thirty-two bytes of a test secret"))
	if err != nil {
		t.Fatal(err)
	}
	return verbs.Config{TLS: secret}
}

// A tap records the UDP datagrams between two addresses of the loopback interface.
type tap struct {
	fd   int
	done chan struct{}
	a, b netip.Addr

	mu    sync.Mutex
	ended bool
	heard []attack.Datagram
}

func newTap(t *testing.T, a, b netip.Addr) *tap {
	t.Helper()
	testenv.Root(t, "captures packets")
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := &tap{fd: fd, done: make(chan struct{}), a: a, b: b}
	lo, err := net.InterfaceByName("lo")
	if err == nil {
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000})
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL}), Ifindex: lo.Index})
	}
	if err != nil {
		t.Fatal(err)
	}
	go x.run()
	t.Cleanup(func() {
		x.mu.Lock()
		x.ended = true
		x.mu.Unlock()
		<-x.done
		unix.Close(fd)
	})
	return x
}

// run records at most some thousands of datagrams, of which the first are as good as the last.
func (x *tap) run() {
	defer close(x.done)
	b := make([]byte, 1<<17)
	for {
		n, _, err := unix.Recvfrom(x.fd, b, 0)
		x.mu.Lock()
		if x.ended {
			x.mu.Unlock()
			return
		}
		if err == nil && n > 28+psp.Overhead && b[0] == 0x45 && b[9] == unix.IPPROTO_UDP && len(x.heard) < 20000 {
			src, dst := netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
			if src == x.a && dst == x.b || src == x.b && dst == x.a {
				x.heard = append(x.heard, attack.Datagram{
					Src: netip.AddrPortFrom(src, binary.BigEndian.Uint16(b[20:])), Dst: netip.AddrPortFrom(dst, binary.BigEndian.Uint16(b[22:])),
					Data: bytes.Clone(b[28:n]),
				})
			}
		}
		x.mu.Unlock()
	}
}

// any returns one of the datagrams that one UDP socket can send, and false while there is none.
func (x *tap) any(r *rand.Rand) (attack.Datagram, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.heard) == 0 {
		return attack.Datagram{}, false
	}
	d := x.heard[r.IntN(len(x.heard))]
	return d, len(d.Data) < 8000
}

// refusals are the names by which packets in the hands of an attacker are refused.
var refusals = []string{"PSP_REPLAY", "PSP_INTEGRITY", "PSP_PACKET", "PSP_SPI", "PSP_SOURCE"}

// forge returns a packet of a kind that an attacker can make from a recorded one.
func forge(r *rand.Rand, d attack.Datagram, kind int) attack.Datagram {
	b := bytes.Clone(d.Data)
	switch kind % 7 {
	case 0: // as it was, late
	case 1:
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
	case 2:
		b = b[:1+r.IntN(len(b)-1)]
	case 3:
		b = append(b, byte(r.Uint32()))
	case 4: // as another packet of the key
		binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(b[8:])+uint64(r.IntN(1000)))
		b[len(b)-1] ^= 1
	case 5: // of another key
		binary.BigEndian.PutUint32(b[4:], r.Uint32())
	case 6:
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}
	d.Data = b
	return d
}

// A man in the middle records what two encrypted devices send, and sends it again, late, changed, cut, longer and
// as others. Nothing is executed twice or wrongly, and nothing of the messages is in what was recorded.
func TestAttackManInTheMiddleOfEncryptedDevices(t *testing.T) {
	honest.LeavesNothing(t)
	p := honest.NewPair(t, honest.Config{Device: sealing(t)})
	a, b := p.A.Dev, p.B.Dev
	x := newTap(t, a.Addr().Addr(), b.Addr().Addr())
	p.Round(t, 100)
	senders := map[netip.Addr]attack.Sender{}
	for _, d := range []*verbs.Device{a, b} {
		senders[d.Addr().Addr()] = attack.NewSocket(t, netip.AddrPortFrom(d.Addr().Addr(), 0))
	}
	stranger := attack.NewSocket(t, netip.MustParseAddrPort(honest.Address()+":0"))
	r := rand.New(rand.NewPCG(1, 2))
	honest.Meanwhile(t, func() error {
		const burst = 50
		for sent := 0; sent < attack.Count(2000); {
			before := map[*verbs.Device]map[string]uint64{a: honest.Refusals(a), b: honest.Refusals(b)}
			to := map[*verbs.Device]uint64{}
			for range burst {
				d, ok := x.any(r)
				if !ok {
					continue
				}
				s := senders[d.Src.Addr()]
				if sent%11 == 10 {
					s = stranger
				}
				if err := s.Send(forge(r, d, sent)); err != nil {
					return err
				}
				victim := a
				if d.Dst.Addr() == b.Addr().Addr() {
					victim = b
				}
				to[victim]++
				sent++
			}
			for d, n := range to {
				if err := honest.Refused(d, before[d], n, refusals...); err != nil {
					return err
				}
			}
		}
		return nil
	}, func() { p.Round(t, 5000) })
	p.Round(t, 1000)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, d := range x.heard {
		for _, e := range []*honest.End{p.A, p.B} {
			// The message, the address and the R_Key that the peer's requests name.
			for _, secret := range [][]byte{e.MR.Bytes()[:16], binary.BigEndian.AppendUint64(nil, e.MR.Addr()), binary.BigEndian.AppendUint32(nil, e.MR.RKey())} {
				if bytes.Contains(d.Data, secret) && len(secret) > 4 {
					t.Fatalf("%x is in a datagram from %v to %v", secret, d.Src, d.Dst)
				}
			}
		}
		if d.Dst.Port() == ib.UDPPort || d.Src.Port() == ib.UDPPort {
			t.Errorf("a datagram from %v to %v", d.Src, d.Dst)
		}
	}
}

// Packets of RoCE v2 in the clear with right queue pairs, keys and PSNs are counted and not executed, neither at the port of RoCE nor
// at that of PSP.
func TestAttackClearPacketsAtEncryptedDevices(t *testing.T) {
	honest.LeavesNothing(t)
	p := honest.NewPair(t, honest.Config{Device: sealing(t)})
	s := attack.NewSocket(t, netip.AddrPortFrom(p.A.Dev.Addr().Addr(), 0))
	victim := p.B
	n := attack.Count(200)
	honest.Meanwhile(t, func() error {
		before := honest.Refusals(victim.Dev)
		for i := range n {
			d := attack.Packet(p.A.Dev.Addr(), victim.Dev.Addr(), ib.Packet{
				BTH:     ib.BTH{Opcode: ib.RCWriteOnly, DestQPN: victim.QP.Number(), PSN: far(victim, true, i%2*i)},
				RETH:    ib.RETH{Addr: victim.MR.Addr(), RKey: victim.MR.RKey(), Length: 64},
				Payload: make([]byte, 64),
			})
			if err := s.Send(d); err != nil {
				return err
			}
			if err := honest.Refused(victim.Dev, before, uint64(i+1), "PSP_CLEAR"); err != nil {
				return err
			}
			d.Dst = netip.AddrPortFrom(d.Dst.Addr(), psp.Port)
			d.Sealed = false
			if err := s.Send(d); err != nil { // the device may have another port
				return err
			}
		}
		return nil
	}, func() { p.Round(t, 1000) })
}

// Callers that say nothing, or nonsense, and more of them than are held, keep no honest device from meeting the server.
func TestAttackFloodsOfCallersAtEncryptedDevices(t *testing.T) {
	honest.LeavesNothing(t)
	cfg := honest.ServerConfig{Device: sealing(t)}
	s := honest.NewServer(t, cfg)
	standing := s.Dial(t)
	at := net.TCPAddrFromAddrPort(s.Dev.Addr())
	honest.Meanwhile(t, func() error {
		var open []net.Conn
		defer func() {
			for _, c := range open {
				c.Close()
			}
		}()
		known := slices.Concat(openings(), [][]byte{nil, nil, nil})
		for i := range 300 + attack.Count(60) {
			c, err := knock(at, known[i%len(known)])
			if c == nil {
				return fmt.Errorf("call %d: %w", i, err)
			}
			open = append(open, c)
		}
		return nil
	}, func() {
		s.Echo(t, standing, 10000)
		fresh := *s
		fresh.Client = honest.Open(t, "", cfg.Device)
		fresh.Round(t, 1000)
		if err := fresh.Client.Close(); err != nil {
			t.Error(err)
		}
	})
}
