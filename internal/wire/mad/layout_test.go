package mad

import (
	"math/big"
	"math/rand/v2"
	"reflect"
	"testing"
)

// message is the interface of all messages of the communication manager.
type message interface {
	Parse(*[Len]byte)
	Put(*[Len]byte)
}

// field is a field's place as the tables of IBTA chapter 12 give it: byte of
// the message and bit from the byte's highest on.
type field struct {
	name               string // in the struct; a dot leads into a path
	byte, bit, numBits int
}

// path returns the fields of a REQ's path that begins at a byte.
func path(name string, at int) []field {
	return []field{
		{name + ".LocalLID", at, 0, 16}, {name + ".RemoteLID", at + 2, 0, 16},
		{name + ".LocalGID", at + 4, 0, 128}, {name + ".RemoteGID", at + 20, 0, 128},
		{name + ".FlowLabel", at + 36, 0, 20}, {name + ".PacketRate", at + 39, 2, 6},
		{name + ".TrafficClass", at + 40, 0, 8}, {name + ".HopLimit", at + 41, 0, 8},
		{name + ".SL", at + 42, 0, 4}, {name + ".SubnetLocal", at + 42, 4, 1}, {name + ".AckTimeout", at + 43, 0, 5},
	}
}

// layouts are the messages with their tables (IBTA 12.6, 12.8 and 12.11). A
// vendor ID that lies in pieces has more than one row.
var layouts = []struct {
	attr   AttributeID
	make   func() message
	fields []field
}{
	{AttrREQ, func() message { return new(REQ) }, append(append([]field{ // IBTA 12.6.5
		{"LocalID", 0, 0, 32}, {"VendorID", 5, 0, 24}, {"Service", 8, 0, 64}, {"GUID", 16, 0, 64},
		{"Announcement", 24, 0, 32}, {"QKey", 28, 0, 32}, {"QPN", 32, 0, 24}, {"ResponderResources", 35, 0, 8},
		{"LocalEECN", 36, 0, 24}, {"InitiatorDepth", 39, 0, 8}, {"RemoteEECN", 40, 0, 24},
		{"RemoteResponseTimeout", 43, 0, 5}, {"Transport", 43, 5, 2}, {"FlowControl", 43, 7, 1},
		{"StartingPSN", 44, 0, 24}, {"LocalResponseTimeout", 47, 0, 5}, {"RetryCount", 47, 5, 3},
		{"PKey", 48, 0, 16}, {"MTU", 50, 0, 4}, {"RDCExists", 50, 4, 1}, {"RNRRetryCount", 50, 5, 3},
		{"MaxCMRetries", 51, 0, 4}, {"SRQ", 51, 4, 1}, {"ExtendedTransport", 51, 5, 3},
		{"Private", 140, 0, 92 * 8},
	}, path("Primary", 52)...), path("Alternate", 96)...)},
	{AttrMRA, func() message { return new(MRA) }, []field{ // IBTA 12.6.6
		{"LocalID", 0, 0, 32}, {"RemoteID", 4, 0, 32}, {"Of", 8, 0, 2}, {"ServiceTimeout", 9, 0, 5}, {"Private", 10, 0, 222 * 8},
	}},
	{AttrREJ, func() message { return new(REJ) }, []field{ // IBTA 12.6.7
		{"LocalID", 0, 0, 32}, {"RemoteID", 4, 0, 32}, {"Of", 8, 0, 2}, {"InfoLen", 9, 0, 7}, {"Reason", 10, 0, 16},
		{"Info", 12, 0, 72 * 8}, {"Private", 84, 0, 148 * 8},
	}},
	{AttrREP, func() message { return new(REP) }, []field{ // IBTA 12.6.8
		{"LocalID", 0, 0, 32}, {"RemoteID", 4, 0, 32}, {"QKey", 8, 0, 32}, {"QPN", 12, 0, 24}, {"EECN", 16, 0, 24},
		{"StartingPSN", 20, 0, 24}, {"ResponderResources", 24, 0, 8}, {"InitiatorDepth", 25, 0, 8},
		{"TargetAckDelay", 26, 0, 5}, {"Failover", 26, 5, 2}, {"FlowControl", 26, 7, 1},
		{"RNRRetryCount", 27, 0, 3}, {"SRQ", 27, 3, 1}, {"GUID", 28, 0, 64}, {"Private", 36, 0, 196 * 8},
		{"VendorID", 15, 0, 8}, {"VendorID", 19, 0, 8}, {"VendorID", 23, 0, 8},
	}},
	{AttrRTU, func() message { return new(RTU) }, []field{ // IBTA 12.6.9
		{"LocalID", 0, 0, 32}, {"RemoteID", 4, 0, 32}, {"Private", 8, 0, 224 * 8},
	}},
	{AttrDREQ, func() message { return new(DREQ) }, []field{ // IBTA 12.6.10
		{"LocalID", 0, 0, 32}, {"RemoteID", 4, 0, 32}, {"RemoteQPN", 8, 0, 24}, {"Private", 12, 0, 220 * 8},
	}},
	{AttrDREP, func() message { return new(DREP) }, []field{ // IBTA 12.6.11
		{"LocalID", 0, 0, 32}, {"RemoteID", 4, 0, 32}, {"Private", 8, 0, 224 * 8},
	}},
	{AttrSIDRReq, func() message { return new(SIDRReq) }, []field{ // IBTA 12.11.1
		{"RequestID", 0, 0, 32}, {"PKey", 4, 0, 16}, {"Port", 6, 0, 16}, {"Service", 8, 0, 64}, {"Private", 16, 0, 216 * 8},
	}},
	{AttrSIDRRep, func() message { return new(SIDRRep) }, []field{ // IBTA 12.11.2
		{"RequestID", 0, 0, 32}, {"Status", 4, 0, 8}, {"InfoLen", 5, 0, 8}, {"QPN", 8, 0, 24}, {"Service", 12, 0, 64},
		{"QKey", 20, 0, 32}, {"Info", 24, 0, 72 * 8}, {"Private", 96, 0, 136 * 8},
		{"VendorID", 6, 0, 16}, {"VendorID", 11, 0, 8},
	}},
	{AttrLAP, func() message { return new(LAP) }, []field{ // IBTA 12.8.1
		{"LocalID", 0, 0, 32}, {"RemoteID", 4, 0, 32}, {"RemoteQPN", 12, 0, 24}, {"RemoteResponseTimeout", 15, 0, 5},
		{"Alternate.LocalLID", 20, 0, 16}, {"Alternate.RemoteLID", 22, 0, 16},
		{"Alternate.LocalGID", 24, 0, 128}, {"Alternate.RemoteGID", 40, 0, 128},
		{"Alternate.FlowLabel", 56, 0, 20}, {"Alternate.TrafficClass", 59, 0, 8}, {"Alternate.HopLimit", 60, 0, 8},
		{"Alternate.PacketRate", 61, 2, 6}, {"Alternate.SL", 62, 0, 4}, {"Alternate.SubnetLocal", 62, 4, 1},
		{"Alternate.AckTimeout", 63, 0, 5}, {"Private", 64, 0, 168 * 8},
	}},
	{AttrAPR, func() message { return new(APR) }, []field{ // IBTA 12.8.2
		{"LocalID", 0, 0, 32}, {"RemoteID", 4, 0, 32}, {"InfoLen", 8, 0, 8}, {"Status", 9, 0, 8},
		{"Info", 12, 0, 72 * 8}, {"Private", 84, 0, 148 * 8},
	}},
}

