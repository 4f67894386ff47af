// Package madtest checks the formats of management datagrams in tests: that
// each field lies where the tables of the specification put it.
package madtest

import (
	"math/big"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// A Field is a field's place: byte of the format, and bit from the byte's
// highest on. A dot in the name leads into a struct or, with a number, an
// array.
type Field struct {
	Name            string
	Byte, Bit, Bits int
}

// A Layout is a format with its table. Parse and Put work on buffers of Len
// bytes.
type Layout struct {
	Name   string
	Len    int
	New    func() any
	Parse  func(v any, b []byte)
	Put    func(v any, b []byte)
	Fields []Field
}

func (l *Layout) mask(f Field) *big.Int {
	ones := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(f.Bits)), big.NewInt(1))
	return ones.Lsh(ones, uint(l.Len*8-f.Byte*8-f.Bit-f.Bits))
}

func member(v any, name string) reflect.Value {
	r := reflect.ValueOf(v).Elem()
	for part := range strings.SplitSeq(name, ".") {
		if part == "" { // the value itself is an array
			continue
		}
		if r.Kind() == reflect.Array {
			i := 0
			for _, d := range part {
				i = 10*i + int(d-'0')
			}
			r = r.Index(i)
		} else {
			r = r.FieldByName(part)
		}
	}
	return r
}

// number returns a field's value as one number.
func number(r reflect.Value) *big.Int {
	switch r.Kind() {
	case reflect.Bool:
		if r.Bool() {
			return big.NewInt(1)
		}
		return new(big.Int)
	case reflect.Array:
		b := make([]byte, r.Len())
		for i := range b {
			b[i] = byte(r.Index(i).Uint())
		}
		return new(big.Int).SetBytes(b)
	}
	return new(big.Int).SetUint64(r.Uint())
}

// Check checks each layout: the bits of a field set only that field and are
// written back, reserved bits set none, values with more bits than their field
// keep out of the neighbors, and random bytes survive being read and written.
func Check(t *testing.T, layouts []Layout) {
	t.Helper()
	for _, l := range layouts {
		t.Run(l.Name, func(t *testing.T) {
			l.fields(t)
			l.oversized(t)
			l.random(t)
		})
	}
}

func (l *Layout) fields(t *testing.T) {
	all := new(big.Int)
	for _, f := range l.Fields {
		bits := l.mask(f)
		if new(big.Int).And(all, bits).Sign() != 0 {
			t.Errorf("%s overlaps another field of the table", f.Name)
		}
		all.Or(all, bits)
		b := bits.FillBytes(make([]byte, l.Len))
		v := l.New()
		l.Parse(v, b)
		ones := new(big.Int).Rsh(bits, uint(l.Len*8-f.Byte*8-f.Bit-f.Bits))
		if got := number(member(v, f.Name)); got.Cmp(ones) != 0 {
			t.Errorf("%s is %x, expected %x", f.Name, got, ones)
		}
		for _, other := range l.Fields {
			if other.Name != f.Name && number(member(v, other.Name)).Sign() != 0 {
				t.Errorf("%s is read from the bits of %s", other.Name, f.Name)
			}
		}
		back := make([]byte, l.Len)
		l.Put(v, back)
		if string(back) != string(b) {
			t.Errorf("%s is written as %x, expected %x", f.Name, back, b)
		}
	}
	reserved := new(big.Int).Lsh(big.NewInt(1), uint(l.Len*8))
	reserved.Sub(reserved, big.NewInt(1)).AndNot(reserved, all)
	v := l.New()
	l.Parse(v, reserved.FillBytes(make([]byte, l.Len)))
	if !reflect.DeepEqual(v, l.New()) {
		t.Errorf("reserved bits are read as %+v", v)
	}
}

func (l *Layout) oversized(t *testing.T) {
	for _, f := range l.Fields {
		v := l.New()
		r := member(v, f.Name)
		if !r.CanUint() {
			continue
		}
		r.SetUint(1<<r.Type().Bits() - 1)
		b := make([]byte, l.Len)
		l.Put(v, b)
		if want := l.mask(f).FillBytes(make([]byte, l.Len)); string(b) != string(want) {
			t.Errorf("%s of all ones is written as %x, expected %x", f.Name, b, want)
		}
	}
}

func (l *Layout) random(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		b, back := make([]byte, l.Len), make([]byte, l.Len)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		v, again := l.New(), l.New()
		l.Parse(v, b)
		l.Put(v, back)
		l.Parse(again, back)
		if !reflect.DeepEqual(v, again) {
			t.Fatalf("%+v reads back as %+v", v, again)
		}
	}
}

// Array returns the fields of an array of n elements of some bits each, from a
// byte on.
func Array(name string, at, n, bits int) []Field {
	var f []Field
	for i := range n {
		bit := at*8 + i*bits
		f = append(f, Field{name + "." + digits(i), bit / 8, bit % 8, bits})
	}
	return f
}

// Within returns fields as those of a member of a larger format, from a byte
// on.
func Within(name string, at int, fields []Field) []Field {
	var out []Field
	for _, f := range fields {
		f.Name, f.Byte = name+"."+f.Name, f.Byte+at
		out = append(out, f)
	}
	return out
}

func digits(i int) string { return big.NewInt(int64(i)).String() }
