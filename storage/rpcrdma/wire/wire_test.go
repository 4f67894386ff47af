package wire

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

var headers = map[string]Header{
	"inline": {XID: 7, Credits: 32, Type: Msg},
	"read list": {XID: 8, Credits: 1, Type: Msg, Reads: []ReadSegment{
		{128, Segment{0x11, 4096, 0x1000}}, {128, Segment{0x12, 100, 1 << 40}},
	}},
	"write list and reply chunk": {
		XID: 9, Credits: 128, Type: NoMsg, Reads: []ReadSegment{{0, Segment{1, 2, 3}}},
		Writes: [][]Segment{{{4, 5, 6}}, {{7, 8, 9}, {10, 11, 12}}}, Reply: []Segment{{13, 14, 15}},
	},
	"version":  {XID: 10, Credits: 3, Type: Error, Code: CodeVersion, Low: 1, High: 1},
	"chunk":    {XID: 11, Credits: 3, Type: Error, Code: CodeChunk},
	"obsolete": {XID: 12, Type: Done},
}

func TestHeadersParseAsWritten(t *testing.T) {
	for name, h := range headers {
		b := h.Append(nil)
		if len(b) != h.Len() {
			t.Errorf("%s: Len is %d, found %d bytes", name, h.Len(), len(b))
		}
		if h.Type == Done {
			b = append(b, make([]byte, minLen)...)
		}
		got, rest, err := Parse(append(b, "body"...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(got, h) {
			t.Errorf("%s: expected %+v, found %+v", name, h, got)
		}
		if h.Type != Done && string(rest) != "body" {
			t.Errorf("%s: expected the body after the header, found %q", name, rest)
		}
	}
}

func TestHeaderWithoutChunks(t *testing.T) {
	// 128 credits, no chunks.
	b := []byte("\x9e\x1c\x3a\x01\x00\x00\x00\x01\x00\x00\x00\x80\x00\x00\x00\x00" + strings.Repeat("\x00", 12))
	h, rest, err := Parse(b)
	if err != nil || h.Credits != 128 || h.Type != Msg || len(rest) != 0 || h.Reply != nil {
		t.Errorf("found %+v, %d bytes, %v", h, len(rest), err)
	}
}

func TestWrongHeadersAreNamed(t *testing.T) {
	words := func(w ...uint32) (b []byte) {
		for _, w := range w {
			b = append(b, byte(w>>24), byte(w>>16), byte(w>>8), byte(w))
		}
		return b
	}
	many := words(1, 1, 1, 0, 0, 0)
	many = append(many, words(1, MaxSegments+1)...)
	many = append(many, make([]byte, (MaxSegments+1)*16)...)
	for name, c := range map[string]struct {
		b    []byte
		want error
		says string
	}{
		"empty":         {nil, ErrShort, "found 0"},
		"short":         {words(1, 1, 1, 0, 0, 0), ErrShort, "found 24"},
		"version":       {words(1, 2, 1, 0, 0, 0, 0), ErrVersion, "found 2"},
		"type":          {words(1, 1, 1, 2, 0, 0, 0), ErrChunk, "found 2"},
		"discriminator": {words(1, 1, 1, 0, 5, 0, 0), ErrChunk, "found 5"},
		"read list end": {words(1, 1, 1, 0, 1, 8, 1), ErrChunk, "ends in a list"},
		"position":      {words(1, 1, 1, 0, 1, 6, 1, 1, 0, 0, 0, 0, 0), ErrChunk, "multiple of 4"},
		"order":         {words(1, 1, 1, 0, 1, 8, 1, 1, 0, 0, 1, 4, 1, 1, 0, 0, 0, 0, 0), ErrChunk, "from 8"},
		"count":         {words(1, 1, 1, 0, 0, 1, 0xffffffff), ErrChunk, "4294967295 segments"},
		"wraps":         {words(1, 1, 1, 0, 0, 0, 1, 1, 1, 2, 0xffffffff, 0xffffffff), ErrChunk, "end of memory"},
		"many":          {many, ErrChunk, "at most 240"},
		"error message": {words(1, 1, 1, 4), ErrShort, "16 bytes"},
	} {
		_, _, err := Parse(c.b)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: expected %v with %q, found %v", name, c.want, c.says, err)
		}
	}
}

func TestPrivateDataParsesAsWritten(t *testing.T) {
	p := Private{true, 4096, MaxInline}
	got, err := ParsePrivate(append(p.Append(nil), make([]byte, 48)...))
	if err != nil || got != p {
		t.Errorf("expected %+v, found %+v, %v", p, got, err)
	}
	for _, b := range [][]byte{nil, make([]byte, 56), []byte("\xf6\xab\x0e\x18\x02\x00\x00\x00")} {
		got, err := ParsePrivate(b)
		if !errors.Is(err, ErrPrivate) || got != (Private{Send: BareInline, Receive: BareInline}) {
			t.Errorf("%x: found %+v, %v", b, got, err)
		}
	}
}

func call(credentials int) []byte {
	b := []byte("\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x02\x00\x01\x86\xa3\x00\x00\x00\x03\x00\x00\x00\x06")
	b = append(b, 0, 0, 0, 1, 0, 0, byte(credentials>>8), byte(credentials))
	b = append(b, make([]byte, Pad(credentials))...)
	return append(b, make([]byte, 8)...)
}

func TestCalls(t *testing.T) {
	for _, n := range []int{0, 5, 400} {
		b := call(n)
		c, err := ParseCall(append(b, 1, 2, 3, 4))
		if want := (Call{9, 100003, 3, 6, len(b)}); err != nil || c != want {
			t.Errorf("expected %+v, found %+v, %v", want, c, err)
		}
		if _, err = ParseCall(b[:len(b)-1]); !errors.Is(err, ErrCall) {
			t.Errorf("a call that is cut: %v", err)
		}
	}
	if _, err := ParseCall(call(401)); !errors.Is(err, ErrCall) {
		t.Errorf("credentials of 401 bytes: %v", err)
	}
	reply := call(0)
	reply[7] = 1
	if _, err := ParseCall(reply); !errors.Is(err, ErrCall) {
		t.Errorf("a reply: %v", err)
	}
}

func FuzzHeader(f *testing.F) {
	for _, h := range headers {
		f.Add(h.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, rest, err := Parse(b)
		if err != nil || h.Type == Done {
			return
		}
		if written := append(h.Append(nil), rest...); !bytes.Equal(written, b) && h.Type != Error {
			t.Errorf("expected %x, written %x", b, written)
		}
	})
}

func FuzzCall(f *testing.F) {
	f.Add(call(12))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := ParseCall(b); err == nil && c.Arguments > len(b) {
			t.Errorf("arguments at %d of %d", c.Arguments, len(b))
		}
	})
}

func FuzzPrivate(f *testing.F) {
	f.Add(Private{true, 4096, 8192}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePrivate(b)
		if p.Send < 1024 || p.Receive < 1024 || p.Send > MaxInline || p.Receive > MaxInline {
			t.Errorf("sizes out of range: %+v, %v", p, err)
		}
	})
}
