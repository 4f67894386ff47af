package mad

import (
	"testing"

	"softrdma/internal/reason"
)

func TestHeaderFieldsLieWhereTheSpecificationPutsThem(t *testing.T) {
	h := Header{BaseVersion: 1, Class: 2, ClassVersion: 3, Method: 4, Status: 0x0506, ClassSpecific: 0x0708,
		TID: 0x090a0b0c0d0e0f10, Attribute: 0x1112, Port: 0x1314, Modifier: 0x15161718}
	var d [Len]byte
	h.Put(&d)
	for i := range Len {
		want := byte(i + 1)
		if i >= HeaderLen {
			want = 0
		}
		if d[i] != want {
			t.Errorf("byte %d is %#x, expected %#x", i, d[i], want)
		}
	}
	var back Header
	if back.Parse(&d); back != h {
		t.Errorf("reads back as %+v", back)
	}
}

func TestParseHeaderRefusesByName(t *testing.T) {
	good := NewHeader(AttrREQ, 7)
	for _, c := range []struct {
		name   string
		change func(*Header)
		want   reason.Detail
	}{
		{"good", func(*Header) {}, reason.Detail{}},
		{"status and modifier do not count", func(h *Header) { h.Status, h.Modifier, h.Port = 9, 9, 9 }, reason.Detail{}},
		{"Omni-Path", func(h *Header) { h.BaseVersion = 0x80 }, reason.Detail{Reason: reason.MADVersion, Expected: 1, Found: 0x80}},
		{"performance query", func(h *Header) { h.Class = 4 }, reason.Detail{Reason: reason.MADClass, Expected: 7, Found: 4}},
		{"old class version", func(h *Header) { h.ClassVersion = 1 }, reason.Detail{Reason: reason.MADClassVersion, Expected: 2, Found: 1}},
		{"Get", func(h *Header) { h.Method = 1 }, reason.Detail{Reason: reason.MADMethod, Expected: 3, Found: 1}},
		{"response", func(h *Header) { h.Method = 0x83 }, reason.Detail{Reason: reason.MADMethod, Expected: 3, Found: 0x83}},
		{"ClassPortInfo", func(h *Header) { h.Attribute = 1 }, reason.Detail{Reason: reason.MADAttribute, Expected: 11, Found: 1}},
		{"after the last", func(h *Header) { h.Attribute = 0x1b }, reason.Detail{Reason: reason.MADAttribute, Expected: 11, Found: 0x1b}},
	} {
		h := good
		c.change(&h)
		var d [Len]byte
		h.Put(&d)
		var got Header
		if m, refused := ParseHeader(d[:], &got); m != &d || refused != c.want || got != h {
			t.Errorf("%s: %v, header %+v, expected %v", c.name, refused, got, c.want)
		}
	}
}

func TestParseHeaderEveryOtherLengthIsRefused(t *testing.T) {
	var d [2 * Len]byte
	h := NewHeader(AttrREQ, 7)
	h.Put((*[Len]byte)(d[:]))
	for n := range d {
		var got Header
		m, refused := ParseHeader(d[:n:n], &got)
		if n == Len {
			if m == nil || refused.Reason != reason.None {
				t.Errorf("%d bytes are refused: %v", n, refused)
			}
		} else if m != nil || refused != (reason.Detail{Reason: reason.MADLength, Expected: Len, Found: uint64(n)}) {
			t.Errorf("%d bytes give %v, %v", n, m != nil, refused)
		}
	}
}

// FuzzParse reads anything as everything: nothing panics, and what was read is
// written so that it reads the same.
func FuzzParse(f *testing.F) {
	for _, g := range []string{goldenREQ, goldenREP, goldenREJ, goldenRTU, goldenDREQ} {
		d := unhex(&testing.T{}, g)
		f.Add(d[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h Header
		d, refused := ParseHeader(b, &h)
		if (d == nil) != (len(b) != Len) || d == nil && refused.Reason == reason.None {
			t.Fatalf("%d bytes: %v, %v", len(b), d != nil, refused)
		}
		_ = refused.String() + h.Attribute.String()
		if d == nil {
			return
		}
		for _, l := range layouts {
			m, again := l.make(), l.make()
			m.Parse(d)
			var back [Len]byte
			m.Put(&back)
			again.Parse(&back)
			var second [Len]byte
			if again.Put(&second); second != back {
				t.Fatalf("%v: %x is written again as %x", l.attr, back, second)
			}
		}
		var ip IPHeader
		var req REQ
		req.Parse(d)
		if ip.Parse(req.Private[:]) {
			var back [IPHeaderLen]byte
			var again IPHeader
			if ip.Put(back[:]); !again.Parse(back[:]) || again != ip {
				t.Fatalf("%+v reads back as %+v", ip, again)
			}
		}
	})
}
