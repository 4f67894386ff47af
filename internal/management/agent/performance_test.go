package agent

import (
	"testing"
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/perf"
)

// count sends a packet of performance management and returns the answer's data.
func count(t *testing.T, a *Agent, method uint8, id mad.AttributeID, port uint8, selected uint32) (data *[perf.DataLen]byte, status uint16) {
	t.Helper()
	h := mad.Header{BaseVersion: 1, Class: mad.ClassPerformance, ClassVersion: 1, Method: method, TID: 3, Attribute: id}
	var b [mad.Len]byte
	h.Put(&b)
	data = (*[perf.DataLen]byte)(b[perf.DataAt:])
	perf.SetPortSelect(data, port)
	perf.SetCounterSelect(id, data, selected)
	var out Departure
	o := a.Receive(0, &Arrival{Port: 1, SLID: 7, DLID: 3, QPN: 1, SourceQPN: 1, PKey: 0xffff, MAD: &b}, &out)
	h.Parse(&out.MAD)
	if o != Send || out.DLID != 7 || out.SLID != 3 || out.QPN != 1 || out.QKey != mad.GSIQKey || h.Method != mad.MethodGetResponse || h.TID != 3 {
		t.Fatalf("%v, %+v", o, h)
	}
	return (*[perf.DataLen]byte)(out.MAD[perf.DataAt:]), h.Status
}

func value(t *testing.T, a *Agent, id mad.AttributeID, port uint8, name string) uint64 {
	t.Helper()
	data, status := count(t, a, mad.MethodGet, id, port, 0)
	for _, c := range perf.Counters(id) {
		if c.Name == name {
			if status != 0 || perf.PortSelect(data) != port {
				t.Fatalf("%s: status %#x, port %d", name, status, perf.PortSelect(data))
			}
			return c.Get(data)
		}
	}
	t.Fatalf("no counter %s", name)
	return 0
}

func TestCountersSaturateAndClearApart(t *testing.T) {
	b := newBoard(2)
	a := New(switchConfig(2), b)
	b.counters[1] = hardware.Counters{XmitData: 1 << 40, SymbolErrors: 70000, LinkDowned: 300, LocalLinkIntegrityErrors: 20, XmitWait: 5, UnicastXmit: 9}
	for _, c := range []struct {
		id   mad.AttributeID
		name string
		want uint64
	}{
		{perf.AttrPortCounters, "PortXmitData", 1<<32 - 1}, {perf.AttrPortCounters, "SymbolErrorCounter", 65535},
		{perf.AttrPortCounters, "LinkDownedCounter", 255}, {perf.AttrPortCounters, "LocalLinkIntegrityErrors", 15},
		{perf.AttrPortCounters, "PortXmitWait", 5}, {perf.AttrPortCountersExtended, "PortXmitData", 1 << 40},
		{perf.AttrPortCountersExtended, "PortUnicastXmitPkts", 9},
	} {
		if got := value(t, a, c.id, 1, c.name); got != c.want {
			t.Errorf("%s is %d, expected %d", c.name, got, c.want)
		}
	}
	count(t, a, mad.MethodSet, perf.AttrPortCounters, 1, 1<<12|1<<16)
	b.counters[1].XmitData += 7
	for _, c := range []struct {
		id   mad.AttributeID
		name string
		want uint64
	}{
		{perf.AttrPortCounters, "PortXmitData", 7}, {perf.AttrPortCounters, "PortXmitWait", 0},
		{perf.AttrPortCounters, "SymbolErrorCounter", 65535}, {perf.AttrPortCountersExtended, "PortXmitData", 1<<40 + 7},
	} {
		if got := value(t, a, c.id, 1, c.name); got != c.want {
			t.Errorf("after the Set %s is %d, expected %d", c.name, got, c.want)
		}
	}
	if b.counters[1].XmitData != 1<<40+7 {
		t.Error("a Set changed the node's own counters")
	}
}

