package ninep

import (
	"errors"
	"strings"
	"testing"
)

func TestMessagesAreAdmitted(t *testing.T) {
	version := []byte("\x13\x00\x00\x00\x64\xff\xff\x00\x00\x10\x00\x06\x009P2000")
	if err := admit(version, 8192); err != nil || string(version[7:11]) != "\x00\x20\x00\x00" {
		t.Errorf("expected the size 8192, found % x, %v", version[7:11], err)
	}
	if err := admit(version, 1<<20); err != nil || string(version[7:11]) != "\x00\x20\x00\x00" {
		t.Errorf("a size that is allowed: found % x, %v", version[7:11], err)
	}
	for says, b := range map[string]string{"at least 7": "\x06\x00\x00\x00\x64\xff", "expected 8 bytes, found the size 9": "\x09\x00\x00\x00\x70\x01\x00x"} {
		if err := admit([]byte(b), 8192); !errors.Is(err, ErrMessage) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: expected an error with %q, found %v", b, says, err)
		}
	}
}

func FuzzAdmit(f *testing.F) {
	f.Add([]byte("\x13\x00\x00\x00\x64\xff\xff\x00\x00\x10\x00\x06\x009P2000"))
	f.Fuzz(func(t *testing.T, b []byte) { _ = admit(b, 4096) })
}

// Whatever a client sends and however it is answered, no more is counted than may be held, and nothing
// when all is ended.
func FuzzFids(f *testing.F) {
	f.Add([]byte("\x0c\x00\x00\x80\x00\x00")) // a file that is open is opened again
	f.Add([]byte("\x68\x01\x01\x6e\x01\x02\x0c\x02\x02\x78\x02\x02"))
	f.Fuzz(func(t *testing.T, b []byte) {
		x := newFids(Config{Files: 20, Open: 3})
		message := func(kind, tag, fid byte) []byte {
			return []byte{0, 0, 0, 0, kind, tag, 0, fid, 0, 0, 0, fid + 1, 0, 0, 0, 2, 0}
		}
		for ; len(b) >= 3; b = b[3:] {
			if ok, err := x.begin(message(b[0], b[1]&15, b[2]&7)); err == nil && ok && b[1]&128 == 0 {
				kind := b[0] + 1
				if b[1]&64 != 0 {
					kind = typeError
				}
				x.end(message(kind, b[1]&15, 0))
			}
			if x.weight < 0 || x.weight > 20 || x.open < 0 || x.open > 3 {
				t.Fatalf("found %d files, %d open", x.weight, x.open)
			}
		}
		for tag := range byte(16) {
			x.end(message(typeError, tag, 0))
		}
		for fid := range byte(9) {
			if ok, err := x.begin(message(typeClunk, 0, fid)); !ok || err != nil {
				t.Fatalf("clunk: %v, %v", ok, err)
			}
			x.end(message(typeError, 0, 0))
		}
		if x.weight != 0 || x.open != 0 {
			t.Fatalf("%d files and %d open are left", x.weight, x.open)
		}
	})
}
