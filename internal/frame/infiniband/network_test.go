package infiniband

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

var (
	here  = netip.MustParseAddr("fe80::2:c903:1:1")
	there = netip.MustParseAddr("fe80::2:c903:1:2")
	group = netip.MustParseAddr("ff12:401b:ffff::e001:203")
)

func port(gid netip.Addr, lid uint16, lmc uint8) frame.Port {
	return frame.Port{LID: lid, LMC: lmc, GIDs: []netip.Addr{gid}}
}

// pair returns two networks that reach each other, with LIDs 4 and 8.
func pair() (a, b *Network) {
	return New(nil, port(here, 4, 0)), New(nil, port(there, 8, 2))
}

// packet is a whole packet of a flow, from LRH to ICRC.
func packet(f *frame.Flow, r *rand.Rand) []byte {
	b := make([]byte, ib.BTHLen+4*r.IntN(1024)+ib.ICRCLen)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	ib.PutICRC(b[len(b)-ib.ICRCLen:], f.CRC.Sum(0, b))
	return append(bytes.Clone(f.Header(len(b))), b...)
}

func TestPacketsArriveAsTheyWereSent(t *testing.T) {
	a, b := pair()
	r := rand.New(rand.NewPCG(1, 7))
	if err := b.Join(group); err != nil {
		t.Fatal(err)
	}
	for i := range 500 {
		dst := []qp.Endpoint{qp.LIDEndpoint(8), qp.LIDEndpoint(11), Global(there, 9), Global(group, 0xc003)}[i%4]
		path := &qp.Path{Dst: dst, FlowLabel: r.Uint32N(1 << 20), ServiceLevel: uint8(r.UintN(16))}
		f, err := a.Open(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		class := frame.Class{ServiceLevel: path.ServiceLevel}
		if global(dst) {
			class.TrafficClass, class.HopLimit = uint8(r.UintN(256)), uint8(r.UintN(256))
		}
		a.Classify(f, frame.Class{TrafficClass: 0xff, HopLimit: 0xff}) // which leaves nothing behind
		a.Classify(f, class)
		p := packet(f, r)
		if want := ib.NativeICRC(p); ib.ICRC(p) != want {
			t.Fatalf("%v: ICRC %08x, expected %08x", dst, ib.ICRC(p), want)
		}
		p[0] |= uint8(r.UintN(15)) << 4 // a link's virtual lane
		rx := &link.Rx{Data: p, Size: len(p)}
		s, why := b.Arrive(rx)
		if s == nil {
			t.Fatalf("%v: %v", dst, why)
		}
		from := qp.LIDEndpoint(4)
		if global(dst) {
			from = Global(here, 4)
		}
		if s.From != from || s.To != dst || s.Class != class || rx.Size != len(p) || !s.Check(p[s.Front:]) {
			t.Fatalf("%v: from %v to %v of class %+v, ICRC %08x", dst, s.From, s.To, s.Class, ib.ICRC(p))
		}
		p[s.Front+5] ^= 1
		if s.Check(p[s.Front:]) {
			t.Fatalf("%v: changed packet passed its ICRC", dst)
		}
	}
}

// A batch has packets of one size, the last may be shorter.
func TestBatchesArrive(t *testing.T) {
	a, b := pair()
	for _, dst := range []qp.Endpoint{qp.LIDEndpoint(8), Global(there, 9)} {
		f, err := a.Open(&qp.Path{Dst: dst}, 0)
		if err != nil {
			t.Fatal(err)
		}
		var batch []byte
		size := 0
		for _, payload := range []int{1024, 1024, 8} {
			p := make([]byte, ib.BTHLen+payload+ib.ICRCLen)
			ib.PutICRC(p[len(p)-ib.ICRCLen:], f.CRC.Sum(0, p))
			batch = append(append(batch, f.Header(len(p))...), p...)
			size = max(size, len(f.Header(len(p)))+len(p))
		}
		rx := &link.Rx{Data: batch, Size: size}
		s, why := b.Arrive(rx)
		if s == nil {
			t.Fatal(why)
		}
		if rx.Size != size || len(rx.Data) != len(batch) {
			t.Errorf("%v: batch of %d bytes in packets of %d", dst, len(rx.Data), rx.Size)
		}
		for rest := batch; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			if p := rest[:min(size, len(rest))]; !s.Check(p[s.Front:]) {
				t.Errorf("%v: ICRC %08x of a packet of %d bytes", dst, ib.ICRC(p), len(p))
			}
		}
		if s, why := b.Arrive(&link.Rx{Data: batch, Size: size - 4}); s != nil || why.Reason != reason.PacketLRHLength {
			t.Errorf("%v: packets of another size: %v", dst, why)
		}
	}
}

