package memory

import (
	"errors"
	"testing"

	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

const bindable = qp.LocalWrite | qp.MWBind

// window makes a table with a region at 1000 of 100 bytes and a window.
func window(t *testing.T, kind Kind, access qp.Access) (*Table, *Region, *Bind) {
	t.Helper()
	x := NewTable()
	r := register(t, x, 100, 1000, access)
	key, err := x.AllocWindow(pd, kind)
	if err != nil {
		t.Fatal(err)
	}
	return x, r, &Bind{Window: key, NewKey: key ^ 0x5a, Region: r.Key, Addr: 1010, Length: 20, Access: qp.RemoteWrite, PD: pd, QPN: qpn}
}

func TestAllocWindowRefusesRegion(t *testing.T) {
	x := NewTable()
	for _, k := range []Kind{MR, MW2 + 1} {
		if key, err := x.AllocWindow(pd, k); !errors.Is(err, errors.ErrUnsupported) || key != 0 || x.Count() != 0 {
			t.Errorf("kind %d: %#x, %v", k, key, err)
		}
	}
}

func TestBoundWindowGrantsOnlyItsPart(t *testing.T) {
	for _, kind := range []Kind{MW1, MW2} {
		x, r, b := window(t, kind, bindable)
		wantReason(t, "before the bind", x.Lookup(b.Window).CheckRemote(pd, qpn, 1010, 1, qp.RemoteWrite), reason.KeyInvalid)
		wantReason(t, "bind", x.Bind(b), reason.None)
		if x.Lookup(b.Window) != nil {
			t.Error("the old key still works")
		}
		w := x.Lookup(b.NewKey)
		wantReason(t, "all", w.CheckRemote(pd, qpn, 1010, 20, qp.RemoteWrite), reason.None)
		wantReason(t, "below", w.CheckRemote(pd, qpn, 1009, 1, qp.RemoteWrite), reason.KeyBounds)
		wantReason(t, "above", w.CheckRemote(pd, qpn, 1010, 21, qp.RemoteWrite), reason.KeyBounds)
		wantReason(t, "right", w.CheckRemote(pd, qpn, 1010, 1, qp.RemoteRead), reason.KeyAccess)
		wantReason(t, "PD", w.CheckRemote(pd+1, qpn, 1010, 1, qp.RemoteWrite), reason.KeyWrongPD)
		// IBTA 10.6.7.2: type 2 belongs to the queue pair that bound it.
		other := reason.None
		if kind == MW2 {
			other = reason.KeyQP
		}
		wantReason(t, "queue pair", w.CheckRemote(pd, qpn+1, 1010, 1, qp.RemoteWrite), other)
		w.Bytes(1010, 1)[0] = 9
		if r.mem[10] != 9 {
			t.Error("the window shows other memory")
		}
		if err := x.Deregister(r); !errors.Is(err, ErrBusy) {
			t.Errorf("deregistered under a window: %v", err)
		}
		if _, err := x.Reregister(r, pd, nil, 0, bindable, nil); !errors.Is(err, ErrBusy) {
			t.Errorf("reregistered under a window: %v", err)
		}
		if err := x.FreeWindow(b.NewKey); err != nil {
			t.Error(err)
		}
		wantReason(t, "freed", w.CheckRemote(pd, qpn, 1010, 1, qp.RemoteWrite), reason.KeyInvalid)
		if err := x.Deregister(r); err != nil {
			t.Error(err)
		}
	}
}

func TestZeroBasedWindowStartsAtZero(t *testing.T) {
	x, r, b := window(t, MW2, bindable)
	b.Access |= qp.ZeroBased
	wantReason(t, "bind", x.Bind(b), reason.None)
	w := x.Lookup(b.NewKey)
	wantReason(t, "all", w.CheckRemote(pd, qpn, 0, 20, qp.RemoteWrite), reason.None)
	wantReason(t, "more", w.CheckRemote(pd, qpn, 0, 21, qp.RemoteWrite), reason.KeyBounds)
	w.Bytes(0, 1)[0] = 9
	if r.mem[10] != 9 {
		t.Error("the window shows other memory")
	}
}

func TestBindRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		kind   Kind
		region qp.Access
		alter  func(x *Table, b *Bind)
		want   reason.Reason
	}{
		"unknown window":       {MW1, bindable, func(_ *Table, b *Bind) { b.Window ^= 1 << 20; b.NewKey ^= 1 << 20 }, reason.BindRefused},
		"wrong variant":        {MW1, bindable, func(_ *Table, b *Bind) { b.Window ^= 1 }, reason.BindRefused},
		"region as window":     {MW1, bindable, func(_ *Table, b *Bind) { b.Window, b.NewKey = b.Region, b.Region }, reason.BindRefused},
		"window of another PD": {MW1, bindable, func(_ *Table, b *Bind) { b.PD++ }, reason.BindRefused},
		"unknown region":       {MW1, bindable, func(_ *Table, b *Bind) { b.Region ^= 1 << 9 }, reason.BindRefused},
		"region's variant":     {MW1, bindable, func(_ *Table, b *Bind) { b.Region ^= 1 }, reason.BindRefused},
		"window as region":     {MW1, bindable, func(x *Table, b *Bind) { b.Region, _ = x.AllocWindow(pd, MW1) }, reason.BindRefused},
		"region of another PD": {MW1, bindable, func(x *Table, b *Bind) {
			r, _ := x.Register(pd+1, make([]byte, 2000), 1000, bindable)
			b.Region = r.Key
		}, reason.BindRefused},
		"region without bind":   {MW1, qp.LocalWrite, nil, reason.KeyAccess},
		"region not writable":   {MW1, qp.MWBind, nil, reason.KeyAccess},
		"right of its own":      {MW1, qp.MWBind, func(_ *Table, b *Bind) { b.Access |= qp.LocalWrite }, reason.KeyAccess},
		"atomic, not writable":  {MW2, qp.MWBind, func(_ *Table, b *Bind) { b.Access = qp.RemoteAtomic }, reason.KeyAccess},
		"zero-based region":     {MW1, bindable | qp.ZeroBased, nil, reason.KeyAccess},
		"type 1 zero-based":     {MW1, bindable, func(_ *Table, b *Bind) { b.Access |= qp.ZeroBased }, reason.BindRefused},
		"below":                 {MW1, bindable, func(_ *Table, b *Bind) { b.Addr = 999 }, reason.KeyBounds},
		"above":                 {MW1, bindable, func(_ *Table, b *Bind) { b.Length = 91 }, reason.KeyBounds},
		"overflow":              {MW1, bindable, func(_ *Table, b *Bind) { b.Length = ^uint64(0) }, reason.KeyBounds},
		"type 2 without length": {MW2, bindable, func(_ *Table, b *Bind) { b.Length = 0 }, reason.BindRefused},
		"type 2 bound already": {MW2, bindable, func(x *Table, b *Bind) {
			x.Bind(b)
			b.Window, b.NewKey = b.NewKey, b.Window
		}, reason.BindRefused},
	} {
		t.Run(name, func(t *testing.T) {
			x, r, b := window(t, c.kind, c.region)
			if c.alter != nil {
				c.alter(x, b)
			}
			count := r.windows.Load()
			wantReason(t, "bind", x.Bind(b), c.want)
			if r.windows.Load() != count {
				t.Errorf("the region counts %d windows, %d before", r.windows.Load(), count)
			}
		})
	}
}

