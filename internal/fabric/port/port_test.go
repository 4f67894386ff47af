package port

import (
	"slices"
	"testing"
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

var linkQDR4x = hardware.Link{Width: smp.Width4x, Speed: smp.SpeedQDR}

// newPort is an active port without a peer, with all lanes in operation, and what it drops.
func newPort(c Config) (*Port, *[]reason.Detail) {
	drops := new([]reason.Detail)
	env := &Env{Pool: new(Pool), Dropped: func(_ int, d reason.Detail) { *drops = append(*drops, d) }}
	p := New(env, c)
	p.Connect(0, linkQDR4x)
	p.Configure(0, &hardware.PortConfig{MTU: 4096, VLs: MaxVLs, HOQLife: hardware.Unlimited})
	p.Command(0, hardware.LinkArm)
	p.Command(0, hardware.LinkActivate)
	return p, drops
}

// packet is a datagram on a lane.
func packet(vl uint8, size int) []byte {
	return ib.AppendNative(nil, ib.LRH{VL: vl, SL: vl, Next: ib.LocalBTH, DLID: 1, SLID: 2}, nil,
		&ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: 0xffff}, Payload: make([]byte, size)})
}

func queued(p *Port, vl uint8, size int) {
	k, _ := p.env.Pool.Own(packet(vl, size))
	k.VL = vl
	p.Send(0, k)
}

// grantAll gives the port as much credit as there can be.
func grantAll(p *Port) {
	c := p.flow.(*credits)
	for i := range c.lanes {
		c.lanes[i].limit = c.lanes[i].sent.Add(MaxBuffer)
	}
}

// next returns the lane of the next packet, after link packets.
func next(t *testing.T, p *Port) uint8 {
	t.Helper()
	for {
		frame := p.Next(max(p.busy, 0))
		switch {
		case frame == nil:
			t.Fatal("no packet leaves")
		case len(frame) > ib.FlowControlLen:
			return frame[0] >> 4
		}
	}
}

func TestArbitrationSharesByWeight(t *testing.T) {
	p, _ := newPort(Config{VLs: 4, Refresh: Never})
	for half := smp.ArbitrationLow; half <= smp.ArbitrationLowUpper; half++ {
		p.SetArbitration(half, &smp.VLArbitration{})
	}
	p.SetArbitration(smp.ArbitrationLow, &smp.VLArbitration{{VL: 0, Weight: 60}, {VL: 2, Weight: 20}, {VL: 1, Weight: 20}})
	count := map[uint8]int{}
	for range 1000 {
		for vl := range uint8(3) {
			if p.Queued(vl) == 0 {
				queued(p, vl, 600) // 11 blocks
			}
		}
		grantAll(p)
		count[next(t, p)]++
	}
	// A turn of weight 60 begins 6 packets of 11 blocks, one of weight 20 begins 2.
	if count[0] < 590 || count[0] > 610 || count[1] < 195 || count[2] < 195 {
		t.Errorf("packets of each lane: %v, expected 600, 200 and 200", count)
	}
}

func TestArbitrationHighLimit(t *testing.T) {
	for _, c := range []struct {
		limit uint8
		low   int // packets of the low table among 110
	}{{0, 55}, {1, 10}, {255, 0}} {
		p, _ := newPort(Config{VLs: 2, Refresh: Never})
		config := *p.Config()
		config.HighLimit = c.limit
		p.Configure(0, &config)
		p.SetArbitration(smp.ArbitrationLow, &smp.VLArbitration{{VL: 0, Weight: 1}})
		p.SetArbitration(smp.ArbitrationHigh, &smp.VLArbitration{{VL: 1, Weight: 255}})
		low := 0
		for range 110 {
			for vl := range uint8(2) {
				if p.Queued(vl) == 0 {
					queued(p, vl, 360) // 7 blocks: ten packets are more than 4,096 bytes
				}
			}
			grantAll(p)
			if next(t, p) == 0 {
				low++
			}
		}
		if low != c.low {
			t.Errorf("limit %d: %d of 110 packets of the low table, expected %d", c.limit, low, c.low)
		}
	}
}

