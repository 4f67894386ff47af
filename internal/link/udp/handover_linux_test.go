//go:build linux && !softrdma_portable

package udp

import (
	"net/netip"
	"testing"

	"softrdma/internal/link"
)

// handOver makes one link hand over a packet, and checks what another link receives.
func handOver(t *testing.T, from, to *Link, packet []byte, known bool) {
	t.Helper()
	peer := netip.MustParseAddrPort("192.0.2.7:49152")
	if from.local.Addr().Is6() {
		peer = netip.MustParseAddrPort("[2001:db8::7]:49152")
	}
	if err := from.HandOver(packet, peer, 3, 17); err != nil {
		t.Fatal(err)
	}
	var rx link.Rx
	receive(t, to, &rx)
	if !known {
		if rx.HandedOver || rx.Src != from.local {
			t.Errorf("a packet without the key counts as one of %v", rx.Src)
		}
		return
	}
	if string(rx.Data) != string(packet) || rx.Size != len(packet) || !rx.HandedOver {
		t.Errorf("received %d bytes in packets of %d, handed over %t", len(rx.Data), rx.Size, rx.HandedOver)
	}
	if rx.Src != peer || rx.Dst != to.local || rx.TOS != 3 || rx.HopLimit != 17 {
		t.Errorf("from %v to %v, type of service %d, hop limit %d", rx.Src, rx.Dst, rx.TOS, rx.HopLimit)
	}
}

func TestSlotsHandOverPackets(t *testing.T) {
	for _, host := range loopbacks(t) {
		own, s := openSlots(t, host, 1, 256)
		first, _ := takeWith(t, s, Config{Key: s.Key()})
		second, _ := takeWith(t, s, Config{Key: s.Key()})
		for range 2 * singleAfter { // in both modes of receiving
			handOver(t, first, second, packetTo(0xab02, 64), true)
		}
		handOver(t, second, first, packetTo(0xab01, 4096+64), true)
		handOver(t, second, own[0], packetTo(0xab00, 64), true)
		handOver(t, own[0], second, packetTo(0xab02, 64), true)
		other, _ := takeWith(t, s, Config{Key: Key{1}})
		handOver(t, other, first, packetTo(0xab01, 64), false)
		handOver(t, first, other, packetTo(0xab03, 64), false)

		a, _ := pair(t, host, Config{})
		deliver(t, a, first, 0xab01)
		if err := a.HandOver(packetTo(0xab01, 64), first.local, 0, 0); err == nil {
			t.Error("a link with an address of its own hands over packets")
		}
	}
}
