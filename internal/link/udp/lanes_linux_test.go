//go:build linux && !softrdma_portable

package udp

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/net/bpf"

	"softrdma/internal/link"
	"softrdma/internal/steering"
	"softrdma/internal/wire/ib"
)

// packetTo returns a packet of n bytes for a queue pair.
func packetTo(qpn uint32, n int) []byte {
	b := pattern(n)
	binary.BigEndian.PutUint32(b[ib.DestQPNOffset:], 0xa5<<24|qpn) // the first byte is reserved
	return b
}

func openLanes(t *testing.T, host string, cfg Config, n int) []*Link {
	t.Helper()
	links, err := OpenLanes(netip.AddrPortFrom(netip.MustParseAddr(host), 0), cfg, n)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		t.Cleanup(func() { _ = l.Close() })
		if l.Local() != links[0].Local() {
			t.Fatalf("lanes on %v and %v", links[0].Local(), l.Local())
		}
	}
	if len(links) != n {
		t.Fatalf("%d lanes, expected %d", len(links), n)
	}
	return links
}

func TestSelectorIsPacketLane(t *testing.T) {
	for n := 1; n <= 64; n++ {
		vm, err := bpf.NewVM(selector(n))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range [][]byte{nil, pattern(7), packetTo(0, 8), packetTo(1, 60), packetTo(0xffffff, 1024), packetTo(0x123456, 64)} {
			if got, err := vm.Run(p); err != nil || got != steering.PacketLane(p, n) {
				t.Errorf("%d lanes, packet % x: lane %d, %v, expected %d", n, p[:min(len(p), 8)], got, err, steering.PacketLane(p, n))
			}
		}
	}
}

// Packets arrive at the lane of their queue pair whatever the source port, also if the sockets
// of the lanes' own flows are connected to the same peer, as with IPv6.
func TestLanesTakeTheirPackets(t *testing.T) {
	for _, host := range loopbacks(t) {
		for _, n := range []int{2, 3} {
			a, b := openLanes(t, host, Config{}, 2), openLanes(t, host, Config{}, n)
			var back []*link.DatagramFlow
			for _, l := range b {
				back = append(back, openFlow(t, l, a[0].Local(), 3))
			}
			var rx link.Rx
			for i := range 40 {
				from := a[i%2]
				f := openFlow(t, from, b[0].Local(), uint32(i/5))
				p := packetTo(uint32(0x1000+i*7), 60+i)
				send(t, from, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{p}, Bytes: len(p), Size: len(p)})
				to := steering.PacketLane(p, n)
				receive(t, b[to], &rx)
				if string(rx.Data) != string(p) || rx.Src != f.Src || rx.Dst != b[to].Local() {
					t.Fatalf("%s: lane %d of %d received %d bytes from %v, expected packet %d", host, to, n, len(rx.Data), rx.Src, i)
				}
				p = packetTo(uint32(0x100+i), 80)
				send(t, b[to], &link.Tx{Flow: &back[to].Flow, Pieces: [][]byte{p}, Bytes: len(p), Size: len(p)})
				receive(t, a[i%2], &rx)
				if string(rx.Data) != string(p) {
					t.Fatalf("%s: answer %d came to another lane", host, i)
				}
			}
			for i, l := range b {
				if ok, _ := l.Receive(&rx); ok {
					t.Errorf("%s: lane %d of %d received a packet more", host, i, n)
				}
			}
		}
	}
}

// A batch that is segmented on its way goes as a whole to the lane of its first packet. The
// lanes' owner must hand over the other packets.
func TestBatchComesToTheLaneOfItsFirstPacket(t *testing.T) {
	a, _ := pair(t, "127.0.0.1", Config{})
	b := openLanes(t, "127.0.0.1", Config{}, 2)
	f := openFlow(t, a, b[0].Local(), 1)
	if f.Segments == 1 {
		t.Skip("this system does not segment")
	}
	tx := link.Tx{Flow: &f.Flow, Size: 100}
	for _, qpn := range []uint32{0x101, 0x102, 0x103, 0x104} {
		tx.Pieces = append(tx.Pieces, packetTo(qpn, 100))
		tx.Bytes += 100
	}
	send(t, a, &tx)
	if got := receiveAll(t, b[1], 400); string(got[100:200]) != string(tx.Pieces[1]) {
		t.Error("the packets came in another order")
	}
}

// Only the lanes of a device share its address.
func TestLanesKeepOthersFromTheirAddress(t *testing.T) {
	links := openLanes(t, "127.0.0.1", Config{}, 2)
	local := links[0].Local()
	for n := 1; n <= 2; n++ {
		if l, err := OpenLanes(local, Config{}, n); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%d lanes more: %v, %v, expected EADDRINUSE", n, l, err)
		}
	}
	for _, l := range links {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if l, err := Open(local, Config{}); err != nil {
		t.Errorf("after they are closed: %v", err)
	} else {
		_ = l.Close()
	}
}

func TestLanesJoinGroupsEachForItself(t *testing.T) {
	group := netip.MustParseAddr("239.77.1.9")
	a, _ := pair(t, "127.0.0.1", Config{})
	b := openLanes(t, "127.0.0.1", Config{}, 2)
	for _, l := range b {
		if err := l.Join(group); err != nil {
			t.Fatal(err)
		}
	}
	f := openFlow(t, a, netip.AddrPortFrom(group, b[0].Local().Port()), 1)
	p := packetTo(0xffffff, 90)
	send(t, a, &link.Tx{Flow: &f.Flow, Pieces: [][]byte{p}, Bytes: len(p), Size: len(p)})
	for _, l := range b {
		var rx link.Rx
		if receive(t, l, &rx); string(rx.Data) != string(p) || rx.Dst.Addr() != group {
			t.Errorf("received %d bytes to %v", len(rx.Data), rx.Dst)
		}
	}
}