func TestPacketWaitsForCredit(t *testing.T) {
	p, _ := newPort(Config{VLs: 1, Refresh: Never})
	for p.buffer.tell != 0 {
		p.Next(p.busy)
	}
	queued(p, 0, 1000) // 17 blocks
	if p.Next(p.busy) != nil {
		t.Fatal("packet left without credit")
	}
	grant := func(limit ib.Blocks) {
		b := make([]byte, ib.FlowControlLen)
		(&ib.FlowControl{Limit: limit}).Put(b)
		p.Receive(p.busy, b)
	}
	if grant(16); p.Next(p.busy) != nil {
		t.Fatal("packet of 17 blocks left with credit for 16")
	}
	if p.env.Schedule.Deadline() != Never {
		t.Errorf("deadline %v while only credit is missing", p.env.Schedule.Deadline())
	}
	if grant(17); p.Next(p.busy) == nil {
		t.Fatal("packet of 17 blocks did not leave with credit for 17")
	}
	if p.Counters.XmitPackets != 1 || 4*p.Counters.XmitData != uint64(len(packet(0, 1000))-ib.VCRCLen) {
		t.Errorf("counted %d packets, %d words", p.Counters.XmitPackets, p.Counters.XmitData)
	}
}

func TestCreditCountsWrap(t *testing.T) {
	c := credits{lanes: []account{{sent: 4090, limit: 4}, {sent: 5, limit: 4}}}
	if !c.room(0, 10) || c.room(0, 11) {
		t.Error("from 4090 to 4 there are 10 blocks")
	}
	if c.room(1, 1) {
		t.Error("a limit behind the count is no credit")
	}
}

func TestGrantsRepeatAtTheInterval(t *testing.T) {
	p, _ := newPort(Config{VLs: 1})
	for p.buffer.tell != 0 {
		p.Next(p.busy)
	}
	// 65,536 symbols of 1 ns at most (IBTA 7.9.4).
	for range 5 {
		before := p.busy
		at := p.env.Schedule.Deadline()
		if at-before > 65536*time.Nanosecond {
			t.Fatalf("next grant after %v", at-before)
		}
		var f ib.FlowControl
		if frame := p.Next(at); !f.Parse(frame) || f.Op != ib.FlowNormal || f.Limit != defaultSize {
			t.Fatalf("frame % x at %v, expected a grant of the whole buffer", frame, at)
		}
	}
}

func TestReceiveRefusesByName(t *testing.T) {
	// crc makes the CRC right again.
	crc := func(b []byte) []byte { ib.PutVCRC(b); return b }
	set := func(at int, to byte) []byte {
		b := packet(0, 64)
		b[at] = to
		return crc(b)
	}
	for _, c := range []struct {
		name   string
		frame  []byte
		config hardware.PortConfig
		want   reason.Reason
	}{
		{"short", make([]byte, 21), hardware.PortConfig{}, reason.FabricLength},
		{"VCRC", append(packet(0, 64)[:10], make([]byte, 80)...), hardware.PortConfig{}, reason.FabricVCRC},
		{"version", set(0, 0x01), hardware.PortConfig{}, reason.FabricVersion},
		{"length", set(5, 9), hardware.PortConfig{}, reason.FabricLength},
		{"lane", set(0, 0x50), hardware.PortConfig{VLs: 5}, reason.FabricVL},
		{"raw on lane 15", crc(append([]byte{0xf0, 0, 0, 1, 0, 5}, make([]byte, 16)...)), hardware.PortConfig{}, reason.FabricManagementVL},
		{"LID 0", set(3, 0), hardware.PortConfig{}, reason.FabricDLID},
		{"raw", set(1, 0), hardware.PortConfig{FilterRawInbound: true}, reason.FabricRaw},
		{"link packet", append(crc([]byte{0x20, 0, 0, 0, 0, 0})[:6:6], []byte{}...), hardware.PortConfig{}, reason.FabricLinkPacket},
		{"link packet's CRC", make([]byte, 6), hardware.PortConfig{}, reason.FabricVCRC},
	} {
		p, drops := newPort(Config{VLs: 8})
		c.config.MTU, c.config.HOQLife = 4096, hardware.Unlimited
		if c.config.VLs == 0 {
			c.config.VLs = 8
		}
		p.Configure(0, &c.config)
		if k := p.Receive(0, c.frame); k != nil || len(*drops) != 1 || (*drops)[0].Reason != c.want {
			t.Errorf("%s: dropped %v, expected %v", c.name, *drops, c.want)
		}
		if p.Buffered(0) != 0 {
			t.Errorf("%s: %d blocks in use", c.name, p.Buffered(0))
		}
		// The sender has used credits for it, which come back.
		var h ib.LRH
		counted := len(c.frame) > ib.FlowControlLen && h.Parse(c.frame) && h.VL < 8 && c.want != reason.FabricVCRC && c.name != "short"
		if got := p.flow.(*credits).lanes[h.VL&7].received; (got != 0) != counted {
			t.Errorf("%s: %d blocks counted", c.name, got)
		}
	}
}

