package groups

import (
	"net/netip"
	"slices"
	"testing"
)

func TestMembersOfGroups(t *testing.T) {
	var table Table[int]
	a, b := netip.MustParseAddr("ff12::1"), netip.MustParseAddr("ff12::2")
	table.Add(a, 1)
	table.Add(a, 2)
	table.Add(b, 1)
	before := table.Of(a)
	if !table.Has(a, 2) || table.Has(b, 2) || table.Len() != 2 {
		t.Errorf("members of %v: %v, of %v: %v", a, table.Of(a), b, table.Of(b))
	}
	if table.Remove(a, 1) {
		t.Error("a group with a member is empty")
	}
	if !slices.Equal(before, []int{1, 2}) || !slices.Equal(table.Of(a), []int{2}) {
		t.Errorf("before %v, after %v", before, table.Of(a))
	}
	if !table.Remove(a, 2) || table.Len() != 1 {
		t.Errorf("%d groups after the last member of one has left", table.Len())
	}
}
