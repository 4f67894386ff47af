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
