package ib

import (
	"strings"
	"testing"
	"time"
)

// IBTA table 38 and the figure of packet formats: what follows the BTH.
func TestOpcodeTableMatchesSpecification(t *testing.T) {
	for _, c := range []struct {
		o           Opcode
		name        string
		len         int
		first, last bool
		payload     bool
	}{
		{0x00, "RC SEND First", 12, true, false, true},
		{0x03, "RC SEND Last with Immediate", 16, false, true, true},
		{0x06, "RC RDMA WRITE First", 28, true, false, true},
		{0x0b, "RC RDMA WRITE Only with Immediate", 32, true, true, true},
		{0x0c, "RC RDMA READ Request", 28, true, true, false},
		{0x0d, "RC RDMA READ Response First", 16, true, false, true},
		{0x0e, "RC RDMA READ Response Middle", 12, false, false, true},
		{0x10, "RC RDMA READ Response Only", 16, true, true, true},
		{0x11, "RC Acknowledge", 16, true, true, false},
		{0x12, "RC ATOMIC Acknowledge", 24, true, true, false},
		{0x13, "RC CmpSwap", 40, true, true, false},
		{0x14, "RC FetchAdd", 40, true, true, false},
		{0x16, "RC SEND Last with Invalidate", 16, false, true, true},
		{0x17, "RC SEND Only with Invalidate", 16, true, true, true},
		{0x2b, "UC RDMA WRITE Only with Immediate", 32, true, true, true},
		{0x64, "UD SEND Only", 20, true, true, true},
		{0x65, "UD SEND Only with Immediate", 24, true, true, true},
		{0x81, "CNP", 12, true, true, true},
		{0xa0, "XRC SEND First", 16, true, false, true}, // annex A14
		{0xa1, "XRC SEND Middle", 16, false, false, true},
		{0xa5, "XRC SEND Only with Immediate", 20, true, true, true},
		{0xa6, "XRC RDMA WRITE First", 32, true, false, true},
		{0xa7, "XRC RDMA WRITE Middle", 16, false, false, true},
		{0xab, "XRC RDMA WRITE Only with Immediate", 36, true, true, true},
		{0xac, "XRC RDMA READ Request", 32, true, true, false},
		{0xad, "XRC RDMA READ Response First", 16, true, false, true},
		{0xae, "XRC RDMA READ Response Middle", 12, false, false, true},
		{0xb1, "XRC Acknowledge", 16, true, true, false},
		{0xb2, "XRC ATOMIC Acknowledge", 24, true, true, false},
		{0xb3, "XRC CmpSwap", 44, true, true, false},
		{0xb7, "XRC SEND Only with Invalidate", 20, true, true, true},
	} {
		i := c.o.Info()
		if i == nil {
			t.Errorf("opcode %#02x is missing", uint8(c.o))
			continue
		}
		if i.Name != c.name || i.Len != c.len || i.First != c.first || i.Last != c.last || i.Payload != c.payload {
			t.Errorf("opcode %#02x: found %+v, expected %+v", uint8(c.o), *i, c)
		}
	}
	for _, o := range []Opcode{0x15, 0x18, 0x1f, 0x2c, 0x33, 0x36, 0x40, 0x60, 0x66, 0x80, 0xb5, 0xbc, 0xbd, 0xff} {
		if o.Info() != nil {
			t.Errorf("opcode %#02x is defined as %v, expected undefined", uint8(o), o)
		}
		if !strings.Contains(o.String(), "0x") {
			t.Errorf("undefined opcode prints as %q, expected its number", o)
		}
	}
}

func TestOpcodeRowsAgreeWithEachOther(t *testing.T) {
	seen := map[string]Opcode{}
	for _, o := range opcodes() {
		i := o.Info()
		if prev, ok := seen[i.Name]; ok {
			t.Errorf("%#02x and %#02x are both called %q", uint8(prev), uint8(o), i.Name)
		}
		seen[i.Name] = o
		if i.Len > MaxHeaderLen {
			t.Errorf("%v has %d bytes of headers, MaxHeaderLen is %d", o, i.Len, MaxHeaderLen)
		}
		if i.Kind == KindNone {
			t.Errorf("%v has no kind", o)
		}
	}
	// UC has the SENDs and WRITEs of RC, with the same rows (IBTA table 38).
	for o := RCSendFirst; o <= RCWriteOnlyImm; o++ {
		r, u := *o.Info(), *(o | UCSendFirst).Info()
		r.Name, u.Name = strings.TrimPrefix(r.Name, "RC"), strings.TrimPrefix(u.Name, "UC")
		if r != u {
			t.Errorf("RC and UC differ: %+v, %+v", r, u)
		}
	}
	// XRC has the operations of RC, with the XRCETH in front of each request (annex A14).
	for o := RCSendFirst; o <= RCSendOnlyInvalidate; o++ {
		r, x := o.Info(), o.Of(XRC).Info()
		if (r == nil) != (x == nil) {
			t.Errorf("%v and %v: expected both or neither", o, o.Of(XRC))
		}
		if r == nil {
			continue
		}
		want := *r
		want.Name = "X" + r.Name
		switch want.Kind {
		case KindReadResponse, KindAcknowledge, KindAtomicAcknowledge:
		default:
			want.Headers |= HasXRCETH
			want.Len += XRCETHLen
		}
		if *x != want {
			t.Errorf("%v: found %+v, expected %+v", o.Of(XRC), *x, want)
		}
	}
}