func TestCountersOfAllPorts(t *testing.T) {
	b := newBoard(2)
	a := New(switchConfig(2), b)
	b.counters[1].XmitPackets, b.counters[2].XmitPackets = 3, 4
	b.counters[1].SLXmitData[15], b.counters[2].SLXmitData[15] = 10, 20
	if got := value(t, a, perf.AttrPortCountersExtended, perf.AllPorts, "PortXmitPkts"); got != 7 {
		t.Errorf("%d packets, expected 7", got)
	}
	if got := value(t, a, perf.AttrXmitDataSL, perf.AllPorts, "XmtDataSL15"); got != 30 {
		t.Errorf("%d words of SL 15, expected 30", got)
	}
	count(t, a, mad.MethodSet, perf.AttrPortCountersExtended, perf.AllPorts, 0xff)
	if got := value(t, a, perf.AttrPortCountersExtended, perf.AllPorts, "PortXmitPkts"); got != 0 {
		t.Errorf("%d packets after the Set, expected 0", got)
	}
}

func TestCountersOfCongestion(t *testing.T) {
	b := newBoard(2)
	a := New(switchConfig(2), b)
	m := b.counters[1].Marks()
	m.FECN, m.SLBECN[7] = 3, 4
	if got := value(t, a, perf.AttrRcvCongestion, 1, "PortPktRcvFECN"); got != 3 {
		t.Errorf("%d packets with FECN, expected 3", got)
	}
	count(t, a, mad.MethodSet, perf.AttrRcvBECNSL, 1, 1<<7)
	m.SLBECN[7]++
	if got := value(t, a, perf.AttrRcvBECNSL, 1, "PortSLRcvBECN7"); got != 1 {
		t.Errorf("%d packets with BECN since they were cleared, expected 1", got)
	}
}

func TestCountersThatStayZero(t *testing.T) {
	onSwitch, onAdapter := New(switchConfig(2), newBoard(2)), New(adapterConfig(1), newBoard(1))
	for _, c := range []struct {
		a    *Agent
		id   mad.AttributeID
		want uint16
	}{
		{onSwitch, perf.AttrExtendedSpeeds, mad.StatusOK}, {onAdapter, perf.AttrExtendedSpeeds, mad.StatusOK},
		{onSwitch, perf.AttrXmitCongestion, mad.StatusOK}, {onAdapter, perf.AttrVLXmitCongestion, mad.StatusOK},
		{onSwitch, perf.AttrSwitchVLCongestion, mad.StatusOK}, {onAdapter, perf.AttrSwitchVLCongestion, mad.StatusMethodAttribute},
	} {
		for _, method := range []uint8{mad.MethodSet, mad.MethodGet} {
			data, status := count(t, c.a, method, c.id, 1, 1)
			if status != c.want {
				t.Errorf("attribute %#x: status %#x, expected %#x", uint16(c.id), status, c.want)
			}
			if want := [perf.DataLen]byte{1: 1}; c.want == mad.StatusOK && *data != want {
				t.Errorf("attribute %#x: found % x, expected zeros", uint16(c.id), data[:16])
			}
		}
	}
	if _, status := count(t, onSwitch, mad.MethodGet, perf.AttrExtendedSpeeds, 9, 0); status != mad.StatusInvalid {
		t.Errorf("port 9: status %#x", status)
	}
}

