package memory

import (
	"bytes"
	"testing"

	"softrdma/internal/reason"
)

func TestPacketsOfMessageAreStoredTogether(t *testing.T) {
	x, r, p := newForeign(t, 1<<20, Foreign{})
	msg := make([]byte, 600_000)
	for i := range msg {
		msg[i] = byte(i*11 + i>>9)
	}
	for pos := 0; pos < len(msg); pos += 4096 {
		if d := r.Put(r.Base+5+uint64(pos), msg[pos:min(pos+4096, len(msg))]); d.Reason != reason.None {
			t.Fatal(d)
		}
	}
	if !x.Deferred() {
		t.Fatal("nothing waits")
	}
	if l := x.Flush(); len(l) != 0 || x.Deferred() {
		t.Fatalf("lost %v", l)
	}
	if !bytes.Equal(p.mem[5:][:len(msg)], msg) {
		t.Error("the stored bytes differ from the message")
	}
	if p.puts != 3 {
		t.Errorf("%d calls for 600,000 bytes, want one for each 256 KiB", p.puts)
	}
}

func TestDeferredStoresKeepTheirOrder(t *testing.T) {
	for name, then := range map[string]func(r *Region) bool{
		"a short store": func(r *Region) bool { return r.Put(r.Base+8000, []byte("x")).Reason == reason.None },
		"a READ":        func(r *Region) bool { return string(r.Read(r.Base+100, 2)) == "\xaa\xaa" },
		"an atomic":     func(r *Region) bool { _, ok := r.FetchAdd(r.Base+6000, 1); return ok },
		"another store": func(r *Region) bool {
			return r.Put(r.Base, bytes.Repeat([]byte{0xbb}, 2000)).Reason == reason.None && r.table.Flush() == nil
		},
	} {
		_, r, p := newForeign(t, 16384, Foreign{})
		if d := r.Put(r.Base+100, bytes.Repeat([]byte{0xaa}, 3000)); d.Reason != reason.None || p.mem[100] == 0xaa {
			t.Fatalf("%v: not deferred", d)
		}
		if !then(r) || p.mem[3099] != 0xaa {
			t.Errorf("%s overtook an earlier store", name)
		}
	}
}

func TestLossOfDeferredStoreIsReportedOnce(t *testing.T) {
	x, r, p := newForeign(t, 16384, Foreign{})
	p.mem = p.mem[:4096]
	if d := r.Put(r.Base+4096, make([]byte, 2000)); d.Reason != reason.None {
		t.Fatal(d)
	}
	l := x.Flush()
	if len(l) != 1 || l[0].PD != 1 || l[0].Reason != reason.MemoryUnmapped || l[0].Expected != 2000 || l[0].Found != p.at+4096 {
		t.Errorf("lost %+v", l)
	}
	if l := x.Flush(); l != nil {
		t.Errorf("lost once more: %+v", l)
	}
}

// A Space may read its source after the call has failed. The source must not be a packet.
func TestLongStoreIsMadeFromTheMirror(t *testing.T) {
	const n = 256 << 10
	x, r, p := newForeign(t, 1<<20, Foreign{})
	mirror := r.Bytes(r.Base, 1<<20)
	data := bytes.Repeat([]byte{0xbb}, n)
	for _, off := range []uint64{0, 2000} {
		if d := r.Put(r.Base+off, data); d.Reason != reason.None {
			t.Fatal(d)
		}
		if l := x.Flush(); l != nil || p.mem[off] != 0xbb || p.mem[off+n-1] != 0xbb || !bytes.Equal(mirror[off:off+n], data) {
			t.Errorf("offset %d: lost %+v, stored %#x to %#x", off, l, p.mem[off], p.mem[off+n-1])
		}
	}
	p.mem = p.mem[:100]
	if d := r.Put(r.Base, data); d.Reason != reason.None {
		t.Fatal(d)
	}
	if l := x.Flush(); len(l) != 1 || l[0].Reason != reason.MemoryUnmapped {
		t.Errorf("lost %+v", l)
	}
}
