package cma_test

import (
	"errors"
	"net/netip"
	"testing"

	"softrdma/internal/cma"
	"softrdma/internal/cmid"
	"softrdma/internal/qp"
)

func TestBindSharesPortsAsLinuxDoes(t *testing.T) {
	reuse := func(id *cma.ID) error { return id.SetReuseAddr(true) }
	afOnly := func(id *cma.ID) error { return id.SetAFOnly(true) }
	plain := func(*cma.ID) error { return nil }
	type set = func(*cma.ID) error
	for _, c := range []struct {
		name          string
		first, second string
		a, b          set
		err           error
	}{
		{"same address", server4, server4, plain, plain, cmid.ErrAddrInUse},
		{"other address", server4, second4, plain, plain, nil},
		{"other family", server4, server6, plain, plain, nil},
		{"wildcard after an address", server4, "0.0.0.0", plain, plain, cmid.ErrAddrNotAvail},
		{"address after a wildcard", "0.0.0.0", server4, plain, plain, cmid.ErrAddrNotAvail},
		{"two wildcards", "0.0.0.0", "0.0.0.0", plain, plain, cmid.ErrAddrNotAvail},
		{"wildcards of both families", "0.0.0.0", "::", plain, plain, cmid.ErrAddrNotAvail},
		{"wildcards of one family each", "0.0.0.0", "::", plain, afOnly, nil},
		{"both reuse", server4, server4, reuse, reuse, nil},
		{"one reuses", server4, server4, reuse, plain, cmid.ErrAddrInUse},
		{"the other reuses", server4, server4, plain, reuse, cmid.ErrAddrInUse},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.server.id(cmid.PortSpaceTCP), w.server.id(cmid.PortSpaceTCP)
			must(t, c.a(a))
			must(t, c.b(b))
			must(t, a.Bind(at(c.first)))
			err := b.Bind(at(c.second))
			var p *cmid.PortError
			if !errors.Is(err, c.err) || err != nil && (!errors.As(err, &p) || p.Owner != at(c.first)) {
				t.Errorf("error %v, expected %v", err, c.err)
			}
			if err != nil && (b.State() != cmid.Idle || b.Local().IsValid() || b.Device() != nil) {
				t.Errorf("after a failure: %v %v", b.State(), b.Local())
			}
			other := w.server.id(cmid.PortSpaceUDP)
			must(t, other.Bind(at(c.second))) // port spaces are independent
			a.Destroy()
			b.Destroy()
			again := w.server.id(cmid.PortSpaceTCP)
			must(t, again.Bind(at(c.first)))
			w.end()
		})
	}
}

func TestListenNeedsAnExclusivePort(t *testing.T) {
	w := newWorld(t)
	a, b := w.server.id(cmid.PortSpaceTCP), w.server.id(cmid.PortSpaceTCP)
	for _, id := range []*cma.ID{a, b} {
		must(t, id.SetReuseAddr(true))
		must(t, id.Bind(at(server4)))
	}
	if err := a.Listen(0); !errors.Is(err, cmid.ErrAddrInUse) || a.State() != cmid.AddrBound {
		t.Errorf("listen beside another: %v", err)
	}
	b.Destroy()
	must(t, a.Listen(0))
	if a.SetReuseAddr(true) == nil {
		t.Error("a listener's port may be reused")
	}
	w.end()
}

func TestBindChoosesEphemeralPorts(t *testing.T) {
	w := newWorld(t)
	m := cma.New(w.server, cma.Config{Manual: true, FirstPort: 40000, LastPort: 40002, Random: func() uint32 { return 1 }})
	ch := m.NewChannel()
	seen := make(map[uint16]bool)
	for range 3 {
		id, err := ch.NewID(cmid.PortSpaceTCP, 0)
		must(t, err)
		must(t, id.Bind(netip.AddrPortFrom(netip.MustParseAddr(server4), 0)))
		seen[id.Local().Port()] = true
	}
	if len(seen) != 3 || !seen[40000] || !seen[40001] || !seen[40002] {
		t.Errorf("ports %v", seen)
	}
	id, err := ch.NewID(cmid.PortSpaceTCP, 0)
	must(t, err)
	if err := id.Bind(netip.AddrPortFrom(netip.MustParseAddr(server4), 0)); !errors.Is(err, cmid.ErrAddrNotAvail) {
		t.Errorf("one more: %v", err)
	}
	must(t, id.Bind(netip.AddrPortFrom(netip.MustParseAddr(second4), 0))) // allowed because the address differs
	must(t, ch.Close())
	if n := m.Count(); n != (cma.Counts{}) {
		t.Errorf("left over: %+v", n)
	}
	w.end()
}

func TestBindRefusals(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		addr string
		want error
	}{
		{"192.0.2.77", errNoSuchDevice},
		{"239.1.2.3", nil},
		{"fe80::1", nil},
	} {
		id := w.server.id(cmid.PortSpaceTCP)
		err := id.Bind(at(c.addr))
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.addr, err)
		}
		if id.State() != cmid.Idle {
			t.Errorf("%s: state %v", c.addr, id.State())
		}
	}
	id := w.server.id(cmid.PortSpaceTCP)
	if id.Bind(netip.AddrPort{}) == nil {
		t.Error("the zero address was taken")
	}
	must(t, id.Bind(netip.MustParseAddrPort("[::ffff:10.0.0.2]:9")))
	if id.Local() != netip.MustParseAddrPort("10.0.0.2:9") {
		t.Errorf("bound to %v", id.Local())
	}
	var s *cmid.StateError
	if err := id.Bind(at(server4)); !errors.As(err, &s) || s.Found != cmid.AddrBound {
		t.Errorf("bound twice: %v", err)
	}
	if err := w.server.id(cmid.PortSpaceIPoIB).Bind(at(server4)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("IPoIB: %v", err)
	}
	w.end()
}

func TestNewIDRefusesServiceTypesOfOtherPortSpaces(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		space cmid.PortSpace
		kind  qp.Type
	}{{cmid.PortSpaceTCP, qp.UD}, {cmid.PortSpaceTCP, qp.UC}, {cmid.PortSpaceUDP, qp.RC}, {0x123, 0}, {cmid.PortSpaceIB, 77}} {
		if _, err := w.client.ch.NewID(c.space, c.kind); err == nil {
			t.Errorf("%v with %v was taken", c.space, c.kind)
		}
	}
	w.end()
}