func TestCountersOfAnOpcodeBeginWithItsSelection(t *testing.T) {
	b := newBoard(2)
	a := New(switchConfig(2), b)
	arrive := func(op uint8, packets int) {
		for range packets {
			b.counters[1].CountOp(op, 3, 10)
		}
	}
	check := func(id mad.AttributeID, name string, want uint64) {
		t.Helper()
		if got := value(t, a, id, 1, name); got != want {
			t.Errorf("%s is %d, expected %d", name, got, want)
		}
	}
	arrive(0, 1)
	check(perf.AttrOpReceived, "PortOpRcvPkts", 0) // ports count from the first question on
	arrive(0, 2)
	arrive(4, 5)
	check(perf.AttrOpReceived, "PortOpRcvPkts", 2)
	check(perf.AttrVLOpData, "PortVLOpData3", 20)
	var data [perf.DataLen]byte
	perf.SetOpCode(&data, 4)
	perf.SetPortSelect(&data, 1)
	answer, status := ask1(t, a, 0, mad.MethodSet, perf.AttrOpReceived, &data)
	if status != mad.StatusOK || perf.OpCode(answer) != 4 {
		t.Fatalf("status %#x, opcode %d", status, perf.OpCode(answer))
	}
	check(perf.AttrOpReceived, "PortOpRcvPkts", 0)
	arrive(4, 3)
	arrive(0, 1)
	check(perf.AttrOpReceived, "PortOpRcvPkts", 3)
	check(perf.AttrOpReceived, "PortOpRcvData", 30)
	check(perf.AttrVLOpPackets, "PortVLOpPackets3", 3)
	perf.SetCounterSelect(perf.AttrOpReceived, &data, 1)
	ask1(t, a, 0, mad.MethodSet, perf.AttrOpReceived, &data)
	check(perf.AttrOpReceived, "PortOpRcvPkts", 0)
	check(perf.AttrOpReceived, "PortOpRcvData", 30)
}

// ask1 sends a packet of performance management with data, at a time.
func ask1(t *testing.T, a *Agent, now time.Duration, method uint8, id mad.AttributeID, data *[perf.DataLen]byte) (answer *[perf.DataLen]byte, status uint16) {
	t.Helper()
	h := mad.Header{BaseVersion: 1, Class: mad.ClassPerformance, ClassVersion: 1, Method: method, TID: 3, Attribute: id}
	var b [mad.Len]byte
	h.Put(&b)
	copy(b[perf.DataAt:], data[:])
	var out Departure
	if o := a.Receive(now, &Arrival{Port: 1, SLID: 7, DLID: 3, QPN: 1, SourceQPN: 1, PKey: 0xffff, MAD: &b}, &out); o != Send {
		t.Fatalf("%v", o)
	}
	h.Parse(&out.MAD)
	return (*[perf.DataLen]byte)(out.MAD[perf.DataAt:]), h.Status
}

// TestSampleCountsWithinItsInterval: the sample waits 1 µs and takes 2 µs.
func TestSampleCountsWithinItsInterval(t *testing.T) {
	b := newBoard(2)
	a := New(switchConfig(2), b)
	b.counters[2].XmitPackets = 100
	c := perf.SamplesControl{Port: 2, Start: 250, Interval: 500, Tag: 77, Select: [perf.SampleCounters]perf.Quantity{perf.SampleXmitPackets, perf.SampleRcvData, perf.SampleNothing}}
	var data [perf.DataLen]byte
	c.Put(&data)
	start := time.Second
	set, status := ask1(t, a, start, mad.MethodSet, perf.AttrPortSamplesControl, &data)
	var got perf.SamplesControl
	if got.Parse(set); status != 0 || got.Status != perf.SampleStarted || got.Port != 2 || got.Tag != 77 || got.Interval != 500 || got.Width != perf.CounterWidth32 {
		t.Fatalf("status %#x, %+v", status, got)
	}
	if d := a.Deadline(); d != start+time.Microsecond {
		t.Fatalf("deadline %v", d)
	}
	b.counters[2].XmitPackets = 110 // before the interval
	a.Expire(start + time.Microsecond)
	b.counters[2].XmitPackets, b.counters[2].RcvData = 115, 9
	result := func(now time.Duration) (r perf.SamplesResult) {
		d, status := ask1(t, a, now, mad.MethodGet, perf.AttrPortSamplesResult, new([perf.DataLen]byte))
		if status != 0 {
			t.Fatalf("status %#x", status)
		}
		r.Parse(d)
		return r
	}
	if r := result(start + 2*time.Microsecond); r.Status != perf.SampleRunning || r.Tag != 77 {
		t.Errorf("during the sample: %+v", r)
	}
	c.Tag = 78
	c.Put(&data)
	again, _ := ask1(t, a, start+2*time.Microsecond, mad.MethodSet, perf.AttrPortSamplesControl, &data)
	if got.Parse(again); got.Tag != 77 || got.Status != perf.SampleRunning {
		t.Errorf("a Set during the sample: %+v", got)
	}
	if d := a.Deadline(); d != start+3*time.Microsecond {
		t.Errorf("deadline %v", d)
	}
	a.Expire(start + 3*time.Microsecond)
	b.counters[2].XmitPackets = 1000 // after the interval
	if r := result(start + time.Minute); r.Status != perf.SampleDone || r.Counters != [perf.SampleCounters]uint32{5, 9} {
		t.Errorf("%+v", r)
	}
	if d := a.Deadline(); d != Never {
		t.Errorf("deadline %v after the sample", d)
	}
}