// bits returns the bits of a field in a datagram.
func (f field) bits() *big.Int {
	ones := new(big.Int).Lsh(big.NewInt(1), uint(f.numBits))
	ones.Sub(ones, big.NewInt(1))
	return ones.Lsh(ones, uint(Len*8-(HeaderLen+f.byte)*8-f.bit-f.numBits))
}

func datagram(v *big.Int) (d [Len]byte) {
	v.FillBytes(d[:])
	return d
}

// number returns a field's value as one number, vendor IDs and arrays alike.
func number(m message, name string) *big.Int {
	v := reflect.ValueOf(m).Elem()
	for n, rest := cut(name); ; n, rest = cut(rest) {
		if v = v.FieldByName(n); rest == "" {
			break
		}
	}
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return big.NewInt(1)
		}
		return big.NewInt(0)
	case reflect.Array:
		b := make([]byte, v.Len())
		reflect.Copy(reflect.ValueOf(b), v)
		return new(big.Int).SetBytes(b)
	}
	return new(big.Int).SetUint64(v.Uint())
}

func cut(s string) (first, rest string) {
	for i := range s {
		if s[i] == '.' {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// TestFieldsLieWhereTheSpecificationPutsThem reads each message with the bits
// of one field alone, of all fields, and of none but the reserved ones.
func TestFieldsLieWhereTheSpecificationPutsThem(t *testing.T) {
	for _, l := range layouts {
		all := new(big.Int)
		for _, f := range l.fields {
			bits := f.bits()
			if new(big.Int).And(all, bits).Sign() != 0 {
				t.Errorf("%v: the table's %s overlaps another field", l.attr, f.name)
			}
			all.Or(all, bits)
			d := datagram(bits)
			m, zero := l.make(), l.make()
			m.Parse(&d)
			ones := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(f.numBits)), big.NewInt(1))
			if f.name == "VendorID" { // in pieces
				if number(m, f.name).Sign() == 0 {
					t.Errorf("%v: the vendor ID at byte %d is not read", l.attr, f.byte)
				}
			} else if got := number(m, f.name); got.Cmp(ones) != 0 {
				t.Errorf("%v.%s is %x, expected %x", l.attr, f.name, got, ones)
			}
			for _, other := range l.fields {
				if other.name != f.name && number(m, other.name).Sign() != 0 {
					t.Errorf("%v.%s is read from the bits of %s", l.attr, other.name, f.name)
				}
			}
			var back [Len]byte
			m.Put(&back)
			if back != d {
				t.Errorf("%v.%s is written as %x, expected %x", l.attr, f.name, back, d)
			}
			if reflect.DeepEqual(m, zero) {
				t.Errorf("%v.%s is not read at all", l.attr, f.name)
			}
		}
		// Reserved bits count for nothing.
		reserved := new(big.Int).Lsh(big.NewInt(1), (Len-HeaderLen)*8)
		reserved.Sub(reserved, big.NewInt(1)).AndNot(reserved, all)
		d := datagram(reserved)
		m := l.make()
		m.Parse(&d)
		if !reflect.DeepEqual(m, l.make()) {
			t.Errorf("%v: reserved bits are read as %+v", l.attr, m)
		}
		for _, f := range l.fields {
			if n := l.attr.PrivateLen() * 8; f.name == "Private" && f.numBits != n {
				t.Errorf("%v has room for %d bits of private data, the table says %d", l.attr, f.numBits, n)
			}
		}
	}
	if len(layouts) != len(attributes) {
		t.Errorf("%d messages tested of %d", len(layouts), len(attributes))
	}
}

// TestPutKeepsOversizedValuesInTheirFields writes values that have more bits
// than their fields: the neighbours stay as they are.
func TestPutKeepsOversizedValuesInTheirFields(t *testing.T) {
	for _, l := range layouts {
		for _, f := range l.fields {
			if f.numBits%8 == 0 && f.numBits != 24 {
				continue
			}
			m := l.make()
			v := reflect.ValueOf(m).Elem()
			for n, rest := cut(f.name); ; n, rest = cut(rest) {
				if v = v.FieldByName(n); rest == "" {
					break
				}
			}
			if v.Kind() == reflect.Bool || f.name == "VendorID" {
				continue
			}
			v.SetUint(1<<v.Type().Bits() - 1)
			var d [Len]byte
			m.Put(&d)
			if want := datagram(f.bits()); d != want {
				t.Errorf("%v.%s of all ones is written as %x, expected %x", l.attr, f.name, d, want)
			}
		}
	}
}

// TestParsedMessagesRoundTrip reads random bytes: what was read is written so
// that it reads the same.
func TestParsedMessagesRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, l := range layouts {
		for range 200 {
			var d, back [Len]byte
			for i := range d {
				d[i] = byte(r.Uint32())
			}
			m, again := l.make(), l.make()
			m.Parse(&d)
			m.Put(&back)
			again.Parse(&back)
			if !reflect.DeepEqual(m, again) {
				t.Fatalf("%v: %+v reads back as %+v", l.attr, m, again)
			}
		}
	}
}
