package sa

import (
	"testing"

	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/madtest"
)

type record[T any] interface {
	*T
	Record
}

func layout[T any, P record[T]](name string, a mad.AttributeID, fields ...[]madtest.Field) (l struct {
	madtest.Layout
	attribute mad.AttributeID
}) {
	l.attribute = a
	l.Layout = madtest.Layout{Name: name, Len: DataLen,
		New:   func() any { return P(new(T)) },
		Parse: func(v any, b []byte) { v.(P).Parse((*[DataLen]byte)(b)) },
		Put:   func(v any, b []byte) { v.(P).Put((*[DataLen]byte)(b)) },
	}
	for _, f := range fields {
		l.Fields = append(l.Fields, f...)
	}
	return l
}

type fields = []madtest.Field

// limits returns the fields of the MTU, rate and lifetime at 3 bytes.
func limits(mtu, rate, life int) (f fields) {
	for name, at := range map[string]int{"MTU": mtu, "Rate": rate, "LifeTime": life} {
		f = append(f, madtest.Field{Name: name + ".Selector", Byte: at, Bits: 2}, madtest.Field{Name: name + ".Value", Byte: at, Bit: 2, Bits: 6})
	}
	return f
}

var informInfo = fields{
	{Name: "GID", Byte: 0, Bits: 128}, {Name: "LIDBegin", Byte: 16, Bits: 16}, {Name: "LIDEnd", Byte: 18, Bits: 16},
	{Name: "Generic", Byte: 22, Bits: 8}, {Name: "Subscribe", Byte: 23, Bits: 8}, {Name: "Type", Byte: 24, Bits: 16},
	{Name: "Number", Byte: 26, Bits: 16}, {Name: "QPN", Byte: 28, Bits: 24}, {Name: "RespTime", Byte: 31, Bit: 3, Bits: 5},
	{Name: "Producer", Byte: 33, Bits: 24},
}

func weights() (f fields) {
	for i, w := range madtest.Array("Table", 8, 32, 16) {
		f = append(f, madtest.Field{Name: w.Name + ".VL", Byte: 8 + 2*i, Bit: 4, Bits: 4}, madtest.Field{Name: w.Name + ".Weight", Byte: 9 + 2*i, Bits: 8})
	}
	return f
}

func gids() (f fields) { return madtest.Array("GIDs", 24, MultiPathGIDs, 128) }

var (
	lid     = fields{{Name: "LID", Byte: 0, Bits: 16}}
	block16 = fields{{Name: "Block", Byte: 2, Bits: 16}}
)