func TestOverrunIsCounted(t *testing.T) {
	p, drops := newPort(Config{VLs: 1, Buffer: minBuffer})
	for range minBuffer / 17 {
		if p.Receive(0, packet(0, 1000)) == nil {
			t.Fatalf("dropped %v", *drops)
		}
	}
	if p.Receive(0, packet(0, 1000)) != nil || p.Counters.ExcessiveBufferOverruns != 1 || (*drops)[0].Reason != reason.FabricOverrun {
		t.Errorf("dropped %v", *drops)
	}
}

// A packet of the lower 15 bits of an entry matches if one of the two is a full member.
func TestMarksOfCongestionAreCountedBySL(t *testing.T) {
	p, _ := newPort(Config{VLs: MaxVLs, Refresh: Never})
	for i, b := range []ib.BTH{{}, {FECN: true}, {BECN: true}, {FECN: true, BECN: true}} {
		b.Opcode, b.PKey = ib.RCSendOnly, 0xffff
		for _, grh := range []*ib.GRH{nil, {HopLimit: 1}} {
			lrh := ib.LRH{VL: 0, SL: uint8(i), Next: ib.LocalBTH, DLID: 1, SLID: 2}
			if grh != nil {
				lrh.Next = ib.GlobalGRH
			}
			if k := p.Receive(0, ib.AppendNative(nil, lrh, grh, &ib.Packet{BTH: b, Payload: make([]byte, 8)})); k == nil {
				t.Fatalf("packet %d is dropped", i)
			}
		}
	}
	want := hardware.Marks{FECN: 4, BECN: 4, SLFECN: [16]uint64{1: 2, 3: 2}, SLBECN: [16]uint64{2: 2, 3: 2}}
	if found := *p.Counters.Marks(); found != want {
		t.Errorf("found %+v, expected %+v", found, want)
	}
}

func TestPartitionMatchesIfOneSideIsFull(t *testing.T) {
	p, _ := newPort(Config{})
	p.SetPartitions([]uint16{0x8001, 0x0002, 0})
	for key, want := range map[uint16]bool{0x8001: true, 0x0001: true, 0x8002: true, 0x0002: false, 0x8003: false, 0x8000: false} {
		k := &Packet{LRH: ib.LRH{Next: ib.LocalBTH}, Data: packet(0, 8)}
		k.Data[ib.LRHLen+2], k.Data[ib.LRHLen+3] = byte(key>>8), byte(key)
		if _, ok := p.partitions.match(k); ok != want {
			t.Errorf("P_Key %#04x matches: %v, expected %v", key, ok, want)
		}
	}
}

