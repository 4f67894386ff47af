package adapter

import (
	"net/netip"
	"testing"

	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

func TestHandlesBelongToTheirDomain(t *testing.T) {
	var table handleTable
	to := func(s string) qp.Path { return qp.Path{Dst: netip.MustParseAddrPort(s)} }
	a, b := table.add(1, to("192.0.2.1:1")), table.add(2, to("192.0.2.2:1"))
	if a == 0 || b == 0 || a == b {
		t.Fatalf("handles %d and %d", a, b)
	}
	number := func(n uint32) queue.UD { return queue.UD{AHNum: n} }
	if p := table.path(1, number(a)); p == nil || *p != to("192.0.2.1:1") {
		t.Errorf("path of handle %d: %v", a, p)
	}
	if table.path(2, number(a)) != nil || table.remove(2, a) {
		t.Error("a domain used another's handle")
	}
	if !table.remove(1, a) || table.path(1, number(a)) != nil || table.remove(1, a) {
		t.Error("a removed handle is still there")
	}
}

func TestNumbersWrapAroundThoseInUse(t *testing.T) {
	var table handleTable
	first := table.add(1, qp.Path{})
	table.last = 1<<32 - 1
	if n := table.add(1, qp.Path{}); n == 0 || n == first {
		t.Errorf("handle %d is in use or 0", n)
	}
}

// rdma-core before 39 names a handle by its address vector. Handles that differ in what vectors do not have may share a
// path, but a vector leads nowhere without a handle.
func TestVectorNamesHandleOfItsDomain(t *testing.T) {
	for _, to := range []string{"192.0.2.1", "2001:db8::7"} {
		var table handleTable
		path := qp.Path{Dst: netip.AddrPortFrom(netip.MustParseAddr(to), 5000), SGIDIndex: 1, FlowLabel: 0x12345, TrafficClass: 0x48, HopLimit: 7}
		at := queue.UD{AV: queue.AV{DGID: path.Dst.Addr().As16(), SGIDIndex: 1, FlowLabel: 0xf0012345, TrafficClass: 0x48, HopLimit: 7}}
		a, b := table.add(1, path), table.add(1, path)
		if p := table.path(1, at); p == nil || *p != path {
			t.Errorf("%s: found %v, want %v", to, p, path)
		}
		if table.path(2, at) != nil {
			t.Errorf("%s: a domain used another's handle", to)
		}
		for name, change := range map[string]func(*queue.AV){
			"GID":           func(v *queue.AV) { v.DGID[15]++ },
			"source":        func(v *queue.AV) { v.SGIDIndex++ },
			"flow label":    func(v *queue.AV) { v.FlowLabel++ },
			"hop limit":     func(v *queue.AV) { v.HopLimit++ },
			"traffic class": func(v *queue.AV) { v.TrafficClass++ },
		} {
			other := at
			change(&other.AV)
			if p := table.path(1, other); p != nil {
				t.Errorf("%s: another %s leads to %v", to, name, p)
			}
		}
		table.remove(1, a)
		if table.path(1, at) == nil {
			t.Errorf("%s: the vector has one handle left, but no path", to)
		}
		table.remove(1, b)
		if p := table.path(1, at); p != nil || len(table.vectors) != 0 {
			t.Errorf("%s: without a handle found %v, %d vectors", to, p, len(table.vectors))
		}
	}
}

// On a fabric, a handle without a GRH is reached by its LID, which a vector does not have.
func TestVectorNamesNoHandleByLID(t *testing.T) {
	var table handleTable
	path := qp.Path{Dst: qp.LIDEndpoint(7)}
	n := table.add(1, path)
	if p := table.path(1, queue.UD{AV: queue.AV{DGID: qp.LocalGID.As16()}}); p != nil {
		t.Errorf("found %v", p)
	}
	if !table.remove(1, n) {
		t.Error("the handle is not there")
	}
}
