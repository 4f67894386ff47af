package hostmem

import "testing"

func TestBellsAllocateNothing(t *testing.T) {
	b, err := NewBells()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	_, r := newBell(t, b, 1, false)
	_, other := newBell(t, b, 2, true)
	rung := 0
	count := func(any) { rung++ }
	if n := testing.AllocsPerRun(100, func() {
		r.Ring()
		other.Ring()
		b.Rung(count)
	}); n != 0 {
		t.Errorf("%v allocations for two rings, expected none", n)
	}
	if rung == 0 {
		t.Error("no bell was reported")
	}
}
