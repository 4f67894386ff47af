package attack_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/quic-go/quic-go"
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

// A tap records the UDP datagrams of the loopback interface, from some time on those between two addresses. It records
// none of those that the attacker has sent.
type tap struct {
	fd   int
	done chan struct{}
	a, b netip.Addr

	mu      sync.Mutex
	ended   bool
	ignored []netip.AddrPort
	heard   []attack.Datagram
	calls   []attack.Datagram // of the meeting
}

func newTap(t *testing.T) *tap {
	t.Helper()
	testenv.Root(t, "captures packets")
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := &tap{fd: fd, done: make(chan struct{})}
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
			if !x.a.IsValid() || x.isBetween(src, dst) {
				d := attack.Datagram{
					Src: netip.AddrPortFrom(src, binary.BigEndian.Uint16(b[20:])), Dst: netip.AddrPortFrom(dst, binary.BigEndian.Uint16(b[22:])),
					Data: bytes.Clone(b[28:n]),
				}
				switch {
				case slices.Contains(x.ignored, d.Src):
				case d.Src.Port() == ib.UDPPort || d.Dst.Port() == ib.UDPPort:
					x.calls = append(x.calls, d)
				default:
					x.heard = append(x.heard, d)
				}
			}
		}
		x.mu.Unlock()
	}
}

// between forgets all datagrams but those between two addresses.
func (x *tap) between(a, b netip.Addr) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.a, x.b = a, b
	other := func(d attack.Datagram) bool { return !x.isBetween(d.Src.Addr(), d.Dst.Addr()) }
	x.heard, x.calls = slices.DeleteFunc(x.heard, other), slices.DeleteFunc(x.calls, other)
}

// ignore makes the tap ignore what a socket sends.
func (x *tap) ignore(from netip.AddrPort) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ignored = append(x.ignored, from)
}

func (x *tap) isBetween(src, dst netip.Addr) bool {
	return src == x.a && dst == x.b || src == x.b && dst == x.a
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

// call returns one of the datagrams of the meeting, and false if there is none.
func (x *tap) call(r *rand.Rand) (attack.Datagram, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.calls) == 0 {
		return attack.Datagram{}, false
	}
	return x.calls[r.IntN(len(x.calls))], true
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
	calls := newTap(t)
	p := honest.NewPair(t, honest.Config{Device: sealing(t)})
	a, b := p.A.Dev, p.B.Dev
	calls.between(a.Addr().Addr(), b.Addr().Addr())
	x := newTap(t) // of packets that have all arrived
	x.between(a.Addr().Addr(), b.Addr().Addr())
	p.Round(t, 100)
	senders := map[netip.Addr]attack.Sender{}
	for _, d := range []*verbs.Device{a, b} {
		s := attack.NewSocket(t, netip.AddrPortFrom(d.Addr().Addr(), 0))
		senders[d.Addr().Addr()] = s
		// A forged packet of the meeting goes from a port of its own to one, so it would be taken for a packet of PSP.
		x.ignore(s.Addr())
		calls.ignore(s.Addr())
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
			if d, ok := calls.call(r); ok {
				if err := senders[d.Src.Addr()].Send(forge(r, d, []int{0, 1, 3}[sent%3])); err != nil {
					return err
				}
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
	calls.mu.Lock()
	defer calls.mu.Unlock()
	if len(calls.calls) == 0 {
		t.Error("the devices have not met")
	}
	for _, d := range slices.Concat(x.heard, calls.heard, calls.calls) {
		for _, e := range []*honest.End{p.A, p.B} {
			// The message, the address and the R_Key that the peer's requests name.
			for _, secret := range [][]byte{e.MR.Bytes()[:16], binary.BigEndian.AppendUint64(nil, e.MR.Addr()), binary.BigEndian.AppendUint32(nil, e.MR.RKey())} {
				if bytes.Contains(d.Data, secret) && len(secret) > 4 {
					t.Fatalf("%x is in a datagram from %v to %v", secret, d.Src, d.Dst)
				}
			}
		}
	}
	for _, d := range calls.calls {
		if d.Data[0]&0x40 == 0 { // none of QUIC
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

// firstPackets returns the packets with which a caller of the meeting begins, which are the same for each peer.
func firstPackets(t *testing.T) [][]byte {
	t.Helper()
	at, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = quic.DialAddr(ctx, at.LocalAddr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"softrdma-psp"}}, nil)
	}()
	var all [][]byte
	b := make([]byte, 1<<16)
	for len(all) < 2 { // the first message takes two packets
		n, _, err := at.ReadFrom(b)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, bytes.Clone(b[:n]))
	}
	cancel()
	<-done
	return all
}

// Callers that begin and say no more, or nonsense, and more of them than are held, keep no honest device from meeting the server.
func TestAttackFloodsOfCallersAtEncryptedDevices(t *testing.T) {
	t.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true") // of the attackers' sockets
	honest.LeavesNothing(t)
	cfg := honest.ServerConfig{Device: sealing(t)}
	s := honest.NewServer(t, cfg)
	standing := s.Dial(t)
	from := attack.NewSocket(t, netip.MustParseAddrPort(honest.Address()+":0"))
	honest.Meanwhile(t, func() error {
		r := rand.New(rand.NewPCG(3, 4))
		for i := range 150 + attack.Count(30) {
			for j, b := range firstPackets(t) {
				switch i % 4 {
				case 1: // an incomplete first message
					if j > 0 {
						continue
					}
				case 2:
					b[r.IntN(len(b))] ^= 1
				case 3:
					for k := 5; k < len(b); k++ {
						b[k] = byte(r.Uint32())
					}
				}
				if err := from.Send(attack.Datagram{Dst: s.Dev.Addr(), Data: b}); err != nil {
					return err
				}
			}
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
