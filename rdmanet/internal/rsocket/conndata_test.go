package rsocket

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"softrdma/internal/reason"
)

// The connection data that rs_format_conn_data of librdmacm writes with its
// defaults on a little-endian machine: version 1, the flag of the table of mapped
// memory, 384 credits, a table of two entries, half of 128 KiB.
const ofRsockets = "01 02 0180 000000 00" +
	"0000556677889000 00001a2b 00000002" +
	"00007f0011223000 00001c3d 00010000"

func wire(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestConnDataFieldsLieWhereRsocketsPutsThem(t *testing.T) {
	b := wire(t, ofRsockets)
	got, err := ParseConnData(append(b, make([]byte, 16)...)) // as the connection manager pads it
	if err != nil {
		t.Fatal(err)
	}
	want := ConnData{
		Flags: FlagIomap, Credits: 384,
		Target: SGE{0x556677889000, 0x1a2b, 2}, Data: SGE{0x7f0011223000, 0x1c3d, 64 << 10},
	}
	if got != want {
		t.Fatalf("expected %+v, found %+v", want, got)
	}
	put := make([]byte, ConnDataLen)
	if got.Put(put); string(put) != string(b) {
		t.Fatalf("expected %x, found %x", b, put)
	}
}

func TestConnDataRefusals(t *testing.T) {
	good := wire(t, ofRsockets)
	changed := func(i int, v byte) []byte {
		b := append([]byte(nil), good...)
		b[i] = v
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		want reason.Reason
	}{
		"version 0":       {changed(0, 0), reason.SocketVersion},
		"version 2":       {changed(0, 2), reason.SocketVersion},
		"empty":           {nil, reason.SocketConnData},
		"one byte short":  {good[:ConnDataLen-1], reason.SocketConnData},
		"table of none":   {changed(23, 0), reason.SocketTarget},
		"all zeros":       {make([]byte, 56), reason.SocketVersion},
		"another's words": {[]byte("GET / HTTP/1.1\r\nHost: example.com\r\nUser-Agent: x"), reason.SocketVersion},
	} {
		_, err := ParseConnData(c.b)
		var f *Fault
		if !errors.As(err, &f) || f.Detail.Reason != c.want {
			t.Errorf("%s: expected %v, found %v", name, c.want, err)
		}
	}
}

// Without its flag the size of the table is invalid: rsockets without mapped memory
// did not set the byte.
func TestConnDataIomapSizeNeedsItsFlag(t *testing.T) {
	b := wire(t, ofRsockets)
	b[1], b[7] = 0, 9
	c, err := ParseConnData(b)
	if err != nil || c.Iomaps() != 0 {
		t.Fatalf("found %d entries, error %v", c.Iomaps(), err)
	}
}

// The numbers are those of rs_value_to_scale and rs_scale_to_value for eight bits.
func TestIomapSizeScale(t *testing.T) {
	for _, c := range []struct{ n, entries int }{
		{-1, 0}, {0, 0}, {1, 1}, {127, 127}, {128, 128}, {129, 128}, {255, 128}, {256, 256}, {257, 256}, {512, 512}, {32512, 32512}, {1 << 20, 32512},
	} {
		if size, entries := ScaleIomaps(c.n); entries != c.entries || unscale(size) != entries {
			t.Errorf("%d: expected %d entries, found %d (size %#x)", c.n, c.entries, entries, size)
		}
	}
}

// This side writes a peer's tables in the peer's byte order. This side's own tables
// are little-endian, as its connection data says.
func TestTablesAreWrittenInThePeersOrder(t *testing.T) {
	for flag, order := range map[uint8]binary.ByteOrder{0: binary.LittleEndian, FlagBigEndian: binary.BigEndian} {
		var r Remote
		r.Start(&ConnData{Flags: flag | FlagIomap, IomapSize: 4, Target: SGE{0x1000, 7, 2}})
		var b [IomapLen]byte
		for i, want := range []uint64{0x1010, 0x1000, 0x1010} { // the connection data filled entry 0
			addr, key := r.PutTarget(b[:], SGE{0x0102030405060708, 0x11121314, 0x21222324})
			if addr != want || key != 7 {
				t.Errorf("update %d goes to %#x with key %d, expected %#x and 7", i, addr, key, want)
			}
		}
		if s := parseSGE(order, b[:]); s != (SGE{0x0102030405060708, 0x11121314, 0x21222324}) {
			t.Errorf("flag %d: found %x", flag, b[:SGELen])
		}
		if addr, _ := r.PutIomap(b[:], 3, Iomap{Offset: 5, Memory: SGE{6, 7, 8}}); addr != 0x1000+2*16+3*24 {
			t.Errorf("entry 3 of mapped memory goes to %#x", addr)
		}
		if order.Uint64(b[:]) != 5 || parseSGE(order, b[8:]) != (SGE{6, 7, 8}) {
			t.Errorf("flag %d: found %x", flag, b)
		}
	}
}

func TestDoubled(t *testing.T) {
	for n, want := range map[uint32]bool{
		5000: true, 10000: true, 5000 << 10: true, 0: false, 1: false, 4999: false, 5001: false, 10001: false, 15000: false, 1 << 31: false,
	} {
		if Doubled(5000, n) != want || Doubled(0, n) {
			t.Errorf("%d", n)
		}
	}
}

func FuzzParseConnData(f *testing.F) {
	f.Add(wire(f, ofRsockets))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseConnData(b)
		if err != nil {
			return
		}
		again := make([]byte, ConnDataLen)
		c.Put(again)
		if d, err := ParseConnData(again); err != nil || d != c {
			t.Fatalf("%+v is written as %x and read as %+v, %v", c, again, d, err)
		}
	})
}