func TestSampleRefusals(t *testing.T) {
	a := New(switchConfig(2), newBoard(2))
	for name, c := range map[string]perf.SamplesControl{
		"port":     {Port: 3},
		"quantity": {Port: 1, Select: [perf.SampleCounters]perf.Quantity{perf.SampleXmitWait + 1}},
	} {
		var data [perf.DataLen]byte
		c.Put(&data)
		if _, status := ask1(t, a, 0, mad.MethodSet, perf.AttrPortSamplesControl, &data); status != mad.StatusInvalid {
			t.Errorf("%s: status %#x", name, status)
		}
	}
	if _, status := ask1(t, a, 0, mad.MethodSet, perf.AttrPortSamplesResult, new([perf.DataLen]byte)); status != mad.StatusMethodAttribute {
		t.Errorf("Set of the result: status %#x", status)
	}
}

func TestPerformanceAgentSaysWhatItHas(t *testing.T) {
	a := New(adapterConfig(1), newBoard(1))
	data, status := count(t, a, mad.MethodGet, mad.AttrClassPortInfo, 0, 0)
	var c mad.ClassPortInfo
	c.Parse((*[mad.ClassPortInfoLen]byte)(data[:]))
	if status != 0 || c.ClassVersion != 1 || c.CapabilityMask != 0x1300 {
		t.Errorf("status %#x, %+v", status, c)
	}
	for _, x := range []struct {
		method uint8
		id     mad.AttributeID
		port   uint8
		status uint16
	}{
		{mad.MethodGet, perf.AttrPortCounters, 2, mad.StatusInvalid}, {mad.MethodGet, perf.AttrPortCounters, 0, mad.StatusInvalid},
		{mad.MethodGet, 0x99, 1, mad.StatusMethodAttribute}, {mad.MethodGetTable, perf.AttrPortCounters, 1, mad.StatusMethod},
		{mad.MethodSet, mad.AttrClassPortInfo, 1, mad.StatusMethodAttribute},
	} {
		if _, status := count(t, a, x.method, x.id, x.port, 0); status != x.status {
			t.Errorf("attribute %#x of port %d: status %#x, expected %#x", uint16(x.id), x.port, status, x.status)
		}
	}
}

func TestOtherClassesAreForPrograms(t *testing.T) {
	a := New(adapterConfig(1), newBoard(1))
	for class, want := range map[uint8]Outcome{mad.ClassAdministration: Local, mad.ClassCM: Local, 0x32: Local,
		mad.ClassLIDRouted: Discard, mad.ClassDirected: Discard} {
		b := [mad.Len]byte{1, class, 1, 1}
		var out Departure
		if o := a.Receive(0, &Arrival{Port: 1, QPN: 1, MAD: &b}, &out); o != want || o == Local && out.MAD != b {
			t.Errorf("class %#x: %v, expected %v", class, o, want)
		}
	}
}
