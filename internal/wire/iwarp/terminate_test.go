package iwarp

import (
	"bytes"
	"strings"
	"testing"
)

func TestTerminationLayout(t *testing.T) {
	read := unhex(t, "002e 41 41 00000000 00000001 00000004 00000000 6c2ca853 000021398b543388 00000d05 cf3f88e7 000021398b685b58")
	write := unhex(t, "0100 c1 40 00000077 0000000000001000 ffff")
	for _, c := range []struct {
		name   string
		term   Term
		header []byte
		bytes  string
		want   Termination
	}{
		{"CRC", TermMPACRC, nil, "2002 00 00", Termination{Term: TermMPACRC}},
		{"bounds of a Write", TermTaggedBounds, write, "1101 c0 00 0100 c140 00000077 0000000000001000", Termination{
			Term: TermTaggedBounds, HasLength: true, HasDDP: true,
			Segment: Segment{Length: 256, Tagged: true, Last: true, DDPVersion: 1, RDMAPVersion: 1, Opcode: Write, STag: 0x77, TO: 0x1000},
		}},
		{"STag of a Read", TermProtectionSTag, read,
			"0100 e0 00 002e 4141 00000000 00000001 00000004 00000000 6c2ca853 000021398b543388 00000d05 cf3f88e7 000021398b685b58", Termination{
				Term: TermProtectionSTag, HasLength: true, HasDDP: true, HasRDMAP: true,
				Segment: Segment{Length: 46, Last: true, DDPVersion: 1, RDMAPVersion: 1, Opcode: ReadRequest, Queue: 1, MSN: 4},
				Read:    Read{SinkSTag: 0x6c2ca853, SinkTO: 0x21398b543388, Size: 3333, SourceSTag: 0xcf3f88e7, SourceTO: 0x21398b685b58},
			}},
	} {
		b := make([]byte, MaxTerminate)
		n := PutTermination(b, c.term, c.header)
		want := unhex(t, c.bytes)
		if !bytes.Equal(b[:n], want) {
			t.Errorf("%s: % x, expected % x", c.name, b[:n], want)
		}
		var m Termination
		if !m.Parse(want) || m != c.want {
			t.Errorf("%s: %+v", c.name, m)
		}
		// What is cut off is missing, and the error is told nevertheless.
		for n := range want {
			ok := m.Parse(want[:n])
			if ok != (n >= 4) || ok && (m.Term != c.term || m.HasRDMAP || m.HasDDP && n < 4+TaggedLen) {
				t.Errorf("%s, %d bytes: %v, %+v", c.name, n, ok, m)
			}
		}
	}
}

// Linux's siw lays the first three bytes out by the bits of a little-endian machine.
func TestTerminationOfLinuxSiw(t *testing.T) {
	for _, c := range []struct {
		name, bytes string
		want        Term
		parts       int
	}{
		{"READ of an invalid STag", "1000 07 00 0000 4141 00000000 00000001 00000064 00000000 00000001 0000000000000002 00000064 00000003 0000000000000004", TermProtectionSTag, 3},
		{"SEND without a buffer", "2102 03 00 0010 4143 00000000 00000000 00000001 00000000", TermUntaggedBuffer, 2},
		{"WRITE out of bounds", "1101 03 00 0010 c140 00000001 0000000000000002", TermTaggedBounds, 2},
		{"CRC", "0202 00 00", TermMPACRC, 0},
		{"DDP version of an untagged segment", "2106 00 00", TermUntaggedVersion, 0},
		{"local", "00ff 00 00", 0x00ff, 0},
	} {
		var m Termination
		if !m.Parse(unhex(t, c.bytes)) || m.Term != c.want || m.HasLength != (c.parts > 0) || m.HasDDP != (c.parts > 1) || m.HasRDMAP != (c.parts > 2) {
			t.Errorf("%s: %+v, expected %v", c.name, m, c.want)
		}
	}
	for _, x := range Terms() {
		b := make([]byte, MaxTerminate)
		n := PutTermination(b, x, nil)
		var m Termination
		if m.Parse(b[:n]); m.Term != x || x.Swapped().Swapped() != x {
			t.Errorf("%v is taken for %v", x, m.Term)
		}
	}
}

func TestTermsHaveNamesAndParts(t *testing.T) {
	names := map[string]Term{}
	for _, x := range Terms() {
		if x.Layer() > LayerMPA || strings.Contains(x.String(), "layer") {
			t.Errorf("%#04x: %v", uint16(x), x)
		}
		if got := Term(uint16(x.Layer())<<12 | uint16(x.Type())<<8 | uint16(x.Code())); got != x {
			t.Errorf("%v falls into %#04x", x, uint16(got))
		}
		if y, ok := names[x.String()]; ok && x.Code() != y.Code() {
			t.Errorf("%#04x and %#04x are both %v", uint16(x), uint16(y), x)
		}
		names[x.String()] = x
	}
	if s := Term(0x3456).String(); s != "layer 3, type 4, code 0x56" {
		t.Error(s)
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range goldenFrames {
		b := make([]byte, FrameLen)
		c.want.Put(b)
		f.Add(b)
	}
	f.Add([]byte("\x11\x01\xc0\x00\x01\x00\xc1\x40\x00\x00\x00\x77\x00\x00\x00\x00\x00\x00\x10\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var fr Frame
		if fr.Parse(b) == FrameOK {
			again := bytes.Clone(b)
			fr.Put(again)
			if !bytes.Equal(again, b) {
				t.Fatalf("frame % x put as % x", b, again)
			}
		}
		var e Enhanced
		if e.Parse(b) {
			again := bytes.Clone(b)
			e.Put(again)
			if !bytes.Equal(again, b) {
				t.Fatalf("enhanced % x put as % x", b, again)
			}
		}
		var s, s2 Segment
		if s.Parse(b) {
			p := make([]byte, UntaggedLen)
			n := s.Put(p)
			s2.Parse(p[:n])
			s.DDPVersion, s.RDMAPVersion = DDPVersion, RDMAPVersion
			if s != s2 {
				t.Fatalf("%+v put and parsed as %+v", s, s2)
			}
			p = make([]byte, MaxTerminate)
			var m Termination
			if n := PutTermination(p, TermTaggedSTag, b); !m.Parse(p[:n]) || !m.HasDDP || m.Term != TermTaggedSTag || m.Segment.Length != s.Length {
				t.Fatalf("%+v", m)
			}
		}
		var r Read
		var a Atomic
		var v AtomicValue
		var m Termination
		if r.Parse(b) != (len(b) >= ReadLen) || a.Parse(b) != (len(b) >= AtomicLen) || v.Parse(b) != (len(b) >= AtomicValueLen) || m.Parse(b) != (len(b) >= 4) {
			t.Fatal("length")
		}
		a.Apply(r.SinkTO)
	})
}
