package iwarp

import (
	"bytes"
	"encoding/hex"
	"math/bits"
	"strings"
	"testing"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The frames are written by the layout of RFC 5044 7.1.1 and RFC 6581 6.
var goldenFrames = []struct {
	name, clause, bytes string
	want                Frame
	enhanced            *Enhanced
}{
	{"request of revision 1, CRCs and markers", "RFC 5044 7.1.1", "4d504120494420526571204672616d65 c0 01 0000",
		Frame{Flags: FlagCRC | FlagMarkers, Revision: 1}, nil},
	{"rejection with three bytes", "RFC 5044 7.1.1", "4d504120494420526570204672616d65 60 01 0003 616263",
		Frame{Reply: true, Flags: FlagCRC | FlagRejected, Revision: 1, Private: 3}, nil},
	{"peer-to-peer request, Write or Read", "RFC 6581 6", "4d504120494420526571204672616d65 50 02 0009 8004 c003 68656c6c6f",
		Frame{Flags: FlagCRC | FlagEnhanced, Revision: 2, Private: 9}, &Enhanced{PeerToPeer: true, RTR: RTRWrite | RTRRead, IRD: 4, ORD: 3}},
	{"reply with a Send, depths unknown", "RFC 6581 6", "4d504120494420526570204672616d65 10 02 0004 ffff 3fff",
		Frame{Reply: true, Flags: FlagEnhanced, Revision: 2, Private: 4}, &Enhanced{PeerToPeer: true, RTR: RTRSend, IRD: DepthUnknown, ORD: DepthUnknown}},
}

func TestGoldenFrames(t *testing.T) {
	for _, c := range goldenFrames {
		b := unhex(t, c.bytes)
		var f Frame
		if fault := f.Parse(b); fault != FrameOK || f != c.want {
			t.Errorf("%s (%s): fault %d, %+v", c.name, c.clause, fault, f)
		}
		again := bytes.Clone(b)
		clear(again[:FrameLen])
		f.Put(again)
		if c.enhanced != nil {
			var e Enhanced
			if !e.Parse(b[FrameLen:]) || e != *c.enhanced {
				t.Errorf("%s: %+v", c.name, e)
			}
			clear(again[FrameLen : FrameLen+EnhancedLen])
			e.Put(again[FrameLen:])
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%s: put as % x, expected % x", c.name, again, b)
		}
		for n := range FrameLen {
			if fault := f.Parse(b[:n]); fault != FrameShort {
				t.Errorf("%s, %d bytes: fault %d", c.name, n, fault)
			}
		}
		b[7] ^= 1
		if fault := f.Parse(b); fault != FrameKey {
			t.Errorf("%s with another key: fault %d", c.name, fault)
		}
	}
	var e Enhanced
	for n := range EnhancedLen {
		if e.Parse(make([]byte, n)) {
			t.Errorf("enhanced data of %d bytes", n)
		}
	}
}

// The FPDUs are written by hand after the layouts of the RFCs; Wireshark 4 finds
// their CRCs and fields right.
var goldenFPDUs = []struct {
	name, bytes string
	want        Segment
	message     any // behind the segment
}{
	{"Write of no bytes", "000e c1 40 00000001 0000000000000000 ebd34c5f",
		Segment{Length: 14, Tagged: true, Last: true, Opcode: Write, STag: 1}, nil},
	{"Immediate Data", "001a 41 48 00000000 00000000 00000002 00000000 4d00000000000000 0017e5ae",
		Segment{Length: 26, Last: true, Opcode: Immediate, MSN: 2}, uint32(0x4d000000)},
	{"Read Request", "002e 41 41 00000000 00000001 00000001 00000000 6c2ca853 000021398b543388 00000d05 cf2f88e7 000021398b685b58 7f17057a",
		Segment{Length: 46, Last: true, Opcode: ReadRequest, Queue: QueueRead, MSN: 1},
		Read{SinkSTag: 0x6c2ca853, SinkTO: 0x21398b543388, Size: 3333, SourceSTag: 0xcf2f88e7, SourceTO: 0x21398b685b58}},
	{"Atomic Request", "0046 41 4a 00000000 00000001 00000002 00000000 00000000 00000002 cf2f88e7 000021398b686328 0000000000000005 0000000000000000 0000000000000000 ffffffffffffffff 8f620f0d",
		Segment{Length: 70, Last: true, Opcode: AtomicRequest, Queue: QueueRead, MSN: 2},
		Atomic{Op: FetchAdd, ID: 2, STag: 0xcf2f88e7, TO: 0x21398b686328, AddSwap: 5, CompareMask: 1<<64 - 1}},
	{"Atomic Response", "001e 41 4b 00000000 00000003 00000001 00000000 00000002 6356493c2f221508 9c9dfb8b",
		Segment{Length: 30, Last: true, Opcode: AtomicResponse, Queue: QueueAtomicResponse, MSN: 1},
		AtomicValue{ID: 2, Value: 0x6356493c2f221508}},
}

func TestGoldenFPDUs(t *testing.T) {
	for _, c := range goldenFPDUs {
		b := unhex(t, c.bytes)
		c.want.DDPVersion, c.want.RDMAPVersion = DDPVersion, RDMAPVersion
		var s Segment
		if !s.Parse(b) || s != c.want {
			t.Errorf("%s: %+v, expected %+v", c.name, s, c.want)
			continue
		}
		end := len(b) - CRCLen
		if FPDULen(int(s.Length)) != len(b) {
			t.Errorf("%s: length %d, expected %d", c.name, FPDULen(int(s.Length)), len(b))
		}
		if got, want := UpdateCRC(0, b[:end]), CRC(b[end:]); got != want {
			t.Errorf("%s: CRC %#08x, expected %#08x", c.name, got, want)
		}
		again := make([]byte, len(b))
		n := s.Put(again)
		rest := b[n:end]
		switch want := c.message.(type) {
		case uint32:
			if got := ImmediateValue(rest); got != want {
				t.Errorf("%s: %d", c.name, got)
			}
			PutImmediate(again[n:], want)
		case Read:
			var m Read
			if m.Parse(rest[:ReadLen-1]) || !m.Parse(rest) || m != want {
				t.Errorf("%s: %+v", c.name, m)
			}
			m.Put(again[n:])
		case Atomic:
			var m Atomic
			if m.Parse(rest[:AtomicLen-1]) || !m.Parse(rest) || m != want {
				t.Errorf("%s: %+v", c.name, m)
			}
			m.Put(again[n:])
		case AtomicValue:
			var m AtomicValue
			if m.Parse(rest[:AtomicValueLen-1]) || !m.Parse(rest) || m != want {
				t.Errorf("%s: %+v", c.name, m)
			}
			m.Put(again[n:])
		}
		PutCRC(again[end:], UpdateCRC(0, again[:end]))
		if !bytes.Equal(again, b) {
			t.Errorf("%s: put as % x, expected % x", c.name, again, b)
		}
		for k := range n {
			if s.Parse(b[:k]) {
				t.Errorf("%s: parsed from %d bytes", c.name, k)
			}
		}
	}
}

// RFC 3720 B.4 has the CRC of 32 bytes of zero, in the order in which they are sent.
func TestCRCIsCastagnoliInSendingOrder(t *testing.T) {
	b := make([]byte, 4)
	PutCRC(b, UpdateCRC(0, make([]byte, 32)))
	if want := unhex(t, "aa36918a"); !bytes.Equal(b, want) {
		t.Errorf("found % x, expected % x", b, want)
	}
}

func TestSegmentFieldsLieWhereTheRFCPutsThem(t *testing.T) {
	tagged := unhex(t, "1234 c1 42 89abcdef 0123456789abcdef")
	want := Segment{Length: 0x1234, Tagged: true, Last: true, DDPVersion: 1, RDMAPVersion: 1, Opcode: ReadResponse, STag: 0x89abcdef, TO: 0x0123456789abcdef}
	var s Segment
	if !s.Parse(tagged) || s != want {
		t.Errorf("tagged: %+v", s)
	}
	untagged := unhex(t, "1234 02 c6 89abcdef 00000000 00000007 00000100")
	want = Segment{Length: 0x1234, DDPVersion: 2, RDMAPVersion: 3, Opcode: SendSEInvalidate, Invalidate: 0x89abcdef, MSN: 7, MO: 256}
	if !s.Parse(untagged) || s != want {
		t.Errorf("untagged: %+v", s)
	}
}

func TestOpcodeTableIsWhole(t *testing.T) {
	for o := range Opcode(16) {
		i := o.Info()
		if (i != nil) != (o < Opcodes) {
			t.Errorf("%d: %+v", o, i)
			continue
		}
		if o.String() == "" {
			t.Errorf("%d has no name", o)
		}
		if i == nil {
			continue
		}
		if i.Tagged && i.Fixed != TaggedLen || !i.Tagged && i.Fixed < UntaggedLen || i.Queue >= Queues || i.Fixed > MaxTerminate {
			t.Errorf("%v: %+v", o, i)
		}
	}
}

func TestPaddingFillsFourBytes(t *testing.T) {
	for n := range 100 {
		if l := FPDULen(n); l%4 != 0 || PadLen(n) > 3 || l != LengthLen+n+PadLen(n)+CRCLen {
			t.Errorf("ULPDU of %d bytes: FPDU of %d, padding %d", n, l, PadLen(n))
		}
	}
	if PadLen(MaxULPDU) != 0 || FPDULen(MaxULPDU) != MaxFPDU {
		t.Errorf("longest ULPDU: FPDU of %d, padding %d", FPDULen(MaxULPDU), PadLen(MaxULPDU))
	}
}

func TestMarkerPointsBack(t *testing.T) {
	b := make([]byte, MarkerLen)
	PutMarker(b, 0x1234)
	if !bytes.Equal(b, []byte{0, 0, 0x12, 0x34}) || Marker(b) != 0x1234 {
		t.Errorf("% x", b)
	}
}

func TestAtomicApply(t *testing.T) {
	all := ^uint64(0)
	for _, c := range []struct {
		a       Atomic
		old     uint64
		want    uint64
		changes bool
	}{
		{Atomic{AddSwap: 3}, all, 2, true},
		// A carry stops at the bits of the mask: two halves add by themselves.
		{Atomic{AddSwap: 1<<32 | 1, AddSwapMask: 1<<31 | 1<<63}, 0xffffffff_ffffffff, 0, true},
		{Atomic{AddSwap: 1, AddSwapMask: 1 << 63}, 0xffffffff, 1 << 32, true},
		{Atomic{Op: CompareSwap, Compare: 5, CompareMask: all, AddSwap: 9, AddSwapMask: all}, 5, 9, true},
		{Atomic{Op: CompareSwap, Compare: 5, CompareMask: all, AddSwap: 9, AddSwapMask: all}, 6, 6, false},
		{Atomic{Op: CompareSwap, Compare: 0x105, CompareMask: 0xff, AddSwap: 0x77, AddSwapMask: 0xf}, 0x205, 0x207, true},
	} {
		if got, changes := c.a.Apply(c.old); got != c.want || changes != c.changes {
			t.Errorf("%+v of %#x: %#x, %v, expected %#x, %v", c.a, c.old, got, changes, c.want, c.changes)
		}
	}
	// Without a mask, adding is adding, bit by bit too.
	for i := range uint64(1000) {
		x, y := bits.Reverse64(i*0x9e3779b97f4a7c15), i*0xc2b2ae3d27d4eb4f
		a := Atomic{AddSwap: y, AddSwapMask: 1 << 63} // the carry out of bit 63 is lost anyhow
		if got, _ := a.Apply(x); got != x+y {
			t.Fatalf("%#x + %#x = %#x", x, y, got)
		}
	}
}

// The two FPDUs that RFC 5044 4.4 prints: SENDs of 24 bytes of zero on a stream with
// markers, one behind the first marker and one around the second.
func TestFPDUsWithMarkersOfTheRFC(t *testing.T) {
	for _, c := range []struct {
		bytes  string
		marker int // where it stands
		ptr    uint16
		want   Segment
	}{
		{"00000000 002a 4143 00000000 00000000 00000001 00000000 000000000000000000000000000000000000000000000000 52239983", 0, 0,
			Segment{Length: 42, Last: true, DDPVersion: 1, RDMAPVersion: 1, Opcode: Send, MSN: 1}},
		{"002a 4143 00000000 00000000 00000002 00000000 00000014 000000000000000000000000000000000000000000000000 84925898", 20, 20,
			Segment{Length: 42, Last: true, DDPVersion: 1, RDMAPVersion: 1, Opcode: Send, MSN: 2}},
	} {
		b := unhex(t, c.bytes)
		end := len(b) - CRCLen
		if got, want := UpdateCRC(0, b[:end]), CRC(b[end:]); got != want {
			t.Errorf("CRC %#08x, expected %#08x", got, want)
		}
		if p := Marker(b[c.marker:]); p != c.ptr {
			t.Errorf("marker points back by %d, expected %d", p, c.ptr)
		}
		var s Segment
		if !s.Parse(append(b[:c.marker:c.marker], b[c.marker+MarkerLen:]...)) || s != c.want {
			t.Errorf("%+v, expected %+v", s, c.want)
		}
	}
}

// RFC 5044 4.2: the receiver counts the lowest bits of a marker as zero, and does not
// look at the reserved field.
func TestMarkerIgnoresReservedBits(t *testing.T) {
	if p := Marker([]byte{0xff, 0xff, 0x01, 0xff}); p != 0x1fc {
		t.Errorf("%#x, expected 0x1fc", p)
	}
}
