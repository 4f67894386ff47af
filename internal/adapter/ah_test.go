package adapter

import (
	"net/netip"
	"testing"

	"softrdma/internal/qp"
)

func TestHandlesBelongToTheirDomain(t *testing.T) {
	var table handleTable
	to := func(s string) qp.Path { return qp.Path{Dst: netip.MustParseAddrPort(s)} }
	a, b := table.add(1, to("192.0.2.1:1")), table.add(2, to("192.0.2.2:1"))
	if a == 0 || b == 0 || a == b {
		t.Fatalf("handles %d and %d", a, b)
	}
	if p := table.path(1, a); p == nil || *p != to("192.0.2.1:1") {
		t.Errorf("path of handle %d: %v", a, p)
	}
	if table.path(2, a) != nil || table.remove(2, a) {
		t.Error("a domain used another's handle")
	}
	if !table.remove(1, a) || table.path(1, a) != nil || table.remove(1, a) {
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
