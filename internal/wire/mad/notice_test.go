package mad_test

import (
	"testing"

	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/madtest"
)

func TestCommonAttributesLieWhereTheSpecificationPutsThem(t *testing.T) {
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
	}, {
		Name: "ClassPortInfo", Len: mad.ClassPortInfoLen,
		New:   func() any { return new(mad.ClassPortInfo) },
		Parse: func(v any, b []byte) { v.(*mad.ClassPortInfo).Parse((*[mad.ClassPortInfoLen]byte)(b)) },
		Put:   func(v any, b []byte) { v.(*mad.ClassPortInfo).Put((*[mad.ClassPortInfoLen]byte)(b)) },
		Fields: append(append([]madtest.Field{
			{Name: "BaseVersion", Byte: 0, Bits: 8}, {Name: "ClassVersion", Byte: 1, Bits: 8}, {Name: "CapabilityMask", Byte: 2, Bits: 16},
			{Name: "CapabilityMask2", Byte: 4, Bits: 27}, {Name: "RespTime", Byte: 7, Bit: 3, Bits: 5}, {Name: "TrapHopLimit", Byte: 64, Bits: 8},
		}, classPort("Redirect", 8)...), classPort("Trap", 40)...),
	}})
}

func classPort(name string, at int) []madtest.Field {
	return madtest.Within(name, at, []madtest.Field{
		{Name: "GID", Byte: 0, Bits: 128}, {Name: "TrafficClass", Byte: 16, Bits: 8}, {Name: "SL", Byte: 17, Bits: 4},
		{Name: "FlowLabel", Byte: 17, Bit: 4, Bits: 20}, {Name: "LID", Byte: 20, Bits: 16}, {Name: "PKey", Byte: 22, Bits: 16},
		{Name: "QPN", Byte: 25, Bits: 24}, {Name: "QKey", Byte: 28, Bits: 32},
	})
}
