package mad

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
)

// unhex reads hexadecimal with spaces, and fills it up with zeros.
func unhex(t *testing.T, s string) (d [Len]byte) {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil || len(b) > Len {
		t.Fatalf("%v in %q, %d bytes", err, s, len(b))
	}
	copy(d[:], b)
	return d
}

// The bytes of a connection as rping makes it, written by hand from the tables
// of IBTA chapter 12 and annex A11: port 7174 of TCP from 192.0.2.1 to
// 192.0.2.2.
const (
	goldenREQ = `
		01 07 02 03 00 00 00 00  00 00 00 05 a1 a2 a3 a4  00 10 00 00 00 00 00 00
		a1 a2 a3 a4 00 00 00 00  00 00 00 00 01 06 1c 06  50 54 00 ff fe 12 34 56
		00 00 00 00 00 00 00 00  00 00 11 01 00 00 00 01  00 00 00 a0 12 34 56 a7
		ff ff 37 f0
		ff ff ff ff 00 00 00 00 00 00 00 00 00 00 ff ff c0 00 02 01
		            00 00 00 00 00 00 00 00 00 00 ff ff c0 00 02 02
		00 00 00 03 00 40 00 98
		00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
		            00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
		00 00 00 00 00 00 00 00
		00 40 ae 2b 00 00 00 00 00 00 00 00 00 00 00 00 c0 00 02 01
		            00 00 00 00 00 00 00 00 00 00 00 00 c0 00 02 02`
	goldenREP = `
		01 07 02 03 00 00 00 00  00 00 00 05 a1 a2 a3 a4  00 13 00 00 00 00 00 00
		b1 b2 b3 b4 a1 a2 a3 a4  00 00 00 00 00 00 12 00  00 00 00 00 65 43 21 00
		01 01 78 e0 50 54 00 ff  fe 65 43 21`
	goldenREJ = `
		01 07 02 03 00 00 00 00  00 00 00 05 a1 a2 a3 a4  00 12 00 00 00 00 00 00
		00 00 00 00 a1 a2 a3 a4  00 00 00 08`
	goldenRTU = `
		01 07 02 03 00 00 00 00  00 00 00 05 a1 a2 a3 a4  00 14 00 00 00 00 00 00
		a1 a2 a3 a4 b1 b2 b3 b4`
	goldenDREQ = `
		01 07 02 03 00 00 00 00  00 00 00 06 a1 a2 a3 a4  00 15 00 00 00 00 00 00
		a1 a2 a3 a4 b1 b2 b3 b4  00 00 12 00`
)

func TestGoldenMessages(t *testing.T) {
	req := REQ{
		LocalID: 0xa1a2a3a4, Service: ServiceOf(PortSpaceTCP, 7174), GUID: 0x505400fffe123456,
		QPN: 0x11, ResponderResources: 1, InitiatorDepth: 1, RemoteResponseTimeout: 20, LocalResponseTimeout: 20,
		StartingPSN: 0x123456, RetryCount: 7, PKey: 0xffff, MTU: MTUFrom(1024), RNRRetryCount: 7, MaxCMRetries: 15,
		Primary: Path{LocalLID: PermissiveLID, RemoteLID: PermissiveLID,
			LocalGID: GIDFrom(netip.MustParseAddr("192.0.2.1")), RemoteGID: GIDFrom(netip.MustParseAddr("192.0.2.2")),
			PacketRate: 3, HopLimit: 64, AckTimeout: 19},
	}
	ip := NewIPHeader(netip.MustParseAddrPort("192.0.2.1:44587"), netip.MustParseAddr("192.0.2.2"))
	ip.Put(req.Private[:])
	for _, c := range []struct {
		attr   AttributeID
		tid    uint64
		golden string
		m      message
	}{
		{AttrREQ, 0x5a1a2a3a4, goldenREQ, &req},
		{AttrREP, 0x5a1a2a3a4, goldenREP, &REP{LocalID: 0xb1b2b3b4, RemoteID: 0xa1a2a3a4, QPN: 0x12, StartingPSN: 0x654321,
			ResponderResources: 1, InitiatorDepth: 1, TargetAckDelay: 15, RNRRetryCount: 7, GUID: 0x505400fffe654321}},
		{AttrREJ, 0x5a1a2a3a4, goldenREJ, &REJ{RemoteID: 0xa1a2a3a4, Of: OfREQ, Reason: RejectInvalidServiceID}},
		{AttrRTU, 0x5a1a2a3a4, goldenRTU, &RTU{LocalID: 0xa1a2a3a4, RemoteID: 0xb1b2b3b4}},
		{AttrDREQ, 0x6a1a2a3a4, goldenDREQ, &DREQ{LocalID: 0xa1a2a3a4, RemoteID: 0xb1b2b3b4, RemoteQPN: 0x12}},
	} {
		want := unhex(t, c.golden)
		var d [Len]byte
		h := NewHeader(c.attr, c.tid)
		h.Put(&d)
		c.m.Put(&d)
		if d != want {
			t.Errorf("%v is written as\n%x, expected\n%x", c.attr, d, want)
		}
		var back Header
		m, refused := ParseHeader(want[:], &back)
		if m == nil || refused.Reason != 0 || back != h {
			t.Errorf("%v: header is read as %+v, %v", c.attr, back, refused)
		}
	}
	var got REQ
	d := unhex(t, goldenREQ)
	if got.Parse(&d); got != req {
		t.Errorf("REQ is read as\n%+v, expected\n%+v", got, req)
	}
}

