package smp

import (
	"testing"

	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/madtest"
)

type attribute[T any] interface {
	*T
	Parse(*[DataLen]byte)
	Put(*[DataLen]byte)
}

func layout[T any, P attribute[T]](name string, fields []madtest.Field) madtest.Layout {
	return madtest.Layout{Name: name, Len: DataLen, Fields: fields,
		New:   func() any { return P(new(T)) },
		Parse: func(v any, b []byte) { v.(P).Parse((*[DataLen]byte)(b)) },
		Put:   func(v any, b []byte) { v.(P).Put((*[DataLen]byte)(b)) },
	}
}

// weights returns the fields of a half of an arbitration table.
func weights() (f []madtest.Field) {
	for i, w := range madtest.Array("", 0, 32, 16) {
		f = append(f, madtest.Field{Name: w.Name[1:] + ".VL", Byte: 2 * i, Bit: 4, Bits: 4},
			madtest.Field{Name: w.Name[1:] + ".Weight", Byte: 2*i + 1, Bits: 8})
	}
	return f
}

func attributes() []madtest.Layout {
	return []madtest.Layout{
		layout[NodeDescription]("NodeDescription", madtest.Array("", 0, 64, 8)),
		layout[NodeInfo]("NodeInfo", madtest.NodeInfo),
		layout[SwitchInfo]("SwitchInfo", madtest.SwitchInfo),
		layout[GUIDInfo]("GUIDInfo", madtest.Array("", 0, 8, 64)),
		layout[PortInfo]("PortInfo", madtest.PortInfo),
		layout[PKeyTable]("P_KeyTable", madtest.Array("", 0, 32, 16)),
		layout[SLtoVL]("SLtoVLMappingTable", madtest.Array("", 0, 16, 4)),
		layout[VLArbitration]("VLArbitrationTable", weights()),
		layout[LinearForwarding]("LinearForwardingTable", madtest.Array("", 0, 64, 8)),
		layout[MulticastForwarding]("MulticastForwardingTable", madtest.Array("", 0, 32, 16)),
		layout[SMInfo]("SMInfo", madtest.SMInfo),
	}
}

func TestAttributesLieWhereTheSpecificationPutsThem(t *testing.T) { madtest.Check(t, attributes()) }

func FuzzAttributes(f *testing.F) {
	madtest.Fuzz(f, append(attributes(), madtest.Layout{Name: "packet", Len: mad.Len, New: func() any { return new(Packet) },
		Parse: func(v any, b []byte) { v.(*Packet).Parse((*[mad.Len]byte)(b)) }, Put: func(v any, b []byte) { v.(*Packet).Put((*[mad.Len]byte)(b)) }}))
}

// TestPacketsLieWhereTheSpecificationPutsThem has the class in the bytes that
// are read, since it chooses the header.
func TestPacketsLieWhereTheSpecificationPutsThem(t *testing.T) {
	common := []madtest.Field{
		{Name: "BaseVersion", Byte: 0, Bits: 8}, {Name: "ClassVersion", Byte: 2, Bits: 8}, {Name: "Method", Byte: 3, Bits: 8},
		{Name: "TID", Byte: 8, Bits: 64}, {Name: "Attribute", Byte: 16, Bits: 16}, {Name: "Modifier", Byte: 20, Bits: 32},
		{Name: "MKey", Byte: 24, Bits: 64}, {Name: "Data", Byte: 64, Bits: 512},
	}
	packet := func(name string, class uint8, fields ...madtest.Field) madtest.Layout {
		return madtest.Layout{Name: name, Len: mad.Len, Fields: append(fields, common...),
			New: func() any { return &Packet{Class: class} },
			Parse: func(v any, b []byte) {
				c := [mad.Len]byte(b)
				c[1] = class
				v.(*Packet).Parse(&c)
			},
			Put: func(v any, b []byte) {
				v.(*Packet).Put((*[mad.Len]byte)(b))
				b[1] = 0
			},
		}
	}
	madtest.Check(t, []madtest.Layout{
		packet("routed by LID", mad.ClassLIDRouted, madtest.Field{Name: "Status", Byte: 4, Bits: 16}),
		packet("directed route", mad.ClassDirected,
			madtest.Field{Name: "Returning", Byte: 4, Bits: 1}, madtest.Field{Name: "Status", Byte: 4, Bit: 1, Bits: 15},
			madtest.Field{Name: "HopPointer", Byte: 6, Bits: 8}, madtest.Field{Name: "HopCount", Byte: 7, Bits: 8},
			madtest.Field{Name: "DrSLID", Byte: 32, Bits: 16}, madtest.Field{Name: "DrDLID", Byte: 34, Bits: 16},
			madtest.Field{Name: "Initial", Byte: 128, Bits: 512}, madtest.Field{Name: "Return", Byte: 192, Bits: 512}),
	})
}

func TestNewDirectedBeginsAtTheFirstHop(t *testing.T) {
	p := NewDirected(mad.MethodGet, AttrNodeInfo, 0, 7, 0, []uint8{1, 5, 3})
	if p.HopCount != 3 || p.HopPointer != 0 || p.Initial[1] != 1 || p.Initial[3] != 3 || p.DrSLID != PermissiveLID {
		t.Errorf("%+v", p)
	}
	long := NewDirected(mad.MethodGet, AttrNodeInfo, 0, 7, 0, make([]uint8, 100))
	if long.HopCount != MaxHops {
		t.Errorf("a path of 100 hops has %d", long.HopCount)
	}
}
