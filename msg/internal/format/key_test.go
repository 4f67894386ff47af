package format

import (
	"errors"
	"testing"
)

// An access is possible if the key has the right and the region all of its bytes. So is an empty one at
// the region's end.
func TestKeyChecksAccesses(t *testing.T) {
	k := Key{Rights: AllowGet | AllowAtomic, Address: 0x1000, Length: 100}
	for name, x := range map[string]struct {
		right     uint8
		offset, n int
		want      error
	}{
		"all of it":         {AllowGet, 0, 100, nil},
		"empty at the end":  {AllowAtomic, 100, 0, nil},
		"beyond the end":    {AllowGet, 1, 100, ErrBounds},
		"empty beyond":      {AllowGet, 101, 0, ErrBounds},
		"before":            {AllowGet, -1, 1, ErrBounds},
		"without the right": {AllowPut, 0, 1, ErrRights},
	} {
		if err := k.Check(x.right, x.offset, x.n); !errors.Is(err, x.want) {
			t.Errorf("%s: %v, expected %v", name, err, x.want)
		}
	}
	k.Length = 1 << 40
	if err := k.Check(AllowGet, 0, 1<<32); !errors.Is(err, ErrTooLong) {
		t.Errorf("4 GiB: %v, expected %v", err, ErrTooLong)
	}
}

// The word of an atomic operation is the aligned 64 bits around it. Which half a narrow word is depends on
// the order of bytes at the peer.
func TestKeyFindsWords(t *testing.T) {
	for name, x := range map[string]struct {
		big     bool
		offset  int
		narrow  bool
		address uint64
		shift   uint8
		want    error
	}{
		"64 bits":                        {false, 4, false, 0x1008, 0, nil},
		"first half, little-endian":      {false, 4, true, 0x1008, 0, nil},
		"second half, little-endian":     {false, 8, true, 0x1008, 32, nil},
		"first half, big-endian":         {true, 4, true, 0x1008, 32, nil},
		"second half, big-endian":        {true, 8, true, 0x1008, 0, nil},
		"64 bits, not aligned":           {false, 0, false, 0, 0, ErrAlignment},
		"32 bits, not aligned":           {false, 6, true, 0, 0, ErrAlignment},
		"64 bits begin before":           {false, 0, true, 0, 0, ErrBounds},
		"64 bits end behind":             {false, 12, true, 0, 0, ErrBounds},
		"beyond the end":                 {false, 12, false, 0, 0, ErrBounds},
		"beyond the end and not aligned": {false, 17, false, 0, 0, ErrBounds},
	} {
		k := Key{Rights: AllowAtomic, BigEndian: x.big, Address: 0x1004, Length: 16}
		address, shift, err := k.Word(x.offset, x.narrow)
		if address != x.address || shift != x.shift || !errors.Is(err, x.want) {
			t.Errorf("%s: %#x, shifted by %d, %v, expected %#x, %d, %v", name, address, shift, err, x.address, x.shift, x.want)
		}
	}
	k := Key{Rights: AllowGet, Address: 0x1000, Length: 16}
	if _, _, err := k.Word(0, false); !errors.Is(err, ErrRights) {
		t.Errorf("without the right: %v, expected %v", err, ErrRights)
	}
}