func TestArriveRefuses(t *testing.T) {
	a, b := pair()
	r := rand.New(rand.NewPCG(2, 7))
	for _, c := range []struct {
		name   string
		dst    qp.Endpoint
		change func(p []byte) []byte
		want   reason.Reason
	}{
		{"short", qp.LIDEndpoint(8), func(p []byte) []byte { return p[:7] }, reason.PacketShort},
		{"link version", qp.LIDEndpoint(8), func(p []byte) []byte { p[0] |= 1; return p }, reason.PacketLRH},
		{"raw", qp.LIDEndpoint(8), func(p []byte) []byte { p[1] &^= 3; return p }, reason.PacketLRH},
		{"cut", qp.LIDEndpoint(8), func(p []byte) []byte { return p[:len(p)-4] }, reason.PacketLRHLength},
		{"no BTH", qp.LIDEndpoint(8), func(p []byte) []byte {
			binary.BigEndian.PutUint16(p[4:], 3)
			return p[:12]
		}, reason.PacketLRHLength},
		{"other LID", qp.LIDEndpoint(12), nil, reason.PacketLID},
		{"group without a GRH", qp.LIDEndpoint(0xc003), nil, reason.PacketLID},
		{"from LID 0", qp.LIDEndpoint(8), func(p []byte) []byte { p[6], p[7] = 0, 0; return p }, reason.PacketSLID},
		{"from a group's LID", qp.LIDEndpoint(8), func(p []byte) []byte { p[6] = 0xc0; return p }, reason.PacketSLID},
		{"GRH's version", Global(there, 8), func(p []byte) []byte { p[8] = 0x40; return p }, reason.PacketGRH},
		{"GRH's length", Global(there, 8), func(p []byte) []byte { p[13] ^= 4; return p }, reason.PacketGRHLength},
		{"other GID", Global(here, 8), nil, reason.PacketGID},
		{"other group", Global(group, 0xc003), nil, reason.PacketGID},
		{"from a group's GID", Global(there, 8), func(p []byte) []byte { p[16] = 0xff; return p }, reason.PacketGID},
	} {
		f, err := a.Open(&qp.Path{Dst: c.dst}, 0)
		if err != nil {
			t.Fatal(err)
		}
		p := packet(f, r)
		if c.change != nil {
			p = c.change(p)
		}
		if s, why := b.Arrive(&link.Rx{Data: p, Size: len(p)}); s != nil || why.Reason != c.want {
			t.Errorf("%s: %v, expected %v", c.name, why, c.want)
		}
	}
}

func TestOpenNeedsADestination(t *testing.T) {
	n, _ := pair()
	for _, lid := range []uint16{0, uint16(ib.PermissiveLID)} {
		if _, err := n.Open(&qp.Path{Dst: qp.LIDEndpoint(lid)}, 0); err == nil {
			t.Errorf("flow to LID %d", lid)
		}
	}
}

