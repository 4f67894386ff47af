package mad_test

import (
	"testing"

	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/madtest"
)

func TestNoticeLiesWhereTheSpecificationPutsIt(t *testing.T) {
	madtest.Check(t, []madtest.Layout{{
		Name: "Notice", Len: mad.NoticeLen,
		New:   func() any { return new(mad.Notice) },
		Parse: func(v any, b []byte) { v.(*mad.Notice).Parse((*[mad.NoticeLen]byte)(b)) },
		Put:   func(v any, b []byte) { v.(*mad.Notice).Put((*[mad.NoticeLen]byte)(b)) },
		Fields: []madtest.Field{
			{Name: "Generic", Byte: 0, Bits: 1}, {Name: "Type", Byte: 0, Bit: 1, Bits: 7}, {Name: "Producer", Byte: 1, Bits: 24},
			{Name: "Number", Byte: 4, Bits: 16}, {Name: "IssuerLID", Byte: 6, Bits: 16},
			{Name: "Toggle", Byte: 8, Bits: 1}, {Name: "Count", Byte: 8, Bit: 1, Bits: 15},
			{Name: "Details", Byte: 10, Bits: 54 * 8}, {Name: "IssuerGID", Byte: 64, Bits: 128},
		},
	}})
}