func TestSyndromeNames(t *testing.T) {
	for _, c := range []struct {
		s    Syndrome
		want string
	}{
		{0x00, "ACK"}, {0x1f, "ACK"}, {0x20, "RNR NAK (655.36ms)"}, {0x21, "RNR NAK (10µs)"},
		{0x3f, "RNR NAK (491.52ms)"}, {0x60, "NAK PSN Sequence Error"}, {0x61, "NAK Invalid Request"},
		{0x62, "NAK Remote Access Error"}, {0x63, "NAK Remote Operational Error"},
		{0x64, "NAK Invalid RD Request"}, {0x65, "syndrome 0x65 (reserved)"}, {0x80, "syndrome 0x80 (reserved)"},
	} {
		if got := c.s.String(); got != c.want {
			t.Errorf("syndrome %#02x: %q, expected %q", uint8(c.s), got, c.want)
		}
	}
	for s := range 256 {
		n := 0
		for _, is := range []bool{Syndrome(s).IsACK(), Syndrome(s).IsRNR(), Syndrome(s).IsNAK()} {
			if is {
				n++
			}
		}
		if n > 1 {
			t.Errorf("syndrome %#02x is of %d classes", s, n)
		}
	}
}

// IBTA table 45 is monotonic from field 1 on; field 0 is the longest.
func TestRNRTimerTable(t *testing.T) {
	for f := uint8(2); f < 32; f++ {
		if RNRTimer(f) <= RNRTimer(f-1) {
			t.Errorf("field %d waits %v, field %d %v", f, RNRTimer(f), f-1, RNRTimer(f-1))
		}
	}
	for f, want := range map[uint8]time.Duration{
		0: 655360 * time.Microsecond, 1: 10 * time.Microsecond, 12: 640 * time.Microsecond,
		14: 1280 * time.Microsecond, 20: 10240 * time.Microsecond, 31: 491520 * time.Microsecond, 32: 655360 * time.Microsecond,
	} {
		if got := RNRTimer(f); got != want {
			t.Errorf("field %d: %v, expected %v", f, got, want)
		}
	}
}

func TestOpcodeSegments(t *testing.T) {
	for _, c := range []struct{ whole, begin, middle, end Opcode }{
		{RCSendOnly, RCSendFirst, RCSendMiddle, RCSendLast},
		{RCSendOnlyImm, RCSendFirst, RCSendMiddle, RCSendLastImm},
		{RCSendOnlyInvalidate, RCSendFirst, RCSendMiddle, RCSendLastInvalidate},
		{RCWriteOnly, RCWriteFirst, RCWriteMiddle, RCWriteLast},
		{RCWriteOnlyImm, RCWriteFirst, RCWriteMiddle, RCWriteLastImm},
		{RCWriteFirst, RCWriteFirst, RCWriteMiddle, RCWriteMiddle},
		{RCWriteLastImm, RCWriteMiddle, RCWriteMiddle, RCWriteLastImm},
		{RCReadResponseOnly, RCReadResponseFirst, RCReadResponseMiddle, RCReadResponseLast},
		{UCWriteOnlyImm, UCWriteFirst, UCWriteMiddle, UCWriteLastImm},
		{RCSendOnlyImm.Of(XRC), RCSendFirst.Of(XRC), RCSendMiddle.Of(XRC), RCSendLastImm.Of(XRC)},
	} {
		if b, m, e := c.whole.Segment(true, false), c.whole.Segment(false, false), c.whole.Segment(false, true); b != c.begin || m != c.middle || e != c.end {
			t.Errorf("%v: found %v, %v, %v", c.whole, b, m, e)
		}
		if all := c.whole.Segment(true, true); all != c.whole {
			t.Errorf("%v as a whole: found %v", c.whole, all)
		}
	}
}
