package perf

import (
	"encoding/binary"
	"math/bits"
	"testing"

	"softrdma/internal/wire/mad"
)

var attributes = []mad.AttributeID{AttrPortCounters, AttrPortCountersExtended, AttrRcvErrorDetails, AttrXmitDiscardDetails,
	AttrOpReceived, AttrVLOpPackets, AttrVLOpData,
	AttrFlowControl, AttrVLFlowControlErrors, AttrXmitDataSL, AttrRcvDataSL, AttrVLXmitWait, AttrRcvCongestion, AttrRcvFECNSL, AttrRcvBECNSL}

// TestCountersHaveBitsOfTheirOwn fills each counter separately.
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

// TestSamplesKeepTheirFields compares with the places that libibmad reads.
func TestSamplesKeepTheirFields(t *testing.T) {
	c := SamplesControl{Port: 3, Tick: 249, Width: CounterWidth32, Mechanisms: 7, Status: SampleRunning, Start: 0x11121314, Interval: 0x21222324, Tag: 0x3132,
		Select: [SampleCounters]Quantity{SampleXmitData, SampleRcvData, SampleXmitPackets, SampleRcvPackets, SampleXmitWait}}
	var b [DataLen]byte
	c.Put(&b)
	for at, want := range map[int]byte{1: 3, 2: 249, 3: 4, 10: 7, 11: 2, 28: 0x11, 32: 0x21, 36: 0x31, 39: 1, 41: 2, 47: 5, 49: 0} {
		if b[at] != want {
			t.Errorf("byte %d is %#x, expected %#x", at, b[at], want)
		}
	}
	if mask := binary.BigEndian.Uint32(b[4:]); mask != 0b001_001_001_001_001<<15 {
		t.Errorf("CounterMask %#x", mask)
	}
	var back SamplesControl
	if back.Parse(&b); back != c {
		t.Errorf("%+v, expected %+v", back, c)
	}
	r, same := SamplesResult{Tag: 5, Status: SampleStarted, Counters: [SampleCounters]uint32{1, 2, 3, 4, 1 << 31}}, SamplesResult{}
	r.Put(&b)
	if same.Parse(&b); same != r || b[1] != 5 || b[3] != 1 || b[7] != 1 || b[20] != 0x80 {
		t.Errorf("%+v, %x", same, b[:24])
	}
}
