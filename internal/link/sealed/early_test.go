package sealed

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"softrdma/internal/link"
	"softrdma/internal/reason"
)

// newEarly makes a caller of the second link that has a key and has not proved who it is, and packets of it.
func newEarly(t *testing.T) (*pair, *session, []link.Rx) {
	p := newPair(t)
	var given offer
	s := p.e[1].promise(addrs[0].Addr(), line{tell: func(b []byte) { given, _ = parseOffer(b) }, hangUp: func() {}})
	if err := p.e[0].take(p.s[0], &given); err != nil {
		t.Fatal(err)
	}
	var all []link.Rx
	for i := range 8 {
		all = append(all, p.send(20, early20(i)))
	}
	return p, s, all
}

func early20(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 20) }

// Packets of a caller that has not proved who it is are held as they are, and opened when it has.
func TestEarlyPacketsWaitForTheProof(t *testing.T) {
	p, s, all := newEarly(t)
	p.expect(all[0], nil)
	p.expect(all[1], nil)
	if s.in[0].bytes != 0 || len(p.links[1].early.packets) != 2 {
		t.Errorf("%d bytes were opened, and %d packets are held", s.in[0].bytes, len(p.links[1].early.packets))
	}
	if err := p.e[1].admit(s, &offer{device: addrs[0].Port()}, true); err != nil {
		t.Fatal(err)
	}
	p.expect(all[2], slices.Concat(early20(0), early20(1), early20(2)))
	p.expect(all[0], nil, reason.PSPReplay)
}

// Packets of a caller that is refused are too, and of many packets only the last few are held.
func TestAttackPacketsOfACallerWithoutProof(t *testing.T) {
	p, s, all := newEarly(t)
	for i, rx := range all {
		if i < maxEarlyOfKey {
			p.expect(rx, nil)
		} else {
			p.expect(rx, nil, reason.PSPEarly)
		}
	}
	p.e[1].revoke(s)
	p.expect(all[0], nil, slices.Repeat([]reason.Reason{reason.PSPSPI}, maxEarlyOfKey+1)...)
	for range maxEarly {
		s := p.e[1].promise(addrs[0].Addr(), line{tell: func([]byte) {}, hangUp: func() {}})
		for range 2 {
			rx := all[0]
			rx.Data = bytes.Clone(rx.Data)
			binary.BigEndian.PutUint32(rx.Data[4:], s.in[0].key.SPI())
			p.arrive(rx)
		}
	}
	if n := len(p.links[1].early.packets); n != maxEarly {
		t.Errorf("%d packets are held, expected %d", n, maxEarly)
	}
}

// SPIs follow each other, so others can guess that of a caller. Only packets from where it calls are held: others would
// take their places.
func TestAttackGuessedSPIsDisplaceNoEarlyPackets(t *testing.T) {
	p, s, all := newEarly(t)
	p.expect(all[0], nil)
	p.expect(all[1], nil)
	for range 2 * maxEarlyOfKey {
		forged := all[2]
		forged.Src = netip.MustParseAddrPort("10.0.0.77:50000")
		p.expect(forged, nil, reason.PSPSource)
	}
	if err := p.e[1].admit(s, &offer{device: addrs[0].Port()}, true); err != nil {
		t.Fatal(err)
	}
	p.expect(all[2], slices.Concat(early20(0), early20(1), early20(2)))
}

// While packets come with an earlier key, the key of a new connection is not used before the peer says that it takes it. If none
// come, it is used at once: the peer may be another one.
func TestTrafficKeepsItsKeyUntilThePeerTakesAnother(t *testing.T) {
	for _, traffic := range []bool{false, true} {
		e := NewEndpoint(addrs[0], 1000)
		p, err := e.peer(addrs[1])
		if err != nil {
			t.Fatal(err)
		}
		begin := func(spi uint32) (*session, *offer) {
			s := e.begin(p, true, quiet(true, "x"))
			e.issue(s)
			o := &offer{spi: spi, port: 1, device: 1}
			if err := e.take(s, o); err != nil {
				t.Fatal(err)
			}
			return s, o
		}
		first, _ := begin(1)
		p.dialled()
		first.in[0].used.Store(traffic)
		second, o := begin(2)
		if used := p.out.Load() == second.out; used == traffic {
			t.Errorf("traffic %v: the new key is used: %v", traffic, used)
		}
		if err := e.take(second, o); err != nil || p.out.Load() != second.out {
			t.Errorf("traffic %v: the new key is not used when the peer takes it: %v", traffic, err)
		}
	}
}

// Only packets of QUIC go to the meeting. All of RoCE v2 in the clear are reported, also datagrams and
// those of the manufacturers' opcodes.
func TestPortTellsQUICFromRoCE(t *testing.T) {
	for op := range 256 {
		for _, key := range []uint16{0xffff, 0x7fff, 1} {
			b := binary.BigEndian.AppendUint16([]byte{byte(op), 0xf0}, key) // with all fields but the version
			if isQUIC(append(b, bytes.Repeat([]byte{0xff}, 60)...)) {
				t.Fatalf("opcode %#x with P_Key %#x counts as QUIC", op, key)
			}
		}
	}
	for range 100 {
		id, _ := ids{}.GenerateConnectionID()
		if b := append([]byte{0x41}, id.Bytes()...); !isQUIC(b) {
			t.Fatalf("%x does not count as QUIC", b)
		}
	}
	for n := range 5 {
		if isQUIC(make([]byte, n)) {
			t.Errorf("%d bytes count as QUIC", n)
		}
	}
}

// A caller whose key was made before the master key changed gets another one when it is admitted: its key would be of
// the master key that changes next.
func TestCallersKeyOutlivesTheNextRotation(t *testing.T) {
	e := NewEndpoint(addrs[1], 1000)
	var given offer
	s := e.promise(addrs[0].Addr(), line{tell: func(b []byte) { given, _ = parseOffer(b) }, hangUp: func() {}})
	e.Rotate()
	if err := e.admit(s, &offer{device: addrs[0].Port()}, true); err != nil {
		t.Fatal(err)
	}
	used := given.spi
	e.Rotate()
	if e.inbound[used] == nil {
		t.Errorf("the key with SPI %#x does not count after one rotation", used)
	}
	if given.spi == used {
		t.Error("the caller got no other key")
	}
}
