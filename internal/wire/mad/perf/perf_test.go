package perf

import (
	"encoding/binary"
	"math/bits"
	"testing"

	"softrdma/internal/wire/mad"
)

var attributes = []mad.AttributeID{AttrPortCounters, AttrPortCountersExtended, AttrRcvErrorDetails, AttrXmitDiscardDetails,
	AttrXmitDataSL, AttrRcvDataSL, AttrVLXmitWait}

// TestCountersHaveBitsOfTheirOwn fills each counter alone.
func TestCountersHaveBitsOfTheirOwn(t *testing.T) {
	for _, a := range attributes {
		for _, c := range Counters(a) {
			var b [DataLen]byte
			c.Put(&b, 1<<63)
			if c.Bits == 64 {
				c.Put(&b, 1<<64-1)
			}
			ones := 0
			for i := 0; i < DataLen; i += 8 {
				ones += bits.OnesCount64(binary.BigEndian.Uint64(b[i:]))
			}
			if ones != c.Bits || c.Get(&b) != c.Max() {
				t.Errorf("%s has %d bits, value %#x", c.Name, ones, c.Get(&b))
			}
			SetCounterSelect(a, &b, 0)
			if got := c.Get(&b); got != c.Max() {
				t.Errorf("%s overlaps CounterSelect", c.Name)
			}
			for _, other := range Counters(a) {
				if other != c && other.Get(&b) != 0 {
					t.Errorf("%s overlaps %s", c.Name, other.Name)
				}
			}
			c.Put(&b, 0)
			if c.Get(&b) != 0 {
				t.Errorf("%s is not overwritten", c.Name)
			}
		}
	}
}

func TestCounterSelectReachesTheSeventeenth(t *testing.T) {
	var b [DataLen]byte
	SetCounterSelect(AttrPortCounters, &b, 1<<16|5)
	if b[3] != 5 || b[18] != 1 || CounterSelect(AttrPortCounters, &b) != 1<<16|5 || CounterSelect(AttrPortCountersExtended, &b) != 5 {
		t.Errorf("%x", b[:20])
	}
}
