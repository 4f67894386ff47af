package partition

import "testing"

func TestMatchNeedsOnePartitionAndAFullMember(t *testing.T) {
	for _, c := range []struct {
		a, b uint16
		want bool
	}{
		{0xffff, 0xffff, true},
		{0xffff, 0x7fff, true},
		{0x7fff, 0xffff, true},
		{0x7fff, 0x7fff, false}, // two limited members
		{0x8001, 0x8002, false},
		{0x8001, 0x0001, true},
		{0x8000, 0x8000, false}, // no partition
		{0, 0, false},
	} {
		if got := Match(c.a, c.b); got != c.want {
			t.Errorf("Match(%#x, %#x) = %v", c.a, c.b, got)
		}
	}
}

func TestTableFindsTheEntryOfAKey(t *testing.T) {
	table := Table{0x7fff, 0, 0x8001, 0xffff}
	for _, c := range []struct {
		key   uint16
		index uint16
		ok    bool
	}{
		{0xffff, 0, true}, {0x7fff, 3, true}, {0x0001, 2, true}, {0x8000, 0, false}, {0x8002, 0, false},
	} {
		if i, ok := table.Find(c.key); i != c.index || ok != c.ok {
			t.Errorf("Find(%#x) = %d, %v", c.key, i, ok)
		}
	}
	if table.Key(2) != 0x8001 || table.Key(4) != 0 {
		t.Errorf("keys %#x and %#x", table.Key(2), table.Key(4))
	}
}
