package psp

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"testing"
)

// The master keys of the specification's examples and of google/psp's tests.
var masters = [2]string{
	"34448a064292601b11a0978f56a2d34cf3fc35ede1a6bc04f8db3e5243a2b0ca",
	"563952565d3a78ae773ec1b779f2f2d99f4a7f53a6fbb9b07d5b71f39364d739",
}

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// keyOf returns the key of an SPI under the masters.
func keyOf(tb testing.TB, spi uint32, v Version) *Key {
	tb.Helper()
	b, err := Derive((*[MasterLen]byte)(unhex(tb, masters[spi/Phase])), spi, v)
	if err != nil {
		tb.Fatal(err)
	}
	k, err := NewKey(spi, v, b)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// SPIs 12345678 and 9a345678 are the specification's examples; google/psp's program printed all of them.
func TestKeysOfTheSpecification(t *testing.T) {
	for _, c := range []struct {
		spi  uint32
		v    Version
		want string
	}{
		{0x00000001, AESGCM128, "1b49f224aa7a6c96f69aa652c933ffcf"},
		{0x12345678, AESGCM128, "96c22dc799198090b74b70ae468e4e30"},
		{0x7fffffff, AESGCM128, "f7902f75a403e14ecb691bfabbb8d608"},
		{0x80000001, AESGCM128, "9b951f8cf419b5c7f1af39c16631daca"},
		{0x9a345678, AESGCM128, "3946da2554eae46ad1ef77a64372edc4"},
		{0xffffffff, AESGCM128, "4bf4390e84e9fd46a2c30754340af517"},
		{0x00000001, AESGCM256, "780677d32b55274e6bbea4e5c0734bd4c5cabd369d6c3042123247f575acddb6"},
		{0x12345678, AESGCM256, "2b7d72074e42ca334487f2990e3f8c4037e436f38283449b76463e9b7fb2e3de"},
		{0x80000001, AESGCM256, "49cfe84a4ca6f615374f1f9a69d504a55fe626bcbbd9dd0e0e729450b4656db7"},
		{0x9a345678, AESGCM256, "fa00f609df6020289a1c93d6027081a637ad45b24a5576b36e6f49dd43114d80"},
	} {
		got, err := Derive((*[MasterLen]byte)(unhex(t, masters[c.spi/Phase])), c.spi, c.v)
		if want := unhex(t, c.want); err != nil || !bytes.Equal(got, want) {
			t.Errorf("SPI %#08x, version %d: expected %x, found %x, %v", c.spi, c.v, want, got, err)
		}
	}
}

// Packets that google/psp's program made (tunnel mode with a cookie of 0, crypt offset of 8 bytes).
var referencePackets = []struct {
	v             Version
	spi           uint32
	inner, packet string
}{
	{
		AESGCM128, 0x12345678, "4500001c00004000401126cf0a0000010a0000029c40145100080000",
		"04020203123456780000000000000001000000000000000043f9f045458355d4b8802b76f54d25b529b0e80d63a0b8d1b91c9dd1ad640c36e3d69bda830131e0b567fee5",
	}, {
		AESGCM128, 0x9a345678, "6000000000081140fd000000000000000000000000000001fd0000000000000000000000000000029c40145100080000",
		"290202039a3456780000000000000001000000000000000009fb286390667dd6d901d4f2cd2ea1f1cc47a838ba926ddd10e006960bb93f93d0e892e0778b056beffa4b38" +
			"8738267875d114b954bd640a9ff3b6b64b0c1cad",
	}, {
		AESGCM256, 0x12345678, "4500001c00004000401126cf0a0000010a0000029c40145100080000",
		"0402020712345678000000000000000100000000000000002527442e407e9f62bb11bd223fd721d18d42225f802317d2f74ae7e96735dd7e91c29a367f9bd6c8761c6189",
	},
}

func TestPacketsOfTheReference(t *testing.T) {
	for _, c := range referencePackets {
		want, inner, k := unhex(t, c.packet), unhex(t, c.inner), keyOf(t, c.spi, c.v)
		h := Header{Next: want[0], CryptOffset: 8, IV: 1, HasCookie: true}
		b := append(make([]byte, h.Len()), inner...)
		b = append(b, make([]byte, ICVLen)...)
		if err := k.Seal(b, &h); err != nil || !bytes.Equal(b, want) {
			t.Errorf("expected %x\nfound %x, %v", want, b, err)
		}
		got, length, err := Parse(want)
		if err != nil || got != h || length != h.Len() {
			t.Errorf("expected %+v\nfound %+v, length %d, %v", h, got, length, err)
		}
		if b, err := k.Open(want, &got, length); err != nil || !bytes.Equal(b, inner) {
			t.Errorf("opened: expected %x, found %x, %v", inner, b, err)
		}
	}
}

// A packet whose bits were changed anywhere is refused, whatever is encrypted of it.
func TestChangedPacketsAreRefused(t *testing.T) {
	k := keyOf(t, 7, AESGCM256)
	for _, h := range []Header{{Next: NextUDP, IV: 1}, {Next: NextUDP, IV: 2, CryptOffset: 4}, {Next: NextUDP, IV: 3, HasCookie: true, Cookie: 9}} {
		b := make([]byte, h.Len()+20+ICVLen)
		if err := k.Seal(b, &h); err != nil {
			t.Fatal(err)
		}
		for bit := range 8 * len(b) {
			changed := bytes.Clone(b)
			changed[bit/8] ^= 1 << (bit % 8)
			h, length, err := Parse(changed)
			if err == nil {
				_, err = k.Open(changed, &h, length)
			}
			if err == nil {
				t.Errorf("%+v: bit %d was changed and the packet was taken", h, bit)
			}
		}
	}
}

func TestBadHeadersAreRefused(t *testing.T) {
	good := make([]byte, HeaderLen+4+ICVLen)
	(&Header{Next: NextUDP, CryptOffset: 4}).Put(good)
	if _, _, err := Parse(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func([]byte) []byte{
		"too short":            func(b []byte) []byte { return b[:HeaderLen+ICVLen-1] },
		"bit that is always 1": func(b []byte) []byte { b[3] &^= oneBit; return b },
		"length of 0":          func(b []byte) []byte { b[1] = 0; return b },
		"length beyond the end": func(b []byte) []byte {
			b[1] = 2
			return b
		},
		"cookie without room":   func(b []byte) []byte { b[3] |= cookieBit; return b },
		"crypt offset too long": func(b []byte) []byte { b[2] = 2; return b },
	} {
		if h, _, err := Parse(change(bytes.Clone(good))); err == nil {
			t.Errorf("%s: expected an error, found %+v", name, h)
		}
	}
	b := make([]byte, HeaderLen+8+ICVLen)
	for _, h := range []Header{{CryptOffset: 12}, {CryptOffset: 3}, {CryptOffset: -4}, {CryptOffset: 256}} {
		if err := keyOf(t, 1, AESGCM128).Seal(b, &h); err == nil {
			t.Errorf("crypt offset %d: expected an error", h.CryptOffset)
		}
	}
	if _, err := NewKey(1, AESGCM256, make([]byte, 16)); err == nil {
		t.Error("expected an error for a key of 16 bytes with AES-GCM-256")
	}
	if _, err := Derive(new([MasterLen]byte), 1, 2); err == nil {
		t.Error("expected an error for a version without encryption")
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range referencePackets {
		f.Add(unhex(f, c.packet))
	}
	k := keyOf(f, 0x12345678, AESGCM128)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, length, err := Parse(b)
		if err != nil {
			return
		}
		if length < h.Len() || length > len(b)-ICVLen || HeaderLen+h.CryptOffset > len(b)-ICVLen {
			t.Fatalf("%+v with length %d is not within %d bytes", h, length, len(b))
		}
		again := bytes.Clone(b)
		h.Put(again)
		if g, _, err := Parse(again); err != nil || g != h {
			t.Fatalf("expected %+v, found %+v, %v", h, g, err)
		}
		_, _ = k.Open(b, &h, length)
	})
}

// The window agrees with one that forgets nothing, for IVs that are not too old, and takes no IV twice.
func TestWindow(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var w Window
		taken := map[uint64]bool{}
		highest := uint64(0)
		base := [...]uint64{0, 1, 63, 64, 1 << 40, ^uint64(0) - 40000}[seed%6]
		for range 3000 {
			iv := base
			switch r.IntN(4) {
			case 0:
				base += r.Uint64N(8)
			case 1:
				base += r.Uint64N(3) * r.Uint64N(200) / 100
			case 2:
				iv -= min(iv, r.Uint64N(WindowLen+200))
			}
			want := taken[iv] || highest >= WindowLen && iv <= highest-WindowLen
			if got := w.Seen(iv); got != want {
				t.Fatalf("seed %d: IV %d, highest %d: expected %v, found %v", seed, iv, highest, want, got)
			}
			if got := w.Newest(iv); got != (iv >= highest) {
				t.Fatalf("seed %d: IV %d, highest %d: newest is %v", seed, iv, highest, got)
			}
			taken[iv], highest = true, max(highest, iv)
		}
		if leap := base + 1<<20; leap > base && (w.Seen(leap) || !w.Seen(leap) || !w.Seen(base)) {
			t.Fatalf("seed %d: an IV was taken again after a leap", seed)
		}
	}
	var w Window
	if w.Seen(0) || w.Seen(^uint64(0)-1) || !w.Seen(^uint64(0)) || !w.Seen(0) {
		t.Error("expected the largest IV to be refused, and the others to be new once")
	}
}

func BenchmarkSeal(b *testing.B) {
	for _, v := range []Version{AESGCM128, AESGCM256} {
		b.Run(map[Version]string{AESGCM128: "AES-GCM-128", AESGCM256: "AES-GCM-256"}[v], func(b *testing.B) {
			k, h, p := keyOf(b, 1, v), Header{Next: NextUDP}, make([]byte, 4096+64)
			b.SetBytes(int64(len(p)))
			for b.Loop() {
				h.IV++
				if err := k.Seal(p, &h); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
