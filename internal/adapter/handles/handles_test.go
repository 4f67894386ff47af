package handles

import (
	"net/netip"
	"testing"

	"softrdma/internal/qp"
)

func TestHandlesBelongToTheirDomain(t *testing.T) {
	var table Table
	to := func(s string) qp.Path { return qp.Path{Dst: netip.MustParseAddrPort(s)} }
	a, b := table.Add(1, to("192.0.2.1:1")), table.Add(2, to("192.0.2.2:1"))
	if a == 0 || b == 0 || a == b {
		t.Fatalf("handles %d and %d", a, b)
	}
	if p := table.Path(1, a); p == nil || *p != to("192.0.2.1:1") {
		t.Errorf("path of handle %d: %v", a, p)
	}
	if table.Path(2, a) != nil || table.Remove(2, a) {
		t.Error("a domain used another's handle")
	}
	if !table.Remove(1, a) || table.Path(1, a) != nil || table.Remove(1, a) {
		t.Error("a removed handle is still there")
	}
}

func TestNumbersWrapAroundThoseInUse(t *testing.T) {
	var table Table
	first := table.Add(1, qp.Path{})
	table.last = 1<<32 - 1
	if n := table.Add(1, qp.Path{}); n == 0 || n == first {
		t.Errorf("handle %d is in use or 0", n)
	}
}
