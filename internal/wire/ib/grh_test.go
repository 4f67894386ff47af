package ib

import (
	"bytes"
	"encoding/hex"
	"testing"
)

func TestGRHPutAndParse(t *testing.T) {
	want, err := hex.DecodeString("6b2abcde" + "0400" + "1b" + "3f" +
		"fe800000000000000202c9fffe012345" + "00000000000000000000ffff0a000002")
	if err != nil {
		t.Fatal(err)
	}
	h := GRH{TrafficClass: 0xb2, FlowLabel: 0xabcde, PayLen: 1024, NextHeader: NextBTH, HopLimit: 63}
	copy(h.SGID[:], want[8:])
	copy(h.DGID[:], want[24:])
	var b [GRHLen]byte
	h.Put(b[:])
	if !bytes.Equal(b[:], want) {
		t.Errorf("header %x, expected %x", b, want)
	}
	var back GRH
	if !back.Parse(want) || back != h {
		t.Errorf("parsed %+v, expected %+v", back, h)
	}
}

func TestGRHParseRefusesShortAndOtherVersions(t *testing.T) {
	var b [GRHLen]byte
	(&GRH{}).Put(b[:])
	var h GRH
	for n := range GRHLen {
		if h.Parse(b[:n]) {
			t.Errorf("%d bytes hold a header", n)
		}
	}
	b[0] = 4 << 4
	if h.Parse(b[:]) {
		t.Error("version 4 was taken")
	}
}