// A program may choose any low byte, including that of the current key, and need not repeat
// the index (IBTA 10.6.7.2).
func TestBindTakesTheLowByteOfTheNewKey(t *testing.T) {
	for _, kind := range []Kind{MW1, MW2} {
		for low := range uint32(256) {
			for name, newKey := range map[string]func(window uint32) uint32{
				"with the index":     func(w uint32) uint32 { return w&^0xff | low },
				"low byte alone":     func(uint32) uint32 { return low },
				"with another index": func(w uint32) uint32 { return (w^1<<20)&^0xff | low },
			} {
				x, _, b := window(t, kind, bindable)
				b.NewKey = newKey(b.Window)
				wantReason(t, name, x.Bind(b), reason.None)
				if w := x.Lookup(b.Window&^0xff | low); w == nil || !w.Valid() || x.Count() != 2 {
					t.Fatalf("kind %d, low byte %#x, %s: found window %+v, %d keys", kind, low, name, w, x.Count())
				}
			}
		}
	}
}

func TestReadOnlyWindowOnReadOnlyRegion(t *testing.T) {
	x, _, b := window(t, MW1, qp.MWBind)
	b.Access = qp.RemoteRead
	wantReason(t, "bind", x.Bind(b), reason.None)
	wantReason(t, "read", x.Lookup(b.NewKey).CheckRemote(pd, qpn, 1010, 20, qp.RemoteRead), reason.None)
}

