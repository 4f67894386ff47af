package agent

import (
	"reflect"
	"testing"
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

func TestNodeInfoNamesThePortOfArrival(t *testing.T) {
	for _, c := range []struct {
		a    *Agent
		port int
		guid uint64
	}{
		{New(switchConfig(4), newBoard(4)), 3, switchGUID},
		{New(adapterConfig(2), newBoard(2)), 2, adapterGUID + 2},
	} {
		p := get(t, c.a, c.port, smp.AttrNodeInfo, 0)
		var n smp.NodeInfo
		n.Parse(&p.Data)
		if int(n.LocalPort) != c.port || n.PortGUID != c.guid || n.Type != c.a.config.Type || int(n.NumPorts) != c.a.config.NumPorts {
			t.Errorf("%+v", n)
		}
		p = get(t, c.a, c.port, smp.AttrNodeDescription, 0)
		d := smp.NodeDescription(p.Data)
		if d.String() != c.a.config.Description {
			t.Errorf("described as %q", d.String())
		}
	}
}

// TestRefusalsHaveTheirStatus are the codes of IBTA 13.4.7.
func TestRefusalsHaveTheirStatus(t *testing.T) {
	sw, hca := New(switchConfig(4), newBoard(4)), New(adapterConfig(1), newBoard(1))
	for _, c := range []struct {
		name     string
		a        *Agent
		method   uint8
		id       mad.AttributeID
		modifier uint32
		version  uint8
		status   uint16
	}{
		{"class version", sw, mad.MethodGet, smp.AttrNodeInfo, 0, 2, mad.StatusVersion},
		{"method", sw, mad.MethodGetTable, smp.AttrNodeInfo, 0, 1, mad.StatusMethod},
		{"attribute", sw, mad.MethodGet, 0x7777, 0, 1, mad.StatusMethodAttribute},
		{"Set of NodeInfo", sw, mad.MethodSet, smp.AttrNodeInfo, 0, 1, mad.StatusMethodAttribute},
		{"SwitchInfo of an adapter", hca, mad.MethodGet, smp.AttrSwitchInfo, 0, 1, mad.StatusMethodAttribute},
		{"SMInfo without a manager", sw, mad.MethodGet, smp.AttrSMInfo, 0, 1, mad.StatusMethodAttribute},
		{"port", sw, mad.MethodGet, smp.AttrPortInfo, 5, 1, mad.StatusInvalid},
		{"extended port", sw, mad.MethodGet, smp.AttrPortInfoExtended, 5, 1, mad.StatusInvalid},
		{"extended port of a switch", sw, mad.MethodGet, smp.AttrPortInfoExtended, 1, 1, mad.StatusOK},
		{"other port of an adapter", hca, mad.MethodSet, smp.AttrPortInfo, 2, 1, mad.StatusInvalid},
		{"P_Key block", sw, mad.MethodGet, smp.AttrPKeyTable, smp.PKeyModifier(1, 2), 1, mad.StatusInvalid},
		{"SL to VL port", sw, mad.MethodGet, smp.AttrSLtoVL, smp.SLtoVLModifier(1, 5), 1, mad.StatusInvalid},
		{"arbitration half", sw, mad.MethodGet, smp.AttrVLArbitration, smp.ArbitrationModifier(5, 1), 1, mad.StatusInvalid},
		{"upper half of 8 entries", sw, mad.MethodGet, smp.AttrVLArbitration, smp.ArbitrationModifier(2, 1), 1, mad.StatusInvalid},
		{"linear block", sw, mad.MethodGet, smp.AttrLinearForwarding, 768, 1, mad.StatusInvalid},
		{"multicast block", sw, mad.MethodGet, smp.AttrMulticastForwarding, smp.MulticastModifier(0, 32), 1, mad.StatusInvalid},
		{"multicast position", sw, mad.MethodGet, smp.AttrMulticastForwarding, smp.MulticastModifier(1, 0), 1, mad.StatusInvalid},
		{"GUID block", hca, mad.MethodGet, smp.AttrGUIDInfo, 2, 1, mad.StatusInvalid},
	} {
		p := smp.NewRouted(c.method, c.id, c.modifier, 1, 0)
		p.ClassVersion = c.version
		answer, out, o := ask(t, c.a, 0, 1, p)
		if o != Send || answer.Status != c.status || answer.Method != mad.MethodGetResponse || out.DLID != 7 || out.SLID != 3 {
			t.Errorf("%s: %v, status %#x, expected %#x", c.name, o, answer.Status, c.status)
		}
	}
}

func TestTablesKeepWhatAManagerSets(t *testing.T) {
	b := newBoard(4)
	a := New(switchConfig(4), b)
	keys := smp.PKeyTable{0xffff, 0x8001}
	lanes := smp.SLtoVL{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7}
	weights := smp.VLArbitration{{VL: 1, Weight: 10}, {VL: 2, Weight: 20}}
	linear := smp.LinearForwarding{255, 0, 1, 2}
	masks := smp.MulticastForwarding{0x001f, 2}
	for _, c := range []struct {
		id       mad.AttributeID
		modifier uint32
		value    interface{ Put(*[64]byte) }
	}{
		{smp.AttrPKeyTable, smp.PKeyModifier(2, 1), &keys},
		{smp.AttrSLtoVL, smp.SLtoVLModifier(1, 2), &lanes},
		{smp.AttrVLArbitration, smp.ArbitrationModifier(smp.ArbitrationHigh, 3), &weights},
		{smp.AttrLinearForwarding, 5, &linear},
		{smp.AttrMulticastForwarding, smp.MulticastModifier(0, 3), &masks},
	} {
		answer, status := set(t, a, 1, c.id, c.modifier, c.value)
		var want [64]byte
		c.value.Put(&want)
		if status != 0 || answer.Data != want || get(t, a, 1, c.id, c.modifier).Data != want {
			t.Errorf("attribute %#x: status %#x, %x", uint16(c.id), status, answer.Data)
		}
	}
	if b.partitions[[2]int{2, 1}] != keys || b.lanes[[2]int{1, 2}] != lanes || b.weights[[2]int{3, 3}] != weights ||
		b.linear[5] != linear || b.multicast[[2]int{3, 0}] != masks {
		t.Errorf("the node has %+v", b)
	}
}

func TestSwitchInfoSetsWhatIsWritable(t *testing.T) {
	b := newBoard(4)
	a := New(switchConfig(4), b)
	a.sw.PortStateChange = true
	p := get(t, a, 1, smp.AttrSwitchInfo, 0)
	var s smp.SwitchInfo
	s.Parse(&p.Data)
	if !s.PortStateChange || s.LinearCap != 48*1024 || !s.EnhancedPort0 {
		t.Errorf("%+v", s)
	}
	s.LinearTop, s.LinearCap, s.LifeTime, s.MulticastTop = 77, 1, 18, 0xc00f
	if _, status := set(t, a, 1, smp.AttrSwitchInfo, 0, &s); status != 0 {
		t.Fatalf("status %#x", status)
	}
	if a.sw.PortStateChange || a.sw.LinearCap != 48*1024 || b.sw.LinearTop != 77 || b.sw.LifeTime != 4096*time.Nanosecond<<18 || b.sw.MulticastTop != 0xc00f {
		t.Errorf("%+v, %+v", a.sw, b.sw)
	}
	s.LinearTop = 48 * 1024
	if _, status := set(t, a, 1, smp.AttrSwitchInfo, 0, &s); status != mad.StatusInvalid || a.sw.LinearTop != 77 {
		t.Errorf("status %#x, %+v", status, a.sw)
	}
}

// TestPortStartsWithWhatItSupports: opensm resets links whose MTU or lanes it has to change.
func TestPortStartsWithWhatItSupports(t *testing.T) {
	for _, a := range []*Agent{New(adapterConfig(1), newBoard(1)), New(switchConfig(4), newBoard(4))} {
		info := portInfo(t, a, 1, 1)
		if info.NeighborMTU != info.MTUCap || info.OperationalVLs != info.VLCap || info.VLCap == 0 {
			t.Errorf("%+v", info)
		}
	}
}

// TestPortInfoBringsAPortUp sets what opensm sets of an adapter's port.
func TestPortInfoBringsAPortUp(t *testing.T) {
	b := newBoard(1)
	var events []Event
	c := adapterConfig(1)
	c.Notify = func(_ int, e Event) { events = append(events, e) }
	a := New(c, b)
	info := portInfo(t, a, 1, 0)
	if info.State != smp.PortInit || info.LID != 0 || info.GIDPrefix != defaultPrefix || info.LocalPort != 1 || info.GUIDCap != 16 {
		t.Fatalf("%+v", info)
	}
	info.LID, info.MasterSMLID, info.LMC, info.SubnetTimeout, info.ClientReregister = 4, 1, 1, 18, true
	info.NeighborMTU, info.OperationalVLs, info.HOQLife, info.VLStallCount = 4, smp.VL0to3, 18, 7
	info.State, info.Physical, info.WidthEnabled = 0, 0, smp.WidthAsSupported
	if answer, status := set(t, a, 1, smp.AttrPortInfo, 1, &info); status != 0 {
		t.Fatalf("status %#x, %+v", status, answer)
	}
	want := hardware.PortConfig{LID: 4, LMC: 1, MTU: 2048, VLs: 4, HOQLife: 4096 * time.Nanosecond << 18, StallCount: 7, PhysicalErrors: 8,
		Width: c.Width, Speed: c.Speed, ExtSpeed: c.ExtSpeed, DownDefault: smp.PhysicalPolling}
	if b.configs[1] != want {
		t.Errorf("configured %+v, expected %+v", b.configs[1], want)
	}
	if !reflect.DeepEqual(events, []Event{LIDChanged, ManagerChanged, ClientReregister}) {
		t.Errorf("events %v", events)
	}
	if info = portInfo(t, a, 1, 1); info.ClientReregister || info.LID != 4 || info.WidthEnabled != c.Width {
		t.Errorf("%+v", info)
	}
	for _, s := range []smp.PortState{smp.PortArmed, smp.PortArmed, smp.PortActive, smp.PortActive} {
		info.State, info.Physical = s, 0
		if _, status := set(t, a, 1, smp.AttrPortInfo, 1, &info); status != 0 || b.links[1].State != s {
			t.Errorf("%v: status %#x, state %v", s, status, b.links[1].State)
		}
	}
	if want := []hardware.LinkCommand{hardware.LinkArm, hardware.LinkActivate}; !reflect.DeepEqual(b.commands, want) {
		t.Errorf("commands %v, expected %v", b.commands, want)
	}
}

// TestPortInfoRefusedChangesNothing has one invalid field each.
func TestPortInfoRefusedChangesNothing(t *testing.T) {
	for name, spoil := range map[string]func(*smp.PortInfo){
		"multicast LID":            func(i *smp.PortInfo) { i.LID = 0xc000 },
		"no manager":               func(i *smp.PortInfo) { i.MasterSMLID = 0 },
		"state init":               func(i *smp.PortInfo) { i.State = smp.PortInit },
		"active without armed":     func(i *smp.PortInfo) { i.State = smp.PortActive },
		"arm and disable":          func(i *smp.PortInfo) { i.State, i.Physical = smp.PortArmed, smp.PhysicalDisabled },
		"physical training":        func(i *smp.PortInfo) { i.Physical = smp.PhysicalTraining },
		"unsupported width":        func(i *smp.PortInfo) { i.WidthEnabled = smp.Width12x },
		"reserved speed":           func(i *smp.PortInfo) { i.SpeedEnabled = 9 },
		"unsupported extended":     func(i *smp.PortInfo) { i.ExtSpeedEnabled = smp.ExtSpeedNDR },
		"MTU beyond the port's":    func(i *smp.PortInfo) { i.NeighborMTU = 6 },
		"no MTU":                   func(i *smp.PortInfo) { i.NeighborMTU = 0 },
		"lanes beyond the port's":  func(i *smp.PortInfo) { i.OperationalVLs = smp.VL0to14 },
		"default state of reserve": func(i *smp.PortInfo) { i.DownDefault = 3 },
	} {
		b := newBoard(1)
		a := New(adapterConfig(1), b)
		info := portInfo(t, a, 1, 1)
		info.State, info.Physical, info.LID, info.MasterSMLID, info.NeighborMTU = 0, 0, 9, 1, 2
		if _, status := set(t, a, 1, smp.AttrPortInfo, 1, &info); status != 0 {
			t.Fatalf("%s: a valid Set has status %#x", name, status)
		}
		before, ports, ends := b.clone(), append([]port(nil), a.ports...), append([]end(nil), a.ends...)
		info.LID, info.MKey = 10, 5
		spoil(&info)
		if _, status := set(t, a, 1, smp.AttrPortInfo, 1, &info); status != mad.StatusInvalid {
			t.Errorf("%s: status %#x", name, status)
		}
		if !reflect.DeepEqual(before, b) || !reflect.DeepEqual(ports, a.ports) || !reflect.DeepEqual(ends, a.ends) {
			t.Errorf("%s: the node changed", name)
		}
	}
}

func TestPortInfoOfASwitchSeparatesEndFromLinks(t *testing.T) {
	b := newBoard(4)
	a := New(switchConfig(4), b)
	info := portInfo(t, a, 2, 0)
	if info.State != smp.PortActive || info.LocalPort != 2 {
		t.Errorf("%+v", info)
	}
	info.State, info.LID, info.MasterSMLID = 0, 3, 1
	if _, status := set(t, a, 2, smp.AttrPortInfo, 0, &info); status != 0 {
		t.Fatalf("status %#x", status)
	}
	link := portInfo(t, a, 2, 4)
	if link.LID != 0 || link.CapabilityMask != 0 {
		t.Errorf("an external port has %+v", link)
	}
	link.State, link.Physical, link.NeighborMTU, link.EnforceInbound = 0, smp.PhysicalDisabled, 5, true
	if _, status := set(t, a, 2, smp.AttrPortInfo, 4, &link); status != 0 || b.links[4].Physical != smp.PhysicalDisabled || !b.configs[4].EnforceInbound {
		t.Errorf("status %#x, %+v, %+v", status, b.links[4], b.configs[4])
	}
	if lid, _ := a.LID(0); lid != 3 || b.configs[0].LID != 3 || b.configs[4].LID != 0 {
		t.Errorf("LID %d, %+v", lid, b.configs)
	}
}

func TestGUIDInfoKeepsTheFirst(t *testing.T) {
	a := New(adapterConfig(1), newBoard(1))
	g := smp.GUIDInfo{1, 2, 3}
	set(t, a, 1, smp.AttrGUIDInfo, 0, &g)
	if id, ok := a.GID(1, 0); !ok || id != gid(defaultPrefix, adapterGUID+1) {
		t.Errorf("GID 0 is %v", id)
	}
	if id, ok := a.GID(1, 2); !ok || id != gid(defaultPrefix, 3) {
		t.Errorf("GID 2 is %v", id)
	}
	if _, ok := a.GID(1, 4); ok {
		t.Error("GID 4 is set")
	}
}

// TestMKeyProtectionLevels is the table of IBTA 14.2.4.1.
func TestMKeyProtectionLevels(t *testing.T) {
	const key = 0x1234
	for protect, c := range []struct {
		get   Outcome
		shown uint64
	}{{Send, key}, {Send, 0}, {Discard, 0}, {Discard, 0}} {
		a := New(adapterConfig(1), newBoard(1))
		a.ends[1].mkey, a.ends[1].protect = key, uint8(protect)
		answer, _, o := ask(t, a, 0, 1, smp.NewRouted(mad.MethodGet, smp.AttrPortInfo, 1, 1, 0))
		var info smp.PortInfo
		info.Parse(&answer.Data)
		if o != c.get || info.MKey != c.shown {
			t.Errorf("level %d: Get without the key: %v, M_Key %#x", protect, o, info.MKey)
		}
		p := smp.NewRouted(mad.MethodSet, smp.AttrPortInfo, 1, 1, key+1)
		_, out, o := ask(t, a, 0, 1, p)
		if o != Discard || out.Reason.Reason != reason.SMPManagementKey {
			t.Errorf("level %d: Set with a wrong key: %v, %v", protect, o, out.Reason)
		}
		answer, _, o = ask(t, a, 0, 1, smp.NewRouted(mad.MethodGet, smp.AttrPortInfo, 1, 1, key))
		info.Parse(&answer.Data)
		if o != Send || info.MKey != key || info.MKeyViolations == 0 {
			t.Errorf("level %d: Get with the key: %v, %+v", protect, o, info)
		}
	}
}

// The answer to the Set of a key has the key, whatever the level.
func TestMKeyIsInTheAnswerToItsSet(t *testing.T) {
	a := New(adapterConfig(1), newBoard(1))
	info := portInfo(t, a, 1, 1)
	info.State, info.Physical, info.LID, info.MasterSMLID = 0, 0, 3, 1
	info.MKey, info.MKeyProtect = 0x1234, 2
	p := smp.NewRouted(mad.MethodSet, smp.AttrPortInfo, 1, 1, 0)
	info.Put(&p.Data)
	answer, _, o := ask(t, a, 0, 1, p)
	info.Parse(&answer.Data)
	if o != Send || answer.Status != 0 || info.MKey != 0x1234 || info.MKeyProtect != 2 {
		t.Errorf("%v, status %#x: M_Key %#x, level %d", o, answer.Status, info.MKey, info.MKeyProtect)
	}
}

func TestMKeyLeaseEndsProtection(t *testing.T) {
	wrong := smp.NewRouted(mad.MethodGet, smp.AttrNodeInfo, 0, 1, 1)
	right := smp.NewRouted(mad.MethodGet, smp.AttrNodeInfo, 0, 1, 5)
	a := New(adapterConfig(1), newBoard(1))
	a.ends[1].mkey, a.ends[1].protect, a.ends[1].leasePeriod = 5, 2, 10
	ask(t, a, 0, 1, wrong)
	ask(t, a, 5*time.Second, 1, right) // renews the lease
	if _, _, o := ask(t, a, 11*time.Second, 1, wrong); o != Discard {
		t.Errorf("%v after the lease was renewed", o)
	}
	if _, _, o := ask(t, a, 20*time.Second, 1, wrong); o != Discard {
		t.Errorf("%v before the lease's end: a second violation extends it", o)
	}
	if _, _, o := ask(t, a, 21*time.Second, 1, wrong); o != Send {
		t.Errorf("%v after the lease's end", o)
	}
	set := smp.NewRouted(mad.MethodSet, smp.AttrPortInfo, 1, 1, 1)
	if _, _, o := ask(t, a, 22*time.Second, 1, set); o != Discard {
		t.Errorf("%v: a Set needs the key in spite of the lease", o)
	}
}

func TestSMInfoGoesToTheManagerOfThePort(t *testing.T) {
	a := New(adapterConfig(1), newBoard(1))
	a.SetCapability(0, 1, smp.CapSM, true)
	p := smp.NewRouted(mad.MethodGet, smp.AttrSMInfo, 0, 1, 0)
	if answer, _, o := ask(t, a, 0, 1, p); o != Local || answer != p {
		t.Errorf("%v, %+v", o, answer)
	}
	if info := portInfo(t, a, 1, 1); info.CapabilityMask&smp.CapSM == 0 {
		t.Errorf("capabilities %#x", info.CapabilityMask)
	}
	p = smp.NewRouted(mad.MethodTrap, mad.AttrNotice, 0, 1, 0)
	if _, _, o := ask(t, a, 0, 1, p); o != Local {
		t.Errorf("a trap: %v", o)
	}
}