func layouts() []struct {
	madtest.Layout
	attribute mad.AttributeID
} {
	return []struct {
		madtest.Layout
		attribute mad.AttributeID
	}{
		layout[NodeRecord]("NodeRecord", AttrNodeRecord, lid, madtest.Within("Info", 4, madtest.NodeInfo), fields{{Name: "Description", Byte: 44, Bits: 512}}),
		layout[PortInfoRecord]("PortInfoRecord", AttrPortInfoRecord, lid,
			fields{{Name: "Port", Byte: 2, Bits: 8}, {Name: "Options", Byte: 3, Bits: 8}}, madtest.Within("Info", 4, madtest.PortInfo)),
		layout[SLtoVLRecord]("SLtoVLMappingTableRecord", AttrSLtoVLRecord, lid,
			fields{{Name: "In", Byte: 2, Bits: 8}, {Name: "Out", Byte: 3, Bits: 8}}, madtest.Array("Table", 8, 16, 4)),
		layout[SwitchInfoRecord]("SwitchInfoRecord", AttrSwitchInfoRecord, lid, madtest.Within("Info", 4, madtest.SwitchInfo)),
		layout[LinearForwardingRecord]("LinearForwardingTableRecord", AttrLinearForwardingRecord, lid, block16, madtest.Array("Table", 8, 64, 8)),
		layout[MulticastForwardingRecord]("MulticastForwardingTableRecord", AttrMulticastForwardingRecord, lid,
			fields{{Name: "Position", Byte: 2, Bits: 4}, {Name: "Block", Byte: 2, Bit: 7, Bits: 9}}, madtest.Array("Table", 8, 32, 16)),
		layout[SMInfoRecord]("SMInfoRecord", AttrSMInfoRecord, lid, madtest.Within("Info", 4, madtest.SMInfo)),
		layout[PKeyTableRecord]("P_KeyTableRecord", AttrPKeyTableRecord, lid, block16, fields{{Name: "Port", Byte: 4, Bits: 8}}, madtest.Array("Table", 8, 32, 16)),
		layout[VLArbitrationRecord]("VLArbitrationTableRecord", AttrVLArbitrationRecord, lid,
			fields{{Name: "Port", Byte: 2, Bits: 8}, {Name: "Block", Byte: 3, Bits: 8}}, weights()),
		layout[GUIDInfoRecord]("GUIDInfoRecord", AttrGUIDInfoRecord, lid, fields{{Name: "Block", Byte: 2, Bits: 8}}, madtest.Array("Table", 8, 8, 64)),
		layout[LinkRecord]("LinkRecord", AttrLinkRecord, fields{{Name: "FromLID", Byte: 0, Bits: 16}, {Name: "FromPort", Byte: 2, Bits: 8},
			{Name: "ToPort", Byte: 3, Bits: 8}, {Name: "ToLID", Byte: 4, Bits: 16}}),
		layout[PathRecord]("PathRecord", AttrPathRecord, limits(54, 55, 56), fields{
			{Name: "ServiceID", Byte: 0, Bits: 64}, {Name: "DGID", Byte: 8, Bits: 128}, {Name: "SGID", Byte: 24, Bits: 128},
			{Name: "DLID", Byte: 40, Bits: 16}, {Name: "SLID", Byte: 42, Bits: 16}, {Name: "RawTraffic", Byte: 44, Bits: 1},
			{Name: "FlowLabel", Byte: 44, Bit: 4, Bits: 20}, {Name: "HopLimit", Byte: 47, Bits: 8}, {Name: "TrafficClass", Byte: 48, Bits: 8},
			{Name: "Reversible", Byte: 49, Bits: 1}, {Name: "NumPaths", Byte: 49, Bit: 1, Bits: 7}, {Name: "PKey", Byte: 50, Bits: 16},
			{Name: "QoSClass", Byte: 52, Bits: 12}, {Name: "SL", Byte: 53, Bit: 4, Bits: 4}, {Name: "Preference", Byte: 57, Bits: 8}}),
		layout[MultiPathRecord]("MultiPathRecord", 0, limits(10, 11, 12), gids(), fields{
			{Name: "RawTraffic", Byte: 0, Bits: 1}, {Name: "FlowLabel", Byte: 0, Bit: 4, Bits: 20}, {Name: "HopLimit", Byte: 3, Bits: 8},
			{Name: "TrafficClass", Byte: 4, Bits: 8}, {Name: "Reversible", Byte: 5, Bits: 1}, {Name: "NumPaths", Byte: 5, Bit: 1, Bits: 7},
			{Name: "PKey", Byte: 6, Bits: 16}, {Name: "QoSClass", Byte: 8, Bits: 12}, {Name: "SL", Byte: 9, Bit: 4, Bits: 4},
			{Name: "Independence", Byte: 14, Bits: 2}, {Name: "Sources", Byte: 15, Bits: 8}, {Name: "Destinations", Byte: 16, Bits: 8}}),
		layout[TraceRecord]("TraceRecord", 0, fields{
			{Name: "GIDPrefix", Byte: 0, Bits: 64}, {Name: "IDGeneration", Byte: 8, Bits: 16}, {Name: "NodeType", Byte: 11, Bits: 8},
			{Name: "NodeID", Byte: 12, Bits: 64}, {Name: "ChassisID", Byte: 20, Bits: 64}, {Name: "EntryPortID", Byte: 28, Bits: 64},
			{Name: "ExitPortID", Byte: 36, Bits: 64}, {Name: "EntryPort", Byte: 44, Bits: 8}, {Name: "ExitPort", Byte: 45, Bits: 8}}),
		layout[MCMemberRecord]("MCMemberRecord", AttrMCMemberRecord, limits(38, 42, 43), fields{
			{Name: "MGID", Byte: 0, Bits: 128}, {Name: "PortGID", Byte: 16, Bits: 128}, {Name: "QKey", Byte: 32, Bits: 32},
			{Name: "MLID", Byte: 36, Bits: 16}, {Name: "TrafficClass", Byte: 39, Bits: 8}, {Name: "PKey", Byte: 40, Bits: 16},
			{Name: "SL", Byte: 44, Bits: 4}, {Name: "FlowLabel", Byte: 44, Bit: 4, Bits: 20}, {Name: "HopLimit", Byte: 47, Bits: 8},
			{Name: "Scope", Byte: 48, Bits: 4}, {Name: "JoinState", Byte: 48, Bit: 4, Bits: 4}, {Name: "ProxyJoin", Byte: 49, Bits: 1}}),
		layout[ServiceRecord]("ServiceRecord", AttrServiceRecord, fields{
			{Name: "ServiceID", Byte: 0, Bits: 64}, {Name: "GID", Byte: 8, Bits: 128}, {Name: "PKey", Byte: 24, Bits: 16}, {Name: "Lease", Byte: 28, Bits: 32},
			{Name: "Key", Byte: 32, Bits: 128}, {Name: "Name", Byte: 48, Bits: 512}, {Name: "Data", Byte: 112, Bits: 512}}),
		layout[InformInfo]("InformInfo", 0, informInfo),
		layout[InformInfoRecord]("InformInfoRecord", AttrInformInfoRecord, fields{{Name: "Subscriber", Byte: 0, Bits: 128}, {Name: "Enum", Byte: 16, Bits: 16}},
			madtest.Within("Info", 24, informInfo)),
	}
}