func TestType1WindowRebindsAndUnbinds(t *testing.T) {
	x, r, b := window(t, MW1, bindable)
	wantReason(t, "bind", x.Bind(b), reason.None)
	old := x.Lookup(b.NewKey)
	b.Window, b.NewKey, b.Addr = b.NewKey, b.NewKey+1&0xff|b.NewKey&^0xff, 1050
	wantReason(t, "rebind", x.Bind(b), reason.None)
	if old.Valid() || r.windows.Load() != 1 {
		t.Errorf("old window valid %v, %d windows counted", old.Valid(), r.windows.Load())
	}
	wantReason(t, "new place", x.Lookup(b.NewKey).CheckRemote(pd, qpn, 1050, 20, qp.RemoteWrite), reason.None)
	b.Window, b.Length = b.NewKey, 0
	wantReason(t, "unbind", x.Bind(b), reason.None)
	if w := x.Lookup(b.NewKey); w == nil || w.Valid() || r.windows.Load() != 0 {
		t.Error("not unbound")
	}
	if err := x.Deregister(r); err != nil {
		t.Error(err)
	}
}

func TestInvalidateRefusals(t *testing.T) {
	x, r, b := window(t, MW2, bindable)
	one, _ := x.AllocWindow(pd, MW1)
	wantReason(t, "bind", x.Bind(b), reason.None)
	for name, c := range map[string]struct{ key, pd, qpn uint32 }{
		"unknown key":        {b.NewKey ^ 1<<20, pd, qpn},
		"old variant":        {b.Window, pd, qpn},
		"region":             {r.Key, pd, qpn},
		"type 1":             {one, pd, qpn},
		"another PD":         {b.NewKey, pd + 1, qpn},
		"another queue pair": {b.NewKey, pd, qpn + 1},
	} {
		wantReason(t, name, x.Invalidate(c.key, c.pd, c.qpn), reason.InvalidateRefused)
	}
	w := x.Lookup(b.NewKey)
	if !w.Valid() || !r.Valid() {
		t.Fatal("a refused invalidation had an effect")
	}
	wantReason(t, "invalidate", x.Invalidate(b.NewKey, pd, qpn), reason.None)
	if w.Valid() || r.windows.Load() != 0 {
		t.Error("still valid")
	}
	// IBTA 10.6.7.2: it may be bound again, by another queue pair too.
	b.Window, b.NewKey, b.QPN = b.NewKey, b.Window, qpn+1
	wantReason(t, "bind again", x.Bind(b), reason.None)
	wantReason(t, "new owner", x.Lookup(b.NewKey).CheckRemote(pd, qpn+1, 1010, 1, qp.RemoteWrite), reason.None)
}

func TestFreeWindowRefusals(t *testing.T) {
	x, r, b := window(t, MW1, bindable)
	if err := x.FreeWindow(r.Key); !errors.Is(err, ErrKey) {
		t.Errorf("a region: %v", err)
	}
	if err := x.FreeWindow(b.Window ^ 1<<20); !errors.Is(err, ErrKey) {
		t.Errorf("unknown: %v", err)
	}
	if x.FreeWindow(b.Window) != nil || x.Lookup(b.Window) != nil {
		t.Error("an unbound window cannot be freed")
	}
}