// Packets to the LID that a port had before are refused, and flows that were open before
// leave from the new one, with the right ICRC.
func TestConfigureMovesFlows(t *testing.T) {
	a, b := pair()
	a.Configure(&frame.Port{}) // no subnet manager has seen the port yet
	r := rand.New(rand.NewPCG(3, 7))
	for _, dst := range []qp.Endpoint{qp.LIDEndpoint(8), Global(there, 8)} {
		b.Configure(&frame.Port{LID: 8, LMC: 2, GIDs: []netip.Addr{there}})
		f, err := a.Open(&qp.Path{Dst: dst, PathBits: 3}, 0)
		if err != nil {
			t.Fatal(err)
		}
		a.Configure(&frame.Port{LID: 16, LMC: 1, GIDs: []netip.Addr{here}})
		p := packet(f, r)
		s, why := b.Arrive(&link.Rx{Data: p, Size: len(p)})
		if s == nil {
			t.Fatal(why)
		}
		if s.From.Port() != 17 || f.Local != s.From || !s.Check(p[s.Front:]) {
			t.Errorf("from %v, the flow is from %v", s.From, f.Local)
		}
		b.Configure(&frame.Port{LID: 32, GIDs: []netip.Addr{there}})
		if s, why := b.Arrive(&link.Rx{Data: p, Size: len(p)}); s != nil || why.Reason != reason.PacketLID {
			t.Errorf("to the LID of before: %v", why)
		}
		a.Close(f)
	}
	if len(a.flows) != 0 {
		t.Errorf("%d flows after Close", len(a.flows))
	}
}

func TestArriveTellsTheLinkRoute(t *testing.T) {
	a, b := pair()
	for _, dst := range []qp.Endpoint{qp.LIDEndpoint(10), Global(there, 11)} {
		f, err := a.Open(&qp.Path{Dst: dst, ServiceLevel: 5}, 0)
		if err != nil {
			t.Fatal(err)
		}
		p := packet(f, rand.New(rand.NewPCG(5, 7)))
		s, why := b.Arrive(&link.Rx{Data: p, Size: len(p)})
		if s == nil {
			t.Fatal(why)
		}
		if want := (qp.LinkRoute{Present: true, Global: global(dst), SL: 5, PathBits: uint8(dst.Port() - 8)}); s.LRH != want {
			t.Errorf("%+v, expected %+v", s.LRH, want)
		}
	}
}

func TestFlowsDifferByServiceLevel(t *testing.T) {
	a, _ := pair()
	if a.Key(&qp.Path{Dst: qp.LIDEndpoint(8), ServiceLevel: 1}, 0, 0) == a.Key(&qp.Path{Dst: qp.LIDEndpoint(8)}, 0, 0) {
		t.Error("one flow for two service levels, whose ICRC differ")
	}
}

func TestGroupGID(t *testing.T) {
	a, _ := pair()
	for ip, want := range map[string]string{
		"224.1.2.3":  "ff12:401b:ffff::1:203", // RFC 4391 4: 28 bits of the group
		"239.1.2.3":  "ff12:401b:ffff::f01:203",
		"ff02::1:23": "ff12:601b:ffff::1:23",
	} {
		if g := a.GroupGID(netip.MustParseAddr(ip)); g != netip.MustParseAddr(want) {
			t.Errorf("%s has group GID %v, expected %v", ip, g, want)
		}
	}
}

func TestLeave(t *testing.T) {
	a, _ := pair()
	if err := a.Join(here); err == nil {
		t.Error("joined a port's GID")
	}
	if err := a.Join(group); err != nil {
		t.Fatal(err)
	}
	if err := a.Leave(group); err != nil {
		t.Fatal(err)
	}
	if err := a.Leave(group); err == nil {
		t.Error("left a group twice")
	}
}

func FuzzArrive(f *testing.F) {
	a, b := pair()
	for _, dst := range []qp.Endpoint{qp.LIDEndpoint(8), Global(there, 9)} {
		w, _ := a.Open(&qp.Path{Dst: dst}, 0)
		f.Add(packet(w, rand.New(rand.NewPCG(4, 7))))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		rx := &link.Rx{Data: p, Size: len(p)}
		if s, _ := b.Arrive(rx); s != nil && (rx.Size != len(p) || s.Front+ib.BTHLen+ib.ICRCLen > len(p)) {
			t.Errorf("accepted %d bytes as a packet of %d behind %d", len(p), rx.Size, s.Front)
		}
	})
}
