package agent

import (
	"encoding/binary"
	"testing"
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// managed returns a switch that a manager with LID 1 has configured.
func managed(t *testing.T) (*Agent, *board) {
	b := newBoard(4)
	a := New(switchConfig(4), b)
	info := portInfo(t, a, 1, 0)
	info.State, info.LID, info.MasterSMLID, info.MasterSMSL, info.SubnetTimeout = 0, 3, 1, 2, 18
	set(t, a, 1, smp.AttrPortInfo, 0, &info)
	for i := 1; i <= 4; i++ {
		a.LinkChanged(0, i)
	}
	var out Departure
	for now := time.Duration(0); a.Deadline() != Never; now += time.Minute {
		a.Trap(now, &out)
	}
	return a, b
}

func notice(t *testing.T, out *Departure) (p smp.Packet, n mad.Notice) {
	t.Helper()
	p.Parse(&out.MAD)
	n.ParseManagement(&p.Data)
	if p.Method != mad.MethodTrap || p.Attribute != mad.AttrNotice || !n.Generic {
		t.Fatalf("%+v, %+v", p, n)
	}
	return p, n
}

func TestLinkStateTrapRepeatsUntilRepressed(t *testing.T) {
	a, b := managed(t)
	start := time.Hour
	b.links[2].State = smp.PortDown
	a.LinkChanged(start, 2)
	if !a.sw.PortStateChange || a.Deadline() != start {
		t.Fatalf("PortStateChange %v, deadline %v", a.sw.PortStateChange, a.Deadline())
	}
	var out Departure
	o, ok := a.Trap(start, &out)
	p, n := notice(t, &out)
	if !ok || o != Send || out.DLID != 1 || out.SLID != 3 || out.SL != 2 || n.Number != TrapLinkState || n.IssuerLID != 3 ||
		n.Producer != mad.ProducerSwitch || binary.BigEndian.Uint16(n.Details[:]) != 3 {
		t.Errorf("%v, %v: %+v to %d", o, ok, n, out.DLID)
	}
	if _, again := a.Trap(start, &out); again || a.Deadline() != start+interval(18) {
		t.Errorf("sent again at once; deadline %v", a.Deadline())
	}
	o, ok = a.Trap(start+2*time.Second, &out)
	if q, _ := notice(t, &out); !ok || o != Send || q.TID != p.TID {
		t.Errorf("the repetition has transaction %#x, expected %#x", q.TID, p.TID)
	}
	p.Method = mad.MethodTrapRepress
	if _, _, o := ask(t, a, start+3*time.Second, 1, p); o != Discard || a.Deadline() != Never {
		t.Errorf("repressed: %v, deadline %v", o, a.Deadline())
	}
	p.TID |= 1 << 32
	if _, _, o := ask(t, a, start+4*time.Second, 1, p); o != Local {
		t.Errorf("the repress of a program's trap: %v", o)
	}
}

func TestTrapsEndWithoutARepress(t *testing.T) {
	a, b := managed(t)
	b.links[2].State = smp.PortDown
	a.LinkChanged(time.Hour, 2)
	var out Departure
	sent := 0
	for now := time.Hour; a.Deadline() != Never; now = a.Deadline() {
		if _, ok := a.Trap(now, &out); ok {
			sent++
		}
	}
	if sent != trapRepeats {
		t.Errorf("sent %d times, expected %d", sent, trapRepeats)
	}
}

func TestRepressOfAnOlderEventKeepsTheNewer(t *testing.T) {
	a := New(adapterConfig(1), newBoard(1))
	a.ends[1].lid, a.ends[1].smLID = 9, 1
	a.node.(*board).links[1].State = smp.PortActive
	var out Departure
	a.PKeyViolation(0, 1, &Violation{SLID: 4, DLID: 9, Key: 0x8001})
	a.Trap(0, &out)
	p, n := notice(t, &out)
	if n.Number != TrapPKey || binary.BigEndian.Uint16(n.Details[2:]) != 4 || binary.BigEndian.Uint32(n.Details[6:]) != 0x8001 {
		t.Errorf("%+v", n)
	}
	a.PKeyViolation(0, 1, &Violation{SLID: 5, DLID: 9, Key: 0x8002})
	p.Method = mad.MethodTrapRepress
	ask(t, a, 0, 1, p)
	if a.Deadline() == Never {
		t.Error("the newer event is lost")
	}
	if a.ends[1].pkeyViolations != 2 {
		t.Errorf("%d violations counted", a.ends[1].pkeyViolations)
	}
}

func TestTrapsOfViolations(t *testing.T) {
	a, _ := managed(t)
	v := Violation{SLID: 4, DLID: 5, SL: 3, SourceQPN: 0x10, DestinationQPN: 0x20, Key: 0x8001, Global: true, Source: mad.GID{1}, Destination: mad.GID{2}}
	a.PKeyViolation(time.Hour, 3, &v)
	var out Departure
	a.Trap(time.Hour, &out)
	_, n := notice(t, &out)
	d := n.Details
	if n.Number != TrapSwitchPKey || binary.BigEndian.Uint16(d[2:]) != 4 || binary.BigEndian.Uint16(d[6:]) != 0x8001 ||
		binary.BigEndian.Uint32(d[8:]) != 3<<28|0x10 || d[16] != 1 || d[32] != 2 || binary.BigEndian.Uint16(d[48:]) != 3 || d[50] != 3 {
		t.Errorf("trap %d: %x", n.Number, d)
	}
	if info := portInfo(t, a, 1, 3); info.PKeyViolations != 1 {
		t.Errorf("%d violations counted", info.PKeyViolations)
	}
	a.ends[0].traps = [trapKinds]trap{}
	a.ends[0].mkey = 5
	p := smp.NewDirected(mad.MethodSet, smp.AttrSwitchInfo, 0, 1, 6, []uint8{1})
	p.HopPointer = 1
	var b [mad.Len]byte
	p.Put(&b)
	if o := a.Receive(time.Hour, &Arrival{Port: 2, SLID: 0xffff, DLID: 0xffff, MAD: &b}, &out); o != Discard {
		t.Fatalf("%v", o)
	}
	a.Trap(time.Hour, &out)
	_, n = notice(t, &out)
	d = n.Details
	if n.Number != TrapMKey || d[6] != mad.MethodSet || binary.BigEndian.Uint64(d[14:]) != 6 || d[23] != 0x81 || d[24] != 2 {
		t.Errorf("trap %d: %x", n.Number, d)
	}
}

func TestTrapWaitsUntilThePortCanSend(t *testing.T) {
	b := newBoard(1)
	a := New(adapterConfig(1), b)
	a.QKeyViolation(0, 1, &Violation{Key: 5})
	a.ends[1].lid, a.ends[1].smLID, b.links[1].State = 4, 4, smp.PortActive
	if a.Deadline() != Never || a.ends[1].qkeyViolations != 1 {
		t.Error("a violation before there was a manager is reported, or not counted")
	}
	b.links[1].State = smp.PortInit
	a.QKeyViolation(0, 1, &Violation{Key: 5})
	if a.Deadline() != Never {
		t.Error("a port that is not active has something to send")
	}
	b.links[1].State = smp.PortActive
	var out Departure
	if o, ok := a.Trap(0, &out); !ok || o != Local {
		t.Errorf("to a manager at the same port: %v, %v", o, ok)
	}
}

func TestTrapsOfLinksInTroubleNameThePort(t *testing.T) {
	a, _ := managed(t)
	for e, number := range map[hardware.LinkError]uint16{hardware.LinkIntegrity: 129, hardware.BufferOverrun: 130, hardware.FlowControlUpdate: 131} {
		a.LinkFailed(time.Hour, 3, e)
		var out Departure
		o, ok := a.Trap(time.Hour, &out)
		_, n := notice(t, &out)
		if !ok || o != Send || n.Number != number || n.Type != mad.NoticeUrgent || binary.BigEndian.Uint16(n.Details[2:]) != 3 || n.Details[4] != 3 {
			t.Errorf("%v, %v: %+v", o, ok, n)
		}
	}
	a.LinkFailed(time.Hour, 9, hardware.LinkIntegrity)
	var out Departure
	if _, ok := a.Trap(time.Hour, &out); ok {
		t.Error("a trap of a port that the node does not have")
	}
}
