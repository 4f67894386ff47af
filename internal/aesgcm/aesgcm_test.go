package aesgcm

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"math/rand/v2"
	"strconv"
	"testing"
)

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// both returns AES-GCM of this package and of the standard library.
func both(tb testing.TB, key []byte) (ours, standard cipher.AEAD) {
	tb.Helper()
	ours, err := New(key)
	if err != nil {
		tb.Fatal(err)
	}
	b, err := aes.NewCipher(key)
	if err != nil {
		tb.Fatal(err)
	}
	if standard, err = cipher.NewGCM(b); err != nil {
		tb.Fatal(err)
	}
	return ours, standard
}

// agree seals and opens with both implementations, in place and into other memory, and changes each part.
func agree(t *testing.T, ours, standard cipher.AEAD, nonce, plain, additional []byte) {
	t.Helper()
	want := standard.Seal(nil, nonce, plain, additional)
	if got := ours.Seal([]byte("in front"), nonce, plain, additional); !bytes.Equal(got, append([]byte("in front"), want...)) {
		t.Fatalf("%d bytes, %d additional: expected %x\nfound %x", len(plain), len(additional), want, got)
	}
	b := append(bytes.Clone(plain), bytes.Repeat([]byte{0xee}, tagLen+64)...)
	if got := ours.Seal(b[:0], nonce, b[:len(plain)], additional); !bytes.Equal(got, want) || b[len(want)] != 0xee {
		t.Fatalf("%d bytes in place: expected %x\nfound %x", len(plain), want, got)
	}
	if got, err := ours.Open(nil, nonce, want, additional); err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("%d bytes: opened %x, %v", len(plain), got, err)
	}
	if got, err := ours.Open(b[:0], nonce, b[:len(want)], additional); err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("%d bytes in place: opened %x, %v", len(plain), got, err)
	}
	for _, part := range [][]byte{want, want[len(plain):], additional, nonce} {
		if len(part) == 0 {
			continue
		}
		at := &part[len(part)/2]
		*at ^= 0x10
		room := bytes.Repeat([]byte{0xdd}, len(plain))
		if got, err := ours.Open(room[:0], nonce, want, additional); err == nil {
			t.Fatalf("%d bytes: expected an error, found %x", len(plain), got)
		}
		if usable && bytes.Count(room, []byte{0xdd}) != len(room) {
			t.Fatal("bytes of a wrong ciphertext were decrypted")
		}
		*at ^= 0x10
	}
}

// The standard library is right: the same bytes for all short lengths, and for some that need several parts.
func TestAgreesWithTheStandardLibrary(t *testing.T) {
	if !usable {
		t.Log("this processor has no wide instructions for AES, or FIPS 140 mode is on: the standard library is compared with itself")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, keyLen := range []int{16, 32} {
		ours, standard := both(t, random(r, keyLen))
		for n := range 600 {
			agree(t, ours, standard, random(r, nonceLen), random(r, n), random(r, n%70))
		}
		for _, n := range []int{1023, 1024, 1025, 1040, 4096, 4120, 4121, 5000, 65535, 65536, 1 << 20} {
			agree(t, ours, standard, random(r, nonceLen), random(r, n), random(r, 16))
			agree(t, ours, standard, random(r, nonceLen), random(r, 5), random(r, n))
		}
		for range 200 { // other keys
			ours, standard = both(t, random(r, keyLen))
			agree(t, ours, standard, random(r, nonceLen), random(r, r.IntN(2000)), random(r, r.IntN(100)))
		}
		for _, b := range []byte{0, 0xff, 0x80, 1} {
			ours, standard = both(t, bytes.Repeat([]byte{b}, keyLen))
			agree(t, ours, standard, bytes.Repeat([]byte{b}, nonceLen), bytes.Repeat([]byte{b}, 1100), bytes.Repeat([]byte{b}, 16))
		}
	}
}

func TestKeysOfOtherLengthsAreRefused(t *testing.T) {
	for n := range 40 {
		if _, err := New(make([]byte, n)); (err == nil) != (n == 16 || n == 24 || n == 32) {
			t.Errorf("key of %d bytes: %v", n, err)
		}
	}
}

func TestShortCiphertextsAreRefused(t *testing.T) {
	g, _ := both(t, make([]byte, 16))
	for n := range tagLen {
		if _, err := g.Open(nil, make([]byte, nonceLen), make([]byte, n), nil); err == nil {
			t.Errorf("ciphertext of %d bytes: expected an error", n)
		}
	}
}

func TestNothingIsAllocated(t *testing.T) {
	g, _ := both(t, make([]byte, 16))
	b, nonce := make([]byte, 4120+tagLen), make([]byte, nonceLen)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := g.Open(b[:0], nonce, g.Seal(b[:0], nonce, b[:4120], nonce), nonce); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("expected no allocations, found %v", n)
	}
}

func FuzzAgreesWithTheStandardLibrary(f *testing.F) {
	f.Add(true, make([]byte, 32), make([]byte, nonceLen), make([]byte, 4120), make([]byte, 16))
	f.Fuzz(func(t *testing.T, long bool, key, nonce, plain, additional []byte) {
		k := make([]byte, 16, 32)
		if long {
			k = k[:32]
		}
		copy(k, key)
		n := make([]byte, nonceLen)
		copy(n, nonce)
		ours, standard := both(t, k)
		agree(t, ours, standard, n, bytes.Clone(plain), bytes.Clone(additional))
	})
}

func BenchmarkAgainstTheStandardLibrary(b *testing.B) {
	for _, keyLen := range []int{16, 32} {
		ours, standard := both(b, make([]byte, keyLen))
		for _, n := range []int{32, 128, 256, 512, 4120} {
			for name, g := range map[string]cipher.AEAD{"ours": ours, "standard": standard} {
				for _, op := range []string{"seal", "open"} {
					name := map[int]string{16: "128", 32: "256"}[keyLen] + "/" + strconv.Itoa(n) + "/" + op + "/" + name
					b.Run(name, func(b *testing.B) {
						p, head, out := make([]byte, n), make([]byte, 16), make([]byte, n+tagLen)
						g.Seal(out[:0], head[:nonceLen], p, head)
						b.SetBytes(int64(n))
						b.ReportAllocs()
						for b.Loop() {
							if op == "seal" {
								g.Seal(out[:0], head[:nonceLen], p, head)
							} else if _, err := g.Open(p[:0], head[:nonceLen], out, head); err != nil {
								b.Fatal(err)
							}
						}
					})
				}
			}
		}
	}
}