func TestManagementLaneHasNoCreditAndDrops(t *testing.T) {
	p, drops := newPort(Config{Management: 2, Refresh: Never})
	for range 3 {
		queued(p, ib.ManagementVL, 256)
	}
	if len(*drops) != 1 || (*drops)[0].Reason != reason.FabricManagementFull || p.Counters.VL15Dropped != 1 {
		t.Errorf("dropped %v", *drops)
	}
	queued(p, 0, 8)
	grantAll(p)
	if first, second, third := next(t, p), next(t, p), next(t, p); first != 15 || second != 15 || third != 0 {
		t.Errorf("lanes %d, %d, %d leave, expected 15 first", first, second, third)
	}
	for i := range 3 {
		if k := p.Receive(0, packet(ib.ManagementVL, 256)); (k != nil) != (i < 2) {
			t.Errorf("packet %d taken: %v", i, k != nil)
		}
	}
}

func TestCommandsFollowTheStates(t *testing.T) {
	p := New(&Env{Pool: new(Pool)}, Config{})
	try := func(c hardware.LinkCommand, ok bool, s smp.PortState, f smp.PhysicalState) {
		t.Helper()
		if got := p.Command(0, c); got != ok || p.Link().State != s || p.Link().Physical != f {
			t.Errorf("%v: %v, %v and %v; expected %v, %v and %v", c, got, p.Link().State, p.Link().Physical, ok, s, f)
		}
	}
	try(hardware.LinkArm, false, smp.PortDown, smp.PhysicalPolling)
	p.Connect(0, linkQDR4x)
	try(hardware.LinkActivate, false, smp.PortInit, smp.PhysicalLinkUp)
	try(hardware.LinkArm, true, smp.PortArmed, smp.PhysicalLinkUp)
	try(hardware.LinkActivate, true, smp.PortActive, smp.PhysicalLinkUp)
	try(hardware.LinkArm, false, smp.PortActive, smp.PhysicalLinkUp)
	try(hardware.LinkDown, true, smp.PortDown, smp.PhysicalPolling)
	try(hardware.LinkDisable, true, smp.PortDown, smp.PhysicalDisabled)
	try(hardware.LinkDown, false, smp.PortDown, smp.PhysicalDisabled)
	p.Connect(0, linkQDR4x) // a disabled port does not train
	try(hardware.LinkPoll, true, smp.PortDown, smp.PhysicalPolling)
	if p.Counters.LinkDowned != 1 {
		t.Errorf("link counted as down %d times, expected once", p.Counters.LinkDowned)
	}
}

func TestNegotiateTakesTheFastestOfBoth(t *testing.T) {
	all := hardware.Link{Width: smp.Width1x | smp.Width2x | smp.Width4x, Speed: 7, ExtSpeed: 15}
	any := hardware.PortConfig{Width: smp.WidthAsSupported, Speed: smp.SpeedAsSupported, ExtSpeed: smp.ExtSpeedAsSupported}
	slow := hardware.PortConfig{Width: smp.Width1x | smp.Width2x, Speed: smp.SpeedSDR | smp.SpeedDDR, ExtSpeed: smp.ExtSpeedNone}
	for _, c := range []struct {
		b    hardware.PortConfig
		want hardware.Link
		ok   bool
	}{
		{any, hardware.Link{Width: smp.Width4x, Speed: smp.SpeedQDR, ExtSpeed: smp.ExtSpeedNDR}, true},
		{slow, hardware.Link{Width: smp.Width2x, Speed: smp.SpeedDDR}, true},
		{hardware.PortConfig{Width: smp.Width12x, Speed: smp.SpeedSDR, ExtSpeed: smp.ExtSpeedNone}, hardware.Link{}, false},
	} {
		if got, ok := Negotiate(&any, &c.b, all); got != c.want || ok != c.ok {
			t.Errorf("%+v %v, expected %+v %v", got, ok, c.want, c.ok)
		}
	}
}

