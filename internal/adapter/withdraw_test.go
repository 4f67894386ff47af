package adapter

import (
	"net/netip"
	"slices"
	"testing"

	"softrdma/internal/link/hostmem"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
)

// withdrawals is a peer on this host that takes note of segments it has to unmap.
type withdrawals struct {
	hostmem.Far
	ids []uint32
}

func (w *withdrawals) Withdraw(id uint32) { w.ids = append(w.ids, id) }

func TestLastRegionOfASegmentWithdrawsIt(t *testing.T) {
	e := newEnd(t, "192.0.2.1:4791", Config{}, qp.RC, 16)
	shared := make([]byte, hostmem.AreaSize(1, 1))
	out := hostmem.NewArea(shared, 1, 1)
	in, err := hostmem.OpenArea(shared, 1, 1)
	e.check(err)
	far := new(withdrawals)
	c := &hostmem.Channel{
		Peer: netip.MustParseAddrPort("192.0.2.2:4791"), Out: out, In: in, Lanes: 1, Far: far,
	}
	e.dev.AttachHost(c)
	defer e.dev.DetachHost(c)

	mem := make([]byte, 16384)
	s := memory.NewSegment(mem, len(mem), -1)
	register := func() *memory.Region {
		t.Helper()
		r, err := e.pd.RegisterSegment(mem, memory.Addr(mem), qp.LocalWrite, s)
		e.check(err)
		return r
	}
	expect := func(what string, want ...uint32) {
		t.Helper()
		if !slices.Equal(far.ids, want) {
			t.Errorf("%s: segments %v are withdrawn, expected %v", what, far.ids, want)
		}
	}
	first, second := register(), register()
	e.check(e.pd.Deregister(first))
	expect("one region is left")
	second, err = e.pd.Reregister(second, mem, memory.Addr(mem), qp.LocalWrite, s)
	e.check(err)
	expect("the region has the same memory")
	e.check(e.pd.Deregister(second))
	expect("no region is left", s.ID)
	plain, err := e.pd.Register(mem, memory.Addr(mem), qp.LocalWrite)
	e.check(err)
	e.check(e.pd.Deregister(plain))
	expect("the region had no segment", s.ID)
	other, err := e.pd.Reregister(register(), mem[:100], memory.Addr(mem), qp.LocalWrite, nil)
	e.check(err)
	expect("the region has other memory", s.ID, s.ID)
	e.check(e.pd.Deregister(other))
}
