// Package groups has the members of a lane's multicast groups. It joins none on the network.
package groups

import (
	"net/netip"
	"slices"
)

// A Table is the groups with their members. It has no lock of its own.
type Table[Q comparable] struct{ members map[netip.Addr][]Q }

// Of returns the members of a group.
func (t *Table[Q]) Of(group netip.Addr) []Q { return t.members[group] }

// Len is the number of groups that have members.
func (t *Table[Q]) Len() int { return len(t.members) }

// Add makes q a member of the group, of which it is none.
func (t *Table[Q]) Add(group netip.Addr, q Q) {
	if t.members == nil {
		t.members = make(map[netip.Addr][]Q)
	}
	t.members[group] = append(t.members[group], q)
}

// Has reports whether q is a member of the group.
func (t *Table[Q]) Has(group netip.Addr, q Q) bool { return slices.Contains(t.members[group], q) }

// Remove ends Add, and reports whether the group has no members any more. Slices that Of
// returned before stay as they are.
func (t *Table[Q]) Remove(group netip.Addr, q Q) (empty bool) {
	left := slices.DeleteFunc(slices.Clone(t.members[group]), func(x Q) bool { return x == q })
	if len(left) == 0 {
		delete(t.members, group)
		return true
	}
	t.members[group] = left
	return false
}