func TestIPHeader(t *testing.T) {
	for _, c := range []struct {
		golden   string
		src, dst string
		port     uint16
	}{
		{"0040 ae2b 000000000000000000000000c0000201 000000000000000000000000c0000202", "192.0.2.1", "192.0.2.2", 44587},
		{"0060 0001 20010db8000000000000000000000001 20010db8000000000000000000000002", "2001:db8::1", "2001:db8::2", 1},
	} {
		want, _ := hex.DecodeString(strings.ReplaceAll(c.golden, " ", ""))
		h := NewIPHeader(netip.AddrPortFrom(netip.MustParseAddr(c.src), c.port), netip.MustParseAddr(c.dst))
		b := []byte(strings.Repeat("x", IPHeaderLen+1))
		h.Put(b)
		if string(b) != string(want)+"x" {
			t.Errorf("%s is written as %x, expected %x", c.src, b, want)
		}
		var back IPHeader
		if !back.Parse(want) || back != h || back.Src.String() != c.src || back.Dst.String() != c.dst || back.Port != c.port {
			t.Errorf("%x is read as %+v, expected %+v", want, back, h)
		}
		for n := range IPHeaderLen {
			if back.Parse(want[:n]) {
				t.Errorf("a header of %d bytes is taken", n)
			}
		}
		for _, bad := range []struct {
			at int
			v  byte
		}{{0, 0x10}, {1, 0x50}, {1, 0}} {
			b := append([]byte(nil), want...)
			if b[bad.at] = bad.v; back.Parse(b) {
				t.Errorf("a header with byte %d %#x is taken", bad.at, bad.v)
			}
		}
	}
	// Zones and mapped addresses are not for the wire.
	h := NewIPHeader(netip.MustParseAddrPort("[::ffff:192.0.2.1]:5"), netip.MustParseAddr("::ffff:192.0.2.2"))
	if h.IPVersion != 4 || h.Src.String() != "192.0.2.1" || h.Dst.String() != "192.0.2.2" {
		t.Errorf("mapped addresses give %+v", h)
	}
	if h = NewIPHeader(netip.MustParseAddrPort("[fe80::1%eth0]:5"), netip.MustParseAddr("fe80::2%eth0")); h.Src.Zone() != "" || h.Dst.Zone() != "" {
		t.Errorf("zones stay in %+v", h)
	}
}

func TestServiceID(t *testing.T) {
	for _, c := range []struct {
		sid  ServiceID
		ps   PortSpace
		port uint16
		name string
	}{
		{0x0000000001061c06, PortSpaceTCP, 7174, "TCP port 7174"},
		{0x0000000001110001, PortSpaceUDP, 1, "UDP port 1"},
		{0x00000000013fffff, PortSpaceIB, 65535, "IB port 65535"},
		{0x0000000001020000, PortSpaceIPoIB, 0, "IPoIB port 0"},
	} {
		ps, port, ok := c.sid.Port()
		if !ok || ps != c.ps || port != c.port || ServiceOf(c.ps, c.port) != c.sid || c.sid.String() != c.name {
			t.Errorf("%#x is %v %d %v %q, made of them is %#x", uint64(c.sid), ps, port, ok, c.sid, uint64(ServiceOf(c.ps, c.port)))
		}
	}
	for _, s := range []ServiceID{0, 0x0000000000061c06, 0x0100000001061c06, 0x0000000101061c06, 0x0000000001070000} {
		if _, _, ok := s.Port(); ok {
			t.Errorf("%#x is taken for a port", uint64(s))
		}
		if !strings.HasPrefix(s.String(), "service ID 0x") {
			t.Errorf("%#x prints as %q", uint64(s), s)
		}
	}
}

