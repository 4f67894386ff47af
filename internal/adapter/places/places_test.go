package places

import (
	"net/netip"
	"testing"
)

func TestTheFirstDeviceOfAPlaceIsFound(t *testing.T) {
	var m Map[*int]
	a, b := new(int), new(int)
	at := Place{"RoCE v2", netip.MustParseAddrPort("127.0.0.1:4791")}
	if m.Find(at) != nil {
		t.Fatal("a device before Add")
	}
	m.Add(at, a)
	m.Add(at, b)
	if m.Find(at) != a || m.Find(Place{"RoCE v1", at.At}) != nil {
		t.Error("not the first device, or one of other frames")
	}
	n := m.Changes()
	m.Remove(at, b)
	if m.Find(at) != a || m.Changes() == n {
		t.Error("removing the second device removed the first, or was no change")
	}
	m.Remove(at, a)
	if m.Find(at) != nil {
		t.Error("a device after Remove")
	}
}
