package ib

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"testing"
)

// RFC 1071: a header that holds its checksum sums to ones.
func TestPutIPChecksumSumsToOnes(t *testing.T) {
	var b [GRHLen]byte
	n := PutIP(b[:], v4src.Addr(), v4dst.Addr(), 0xb8, 64, 0x1234, 100)
	if n != 20 || fold(sum16(0, b[:n])) != 0xffff {
		t.Errorf("header % x: length %d, sum %#x", b[:n], n, fold(sum16(0, b[:n])))
	}
}

func TestPutGRHLayout(t *testing.T) {
	b := bytes.Repeat([]byte{0xee}, GRHLen+1)
	PutGRH(b, v4src.Addr(), v4dst.Addr(), 2, 64, 0, 36)
	// A17.4.5.2: the IPv4 header lies in the last twenty bytes.
	want, _ := hex.DecodeString("00000000000000000000000000000000000000004502004000004000401126a90a0000010a000002" + "ee")
	if !bytes.Equal(b, want) {
		t.Errorf("IPv4:\nexpected % x\nfound    % x", want, b)
	}
	PutGRH(b, v6src.Addr(), v6dst.Addr(), 0x2e, 9, 0, 36)
	want, _ = hex.DecodeString("62e00000002c1109fd000000000000000000000000000001fd000000000000000000000000000002" + "ee")
	if !bytes.Equal(b, want) {
		t.Errorf("IPv6:\nexpected % x\nfound    % x", want, b)
	}
}

func TestUDPChecksumOfPublishedPacket(t *testing.T) {
	g := goldens(t, "testdata/published.txt")[0]
	headers, packet, src, dst, _ := g.split()
	d := append(bytes.Clone(headers[ipv4Len:]), packet...)
	d[6], d[7] = 0, 0
	if got := Checksum(protocolUDP, src.Addr(), dst.Addr(), d); got != 0xaca2 {
		t.Errorf("checksum %#04x, expected 0xaca2", got)
	}
}

func TestUDPChecksumVerifies(t *testing.T) {
	for _, a := range [][2]netip.AddrPort{{v4src, v4dst}, {v6src, v6dst}} {
		for n := range 9 {
			d := make([]byte, udpLen+n)
			PutUDP(d, 1, 2, n, 0)
			for i := range n {
				d[udpLen+i] = byte(0xf0 + i)
			}
			c := Checksum(protocolUDP, a[0].Addr(), a[1].Addr(), d)
			d[6], d[7] = byte(c>>8), byte(c)
			if again := Checksum(protocolUDP, a[0].Addr(), a[1].Addr(), d); again != 0xffff {
				t.Errorf("%d bytes: checksum %#04x does not verify (%#04x)", n, c, again)
			}
		}
	}
}