func TestSmallValues(t *testing.T) {
	for _, c := range []struct{ field, bytes int }{{1, 256}, {2, 512}, {3, 1024}, {4, 2048}, {5, 4096}} {
		if MTU(c.field).Bytes() != c.bytes || MTUFrom(c.bytes) != MTU(c.field) {
			t.Errorf("MTU field %d is %d bytes, %d bytes are field %d", c.field, MTU(c.field).Bytes(), c.bytes, MTUFrom(c.bytes))
		}
	}
	for _, n := range []int{0, 1, 128, 1500, 8192, -1} {
		if MTUFrom(n) != 0 {
			t.Errorf("%d bytes have MTU field %d", n, MTUFrom(n))
		}
	}
	for _, f := range []MTU{0, 6, 15, 255} {
		if f.Bytes() != 0 {
			t.Errorf("MTU field %d is %d bytes", f, f.Bytes())
		}
	}
	if p, ok := Announce(4792).Port(); !ok || p != 4792 || Announce(4792) != 0x535212b8 {
		t.Errorf("the announcement %#x gives port %d, %v", uint32(Announce(4792)), p, ok)
	}
	for _, a := range []Announcement{0, 4791, 0x53520000, 0x525312b8} {
		if _, ok := a.Port(); ok {
			t.Errorf("%#x is taken for an announcement", uint32(a))
		}
	}
	for _, a := range []string{"192.0.2.1", "2001:db8::1"} {
		if g := GIDFrom(netip.MustParseAddr(a)); g.Addr().String() != a || g.String() != a {
			t.Errorf("the GID of %s is %v", a, g)
		}
	}
	if g := GIDFrom(netip.Addr{}); g != (GID{}) {
		t.Errorf("no address has GID %v", g)
	}
	j := REJ{InfoLen: 127}
	if len(j.ARI()) != REJInfoLen {
		t.Errorf("additional information of 127 bytes has %d", len(j.ARI()))
	}
	s := SIDRRep{InfoLen: 255}
	if len(s.Additional()) != SIDRRepInfoLen {
		t.Errorf("additional information of 255 bytes has %d", len(s.Additional()))
	}
}

// TestNames: every code has a unique name and a sentence.
func TestNames(t *testing.T) {
	names, words := map[string]bool{}, map[string]bool{}
	for r := RejectNoQP; r <= RejectVendorOption; r++ {
		if r == 34 { // reserved
			continue
		}
		if n, w := r.String(), r.Words(); names[n] || words[w] || strings.Contains(n, " ") || !strings.Contains(w, " ") || strings.Contains(w, "not define") {
			t.Errorf("reject reason %d is %q, %q", r, n, w)
		}
		names[r.String()], words[r.Words()] = true, true
	}
	for _, r := range []RejectReason{0, 34, 36, 65535} {
		if !strings.Contains(r.String(), "reject reason") || !strings.Contains(r.Words(), "not define") {
			t.Errorf("reject reason %d is %q, %q", r, r, r.Words())
		}
	}
	for a := AttrREQ; a <= AttrAPR; a++ {
		if !a.Known() || a.PrivateLen() == 0 || strings.Contains(a.String(), "attribute") {
			t.Errorf("attribute %#x is %q", uint16(a), a)
		}
	}
	for _, a := range []AttributeID{0, 0xf, 0x1b, 0xffff} {
		if a.Known() || a.PrivateLen() != 0 || !strings.Contains(a.String(), "attribute") {
			t.Errorf("attribute %#x is %q", uint16(a), a)
		}
	}
	for s := SIDRSuccess; s <= SIDRUnsupportedVersion; s++ {
		if strings.Contains(s.String(), "reserved") {
			t.Errorf("status %d is %q", s, s)
		}
	}
	if s := SIDRStatus(6).String(); !strings.Contains(s, "6") {
		t.Errorf("status 6 is %q", s)
	}
	for w, want := range []string{"REQ", "REP", "other message", "message 3 (reserved)"} {
		if Which(w).String() != want {
			t.Errorf("message %d is %q", w, Which(w))
		}
	}
}