func TestRecordsLieWhereTheSpecificationPutsThem(t *testing.T) {
	for _, l := range layouts() {
		if l.Name == "MultiPathRecord" {
			// The service ID lies in two pieces, which the table of fields cannot say.
			parse := l.Parse
			l.Parse = func(v any, b []byte) {
				parse(v, b)
				v.(*MultiPathRecord).ServiceID = 0
			}
		}
		madtest.Check(t, []madtest.Layout{l.Layout})
	}
}

func FuzzRecords(f *testing.F) {
	var list []madtest.Layout
	for _, l := range layouts() {
		list = append(list, l.Layout)
	}
	madtest.Fuzz(f, list)
}

func TestServiceIDOfMultiPathLiesInTwoPieces(t *testing.T) {
	var b [DataLen]byte
	r := MultiPathRecord{ServiceID: 0x1122334455667788, Destinations: 0xaa}
	r.Put(&b)
	var back MultiPathRecord
	back.Parse(&b)
	if b[13] != 0x11 || b[16] != 0xaa || b[17] != 0x22 || b[23] != 0x88 || back != r {
		t.Errorf("%x, %+v", b[:24], back)
	}
}

// TestMatchComparesTheComponentsOfTheMask changes each bit of each record: the
// records match but for the component that has the bit.
func TestMatchComparesTheComponentsOfTheMask(t *testing.T) {
	for _, l := range layouts() {
		widths := widths[l.attribute]
		if l.attribute == 0 {
			continue
		}
		starts, at := map[int]bool{}, 0
		for i, width := range widths {
			starts[at] = true
			for bit := at; bit < at+width; bit++ {
				var query, record [DataLen]byte
				record[bit/8] ^= 0x80 >> (bit % 8)
				if Match(l.attribute, 1<<i, &query, &record) || !Match(l.attribute, ^uint64(1<<i), &query, &record) {
					t.Fatalf("%s: bit %d is not in component %d alone", l.Name, bit, i)
				}
			}
			at += width
		}
		for _, f := range l.Fields {
			if start := 8*f.Byte + f.Bit; !starts[start] && f.Name[:2] != "Ta" {
				t.Errorf("%s: no component begins at field %s", l.Name, f.Name)
			}
		}
		if at > 8*DataLen || Components(l.attribute) != 1<<len(widths)-1 {
			t.Errorf("%s: %d bits, components %#x", l.Name, at, Components(l.attribute))
		}
	}
}

