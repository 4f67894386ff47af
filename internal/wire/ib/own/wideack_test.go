package own

import (
	"bytes"
	"testing"
)

// FuzzWideAck parses anything, and builds again what it could parse.
func FuzzWideAck(f *testing.F) {
	w := WideAck{Duplicates: 1, Span: 70000, Begin: 9, Kept: 8192}
	f.Add(AppendLongRange(w.Append(nil), 200000, 70000))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		w, ranges, ok := ParseWideAck(b)
		if !ok {
			return
		}
		again := w.Append(nil)
		for i := range len(ranges) / RangeLen {
			skip, count := RangeOf(ranges, i)
			again = AppendRange(again, uint16(skip), uint16(count))
		}
		if !bytes.Equal(again, b) {
			t.Errorf("%x became %x", b, again)
		}
	})
}

// A range takes as many entries as LongRange says, which cover it.
func TestLongRangesTakeSeveralEntries(t *testing.T) {
	for _, c := range [][2]uint32{{0, 1}, {1, 1}, {longest, longest}, {longest + 1, 1}, {0, longest + 1}, {3 * longest, 3*longest + 5}, {200000, 262144}} {
		b := AppendLongRange(nil, c[0], c[1])
		if n := LongRange(c[0], c[1]); len(b) != n*RangeLen {
			t.Fatalf("%v takes %d bytes, expected %d entries", c, len(b), n)
		}
		at, covered := uint32(0), uint32(0)
		for i := range len(b) / RangeLen {
			skip, count := RangeOf(b, i)
			if at += skip; covered > 0 && skip > 0 {
				t.Fatalf("%v has a gap", c)
			}
			covered += count
		}
		if at != c[0] || covered != c[1] {
			t.Errorf("%v covers %d behind %d", c, covered, at)
		}
	}
}

// Every other length than that of a head and up to MaxRanges ranges is refused.
func TestWideAckRefusesOtherLengths(t *testing.T) {
	for n := range WideAckLen + (MaxRanges+2)*RangeLen {
		want := n >= WideAckLen && (n-WideAckLen)%RangeLen == 0 && n <= WideAckLen+MaxRanges*RangeLen
		if _, _, ok := ParseWideAck(make([]byte, n)); ok != want {
			t.Errorf("%d bytes: %v", n, ok)
		}
	}
}