func TestPacketTimeIsTheLinks(t *testing.T) {
	for _, c := range []struct {
		link hardware.Link
		want time.Duration // of 4,096 bytes
	}{
		{hardware.Link{Width: smp.Width1x, Speed: smp.SpeedSDR}, 4098 * 4},
		{hardware.Link{Width: smp.Width4x, Speed: smp.SpeedQDR}, 1025},
		{hardware.Link{Width: smp.Width4x, Speed: smp.SpeedQDR, ExtSpeed: smp.ExtSpeedNDR}, 78}, // 19 ps a byte
	} {
		p := New(&Env{Pool: new(Pool)}, Config{})
		p.Connect(0, c.link)
		if got := p.Duration(4096); got != c.want {
			t.Errorf("%+v: %v, expected %v", c.link, got, c.want)
		}
	}
}

func TestScheduleKeepsTheEarliest(t *testing.T) {
	var s Schedule
	timers := make([]Timer, 50)
	at := map[*Timer]time.Duration{}
	for step := range 2000 {
		tm := &timers[step*7919%len(timers)]
		d := time.Duration(step * 104729 % 1000)
		if d < 100 {
			d = Never
		}
		s.Set(tm, d)
		at[tm] = d
		var all []time.Duration
		for _, d := range at {
			all = append(all, d)
		}
		if want := slices.Min(all); s.Deadline() != want {
			t.Fatalf("step %d: deadline %d, expected %d", step, s.Deadline(), want)
		}
	}
}

func FuzzReceive(f *testing.F) {
	f.Add(packet(0, 64))
	f.Add(packet(ib.ManagementVL, 256))
	f.Add([]byte{0, 1, 0, 80, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > ib.MaxNativeLen {
			return
		}
		p, _ := newPort(Config{VLs: 4})
		p.Configure(0, &hardware.PortConfig{VLs: 4, MTU: 4096, EnforceInbound: true, HOQLife: hardware.Unlimited})
		if len(b) >= ib.VCRCLen {
			ib.PutVCRC(b)
		}
		if k := p.Receive(0, b); k != nil {
			p.env.Pool.Free(1, k)
		}
		for i := range uint8(4) {
			if p.Buffered(i) != 0 {
				t.Fatalf("%d blocks of lane %d in use", p.Buffered(i), i)
			}
		}
		for range 10 {
			p.Next(max(1, p.busy))
		}
	})
}

// Without flow control packets leave at once, no link packets leave, and a full buffer drops.
func TestPortWithoutFlowControlSendsAtOnceAndDropsOverruns(t *testing.T) {
	p, drops := newPort(Config{VLs: 1, Buffer: minBuffer, Flow: NoFlow})
	if frame := p.Next(p.busy); frame != nil {
		t.Fatalf("%d bytes leave an idle port", len(frame))
	}
	queued(p, 0, 1000)
	if p.Next(p.busy) == nil {
		t.Fatal("a packet waits")
	}
	if p.env.Schedule.Deadline() > p.busy {
		t.Errorf("deadline %v, expected the end of the packet at %v", p.env.Schedule.Deadline(), p.busy)
	}
	p.Next(p.busy)
	if at := p.env.Schedule.Deadline(); at != Never {
		t.Errorf("deadline %v of an idle port", at)
	}
	for range minBuffer / 17 {
		if p.Receive(0, packet(0, 1000)) == nil {
			t.Fatalf("dropped %v", *drops)
		}
	}
	if p.Receive(0, packet(0, 1000)) != nil || len(*drops) != 1 || (*drops)[0].Reason != reason.FabricBufferFull {
		t.Errorf("dropped %v, expected FABRIC_BUFFER_FULL", *drops)
	}
	if c := &p.Counters; c.BufferOverruns != 1 || c.ExcessiveBufferOverruns != 0 || c.RcvErrors != 0 || c.FlowXmit != 0 {
		t.Errorf("%d overruns, %d excessive, %d errors, %d link packets", c.BufferOverruns, c.ExcessiveBufferOverruns, c.RcvErrors, c.FlowXmit)
	}
}