// TestComponentNumbers are those that opensm and the kernel use.
func TestComponentNumbers(t *testing.T) {
	for a, n := range map[mad.AttributeID]int{AttrPathRecord: 23, AttrMCMemberRecord: 18, AttrPortInfoRecord: 58, AttrNodeRecord: 15,
		AttrServiceRecord: 37, AttrInformInfoRecord: 16, AttrGUIDInfoRecord: 12, AttrSMInfoRecord: 7} {
		if len(widths[a]) != n {
			t.Errorf("record %#x has %d components, expected %d", uint16(a), len(widths[a]), n)
		}
	}
	var query, record [DataLen]byte
	q, r := PathRecord{SLID: 4, DLID: 5, PKey: 0xffff}, PathRecord{SLID: 4, DLID: 6, PKey: 0xffff}
	q.Put(&query)
	r.Put(&record)
	if !Match(AttrPathRecord, PathSLID|PathPKey|PathSGID, &query, &record) || Match(AttrPathRecord, PathDLID, &query, &record) {
		t.Error("components of a PathRecord are not what their names say")
	}
	m, n := MCMemberRecord{MLID: 0xc001, JoinState: 1}, MCMemberRecord{MLID: 0xc001, JoinState: 4}
	m.Put(&query)
	n.Put(&record)
	if !Match(AttrMCMemberRecord, MemberMLID|MemberMGID|MemberScope, &query, &record) || Match(AttrMCMemberRecord, MemberJoinState, &query, &record) {
		t.Error("components of a MCMemberRecord are not what their names say")
	}
}

func TestHeader(t *testing.T) {
	var d [mad.Len]byte
	h := Header{MAD: mad.Header{BaseVersion: 1, Class: 3, ClassVersion: 2, Method: mad.MethodGetTable, TID: 5, Attribute: AttrPathRecord},
		SMKey: 1, Offset: OffsetFor(PathRecordLen), ComponentMask: PathDLID | PathSLID}
	h.RMPP.Segment = 3
	h.Put(&d)
	var back Header
	back.Parse(&d)
	if back != h || d[43] != 1 || d[45] != 8 || d[55] != 0x30 || h.RecordLen() != 64 || OffsetFor(InformInfoRecordLen) != 8 || HeaderLen != 20 {
		t.Errorf("%+v, %x", back, d[:56])
	}
	Data(&d)[0] = 9
	if d[56] != 9 {
		t.Error("data does not begin at byte 56")
	}
}

func TestInformInfoWants(t *testing.T) {
	all := InformInfo{LIDBegin: AllLIDs, Generic: 1, Type: AllTypes, Number: AllNumbers, Producer: AllProducers}
	n := mad.Notice{Generic: true, Type: 1, Producer: mad.ProducerSwitch, Number: 128, IssuerLID: 7, IssuerGID: mad.GID{1}}
	if !all.Wants(&n) {
		t.Error("a subscription to all does not want a notice")
	}
	for name, c := range map[string]struct {
		change func(*InformInfo)
		want   bool
	}{
		"vendor":       {func(i *InformInfo) { i.Generic = 0 }, false},
		"type":         {func(i *InformInfo) { i.Type = 2 }, false},
		"number":       {func(i *InformInfo) { i.Number = 128 }, true},
		"other number": {func(i *InformInfo) { i.Number = 64 }, false},
		"producer":     {func(i *InformInfo) { i.Producer = mad.ProducerManager }, false},
		"LID":          {func(i *InformInfo) { i.LIDBegin = 7 }, true},
		"range":        {func(i *InformInfo) { i.LIDBegin, i.LIDEnd = 5, 8 }, true},
		"other range":  {func(i *InformInfo) { i.LIDBegin, i.LIDEnd = 8, 9 }, false},
		"GID":          {func(i *InformInfo) { i.GID = mad.GID{1} }, true},
		"other GID":    {func(i *InformInfo) { i.GID = mad.GID{2} }, false},
	} {
		i := all
		c.change(&i)
		if i.Wants(&n) != c.want {
			t.Errorf("%s: wants %v", name, !c.want)
		}
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		l    Limit
		want [3]bool // for 2, 3 and 4
	}{
		{Limit{Greater, 3}, [3]bool{false, false, true}}, {Limit{Less, 3}, [3]bool{true, false, false}},
		{Limit{Exactly, 3}, [3]bool{false, true, false}}, {Limit{Best, 3}, [3]bool{true, true, true}},
	} {
		for i, want := range c.want {
			if c.l.Allows(uint8(i+2)) != want {
				t.Errorf("%+v allows %d: %v", c.l, i+2, !want)
			}
		}
	}
}
