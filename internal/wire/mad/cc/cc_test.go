package cc

import (
	"encoding/binary"
	"testing"

	"softrdma/internal/wire/mad"
)

func TestFieldsLieWhereTheToolsReadThem(t *testing.T) {
	var d [mad.Len]byte
	SetKey(&d, 0x1122334455667788)
	if Key(&d) != 0x1122334455667788 || d[24] != 0x11 {
		t.Errorf("key: %x", d[24:32])
	}
	b := Data(&d)
	c := Congestion{Info: 0x0102, TableCap: 3}
	c.Put(b)
	var backCongestion Congestion
	if backCongestion.Parse(b); backCongestion != c || d[66] != 3 {
		t.Errorf("%x: %+v", d[64:68], backCongestion)
	}
	k := KeyInfo{Key: 5, Protect: true, LeasePeriod: 6, Violations: 7}
	k.Put(b)
	var back KeyInfo
	if back.Parse(b); back != k || d[72] != 0x80 || d[75] != 6 || d[77] != 7 {
		t.Errorf("%x: %+v", d[64:80], back)
	}
	for logType, at := range map[uint8]int{LogSwitch: 36, LogAdapter: 40} {
		PutEmptyLog(&d, logType, 0xabcdef01)
		if d[32] != logType || binary.BigEndian.Uint32(d[at:]) != 0xabcdef01 {
			t.Errorf("log of type %d: %x", logType, d[32:48])
		}
	}
}

func TestSettingsFitTheDatagram(t *testing.T) {
	for a := mad.AttributeID(0); a < 0x30; a++ {
		if n := SettingLen(a); n > DataLen {
			t.Errorf("attribute %#x has %d bytes", uint16(a), n)
		}
	}
}
