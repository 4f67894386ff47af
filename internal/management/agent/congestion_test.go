package agent

import (
	"testing"
	"time"

	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/cc"
)

// congest sends a packet of congestion control, and returns the response with its header.
func congest(a *Agent, now time.Duration, method uint8, id mad.AttributeID, modifier uint32, key uint64, data []byte) (h mad.Header, out Departure, o Outcome) {
	h = mad.Header{BaseVersion: 1, Class: mad.ClassCongestion, ClassVersion: cc.ClassVersion, Method: method, TID: 3, Attribute: id, Modifier: modifier}
	var b [mad.Len]byte
	h.Put(&b)
	cc.SetKey(&b, key)
	copy(cc.Data(&b)[:], data)
	o = a.Receive(now, &Arrival{Port: 1, SLID: 7, DLID: 3, QPN: 1, SourceQPN: 1, PKey: 0xffff, MAD: &b}, &out)
	h.Parse(&out.MAD)
	return h, out, o
}

func TestCongestionSettingsAreKept(t *testing.T) {
	for _, c := range []struct {
		name     string
		a        *Agent
		id       mad.AttributeID
		modifier uint32
		want     uint16
	}{
		{"an adapter's settings", New(adapterConfig(1), newBoard(1)), cc.AttrAdapterCongestionSetting, 0, mad.StatusOK},
		{"the second block of an adapter's table", New(adapterConfig(1), newBoard(1)), cc.AttrCongestionControlTable, 1, mad.StatusOK},
		{"a block behind an adapter's table", New(adapterConfig(1), newBoard(1)), cc.AttrCongestionControlTable, tableBlocks, mad.StatusInvalid},
		{"a switch's settings at an adapter", New(adapterConfig(1), newBoard(1)), cc.AttrSwitchCongestionSetting, 0, mad.StatusMethodAttribute},
		{"a switch's settings", New(switchConfig(4), newBoard(4)), cc.AttrSwitchCongestionSetting, 0, mad.StatusOK},
		{"settings of a switch's ports", New(switchConfig(36), newBoard(36)), cc.AttrSwitchPortCongestionSetting, 1, mad.StatusOK},
		{"an adapter's settings at a switch", New(switchConfig(4), newBoard(4)), cc.AttrAdapterCongestionSetting, 0, mad.StatusMethodAttribute},
		{"an unknown attribute", New(switchConfig(4), newBoard(4)), 0x77, 0, mad.StatusMethodAttribute},
	} {
		h, _, o := congest(c.a, 0, mad.MethodSet, c.id, c.modifier, 0, []byte{1, 2, 3, 4})
		if o != Send || h.Status != c.want {
			t.Errorf("%s: %v, status %#x, expected %#x", c.name, o, h.Status, c.want)
			continue
		}
		h, out, _ := congest(c.a, 0, mad.MethodGet, c.id, c.modifier, 0, nil)
		if h.Status != c.want || c.want == mad.StatusOK && [4]byte(cc.Data(&out.MAD)[:]) != [4]byte{1, 2, 3, 4} {
			t.Errorf("%s: read status %#x, %x", c.name, h.Status, cc.Data(&out.MAD)[:4])
		}
	}
}

func TestCongestionAgentDescribesItsNode(t *testing.T) {
	a := New(adapterConfig(1), newBoard(1))
	for _, id := range []mad.AttributeID{mad.AttrClassPortInfo, cc.AttrCongestionInfo, cc.AttrCongestionKeyInfo, cc.AttrCongestionLog, cc.AttrTimeStamp} {
		if h, _, o := congest(a, 0, mad.MethodGet, id, 0, 0, nil); o != Send || h.Status != mad.StatusOK {
			t.Errorf("attribute %#x: %v, status %#x", uint16(id), o, h.Status)
		}
	}
	if _, out, _ := congest(a, 2048*time.Nanosecond, mad.MethodGet, cc.AttrTimeStamp, 0, 0, nil); cc.Data(&out.MAD)[3] != 2 {
		t.Errorf("time stamp: %x", cc.Data(&out.MAD)[:4])
	}
	if _, out, _ := congest(a, 0, mad.MethodGet, cc.AttrCongestionLog, 0, 0, nil); out.MAD[cc.LogAt] != cc.LogAdapter {
		t.Errorf("log: %x", out.MAD[cc.LogAt:cc.LogAt+4])
	}
	if h, _, _ := congest(a, 0, mad.MethodTrap, cc.AttrTimeStamp, 0, 0, nil); h.Status != mad.StatusMethod {
		t.Errorf("a method that the class does not have: %#x", h.Status)
	}
}

func TestCongestionKeyProtects(t *testing.T) {
	a := New(adapterConfig(1), newBoard(1))
	var data [cc.DataLen]byte
	k := cc.KeyInfo{Key: 9, LeasePeriod: 2, Violations: 1}
	k.Put(&data)
	congest(a, 0, mad.MethodSet, cc.AttrCongestionKeyInfo, 0, 0, data[:])
	if h, out, _ := congest(a, 0, mad.MethodGet, cc.AttrCongestionKeyInfo, 0, 0, nil); h.Status != 0 || cc.Data(&out.MAD)[7] != 0 {
		t.Errorf("others see the key: %x", cc.Data(&out.MAD)[:8])
	}
	if _, out, o := congest(a, 0, mad.MethodSet, cc.AttrAdapterCongestionSetting, 0, 8, nil); o != Discard || out.Reason.Reason != reason.SMPManagementKey {
		t.Errorf("a Set with a wrong key: %v, %v", o, out.Reason)
	}
	_, out, _ := congest(a, 0, mad.MethodGet, cc.AttrCongestionKeyInfo, 0, 9, nil)
	if k.Parse(cc.Data(&out.MAD)); k.Key != 9 || k.Violations != 1 {
		t.Errorf("%+v", k)
	}
	congest(a, 0, mad.MethodSet, cc.AttrAdapterCongestionSetting, 0, 8, nil)
	if _, _, o := congest(a, 3*time.Second, mad.MethodSet, cc.AttrAdapterCongestionSetting, 0, 8, nil); o != Send {
		t.Errorf("after the lease: %v", o)
	}
}
