package rpcrdma

import (
	"errors"
	"testing"

	"softrdma/storage/rpcrdma/wire"
)

// FuzzAssemble checks that the layout of a call has each of its bytes once, that what is read of the client's
// memory is what its header names, and that a call is no longer than it may be.
func FuzzAssemble(f *testing.F) {
	segment := func(n uint32) wire.Segment { return wire.Segment{Handle: 7, Length: n, Offset: 0x1000} }
	for _, h := range []wire.Header{
		{Type: wire.Msg, Reads: []wire.ReadSegment{{Position: 4, Segment: segment(5)}, {Position: 4, Segment: segment(6)}, {Position: 16, Segment: segment(0)}}},
		{Type: wire.NoMsg, Reads: []wire.ReadSegment{{Segment: segment(9)}, {Segment: segment(3)}, {Position: 8, Segment: segment(100)}}},
	} {
		f.Add(append(h.Append(nil), "what is sent inline"...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 4096
		h, body, err := wire.Parse(b)
		if err != nil || h.Type != wire.Msg && h.Type != wire.NoMsg {
			return
		}
		named := uint64(0)
		for _, r := range h.Reads {
			named += uint64(r.Length)
		}
		p, err := assemble(&h, body, limit)
		if err != nil {
			if !errors.Is(err, wire.ErrChunk) {
				t.Errorf("found %v", err)
			}
			return
		}
		if p.length > limit {
			t.Fatalf("found a call of %d bytes", p.length)
		}
		have := make([]int, p.length)
		inline, read := 0, uint64(0)
		for _, i := range p.inline {
			for at := range len(i.data) {
				have[i.at+at]++
			}
			inline += len(i.data)
		}
		for _, r := range p.reads {
			inside := false
			for _, s := range h.Reads {
				inside = inside || r.rkey == s.Handle && r.addr >= s.Offset && r.addr+uint64(r.n) <= s.Offset+uint64(s.Length)
			}
			if r.n <= 0 || !inside {
				t.Errorf("%+v is not in the client's memory", r)
			}
			for at := range r.n {
				have[r.at+at]++
			}
			read += uint64(r.n)
		}
		for at, n := range have {
			if n != 1 {
				t.Fatalf("byte %d of %d is there %d times", at, p.length, n)
			}
		}
		if want := len(body); read != named || h.Type == wire.Msg && (inline < want || inline > want+3*len(h.Reads)) {
			t.Errorf("%d of %d bytes are read, and %d of %d are inline", read, named, inline, want)
		}
	})
}
