package registry_test

import (
	"crypto/tls"
	"errors"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/frame/rocev2"
	"softrdma/internal/object"
	"softrdma/internal/provider/local"
	"softrdma/internal/registry"
	"softrdma/internal/simnet"
)

// A handle is a device on a simulated network.
type handle struct {
	dev *adapter.Device
}

func (h *handle) Addr() netip.AddrPort { return h.dev.Local() }

func (h *handle) Close() error {
	registry.Remove(h)
	return h.dev.Close()
}

// A world opens devices in a registry, each on a simulated network of its own.
type world struct {
	testing.TB
	reg    *registry.Registry
	opened int
}

func newWorld(t testing.TB) *world {
	return &world{TB: t, reg: new(registry.Registry)}
}

func (w *world) open(at netip.AddrPort, security *tls.Config) (registry.Handle, error) {
	w.opened++
	net := simnet.New(1)
	a := adapter.Open(adapter.Config{Networks: rocev2.Networks([]*simnet.Link{net.Attach(at, simnet.LinkConfig{})}), Clock: net.Clock, Manual: true})
	h := &handle{a}
	w.reg.Add(&registry.Entry{Handle: h, Provider: local.Device{Device: a}, Adapter: a, TLS: security})
	return h, nil
}

var at = netip.MustParseAddrPort("10.0.0.1:4791")

func (w *world) request() registry.Request {
	return registry.Request{At: at, Open: w.open, Closing: func(*adapter.Device) { w.Error("told of a closed device without a lease") }}
}

func (w *world) acquire(q registry.Request) *registry.Lease {
	w.Helper()
	l, err := w.reg.Acquire(q)
	if err != nil {
		w.Fatal(err)
	}
	return l
}

// closed waits until no device is open on the address.
func (w *world) closed() {
	w.Helper()
	for end := time.Now().Add(20 * time.Second); w.reg.Find(at) != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.Fatal("the device stays open")
		}
	}
}

func TestLeaseOpensOnceAndClosesAfterTheLast(t *testing.T) {
	w := newWorld(t)
	a, b := w.acquire(w.request()), w.acquire(w.request())
	if a.Device() != b.Device() || w.opened != 1 || w.reg.Count() != 1 {
		t.Fatalf("found devices %p and %p, %d opened, %d counted", a.Device(), b.Device(), w.opened, w.reg.Count())
	}
	a.Release()
	if w.reg.Find(at) == nil {
		t.Fatal("closed while it is leased")
	}
	dev := b.Device()
	b.Release()
	c := w.acquire(w.request())
	if c.Device() != dev {
		t.Error("opened again right after the last lease")
	}
	c.Release()
	w.closed()
	if dev.Closed() == nil || w.reg.Count() != 0 {
		t.Errorf("closed %v, %d devices counted", dev.Closed(), w.reg.Count())
	}
}

func TestDeviceOfTheProgramOutlivesItsLeases(t *testing.T) {
	w := newWorld(t)
	h, err := w.open(at, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := w.reg.Count(); n != 0 {
		t.Errorf("%d devices counted before the first lease", n)
	}
	w.acquire(w.request()).Release()
	w.reg.Vacate(at)
	if e := w.reg.Find(at); e == nil || e.Handle != h || w.opened != 1 {
		t.Errorf("found %+v, %d opened", e, w.opened)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

func TestLesseeIsNotifiedThatTheProgramClosesTheDevice(t *testing.T) {
	w := newWorld(t)
	h, err := w.open(at, nil)
	if err != nil {
		t.Fatal(err)
	}
	var told *adapter.Device
	q := w.request()
	q.Closing = func(d *adapter.Device) {
		told = d
		if d.Closed() != nil {
			t.Error("notified after the device was closed")
		}
	}
	l := w.acquire(q)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if told != l.Device() {
		t.Errorf("notified of %p, expected %p", told, l.Device())
	}
	l.Release()
	if registry.Of(h) != nil || registry.Adapter(h) != nil {
		t.Error("a closed device is found by its handle")
	}
	q.Open = nil
	if _, err := w.reg.Acquire(q); !errors.Is(err, object.ErrClosed) {
		t.Errorf("lease of a closed device: %v", err)
	}
}

func TestVacateClosesAnUnusedDeviceAtOnce(t *testing.T) {
	w := newWorld(t)
	l := w.acquire(w.request())
	w.reg.Vacate(at)
	if w.reg.Find(at) == nil {
		t.Fatal("closed while it is leased")
	}
	l.Release()
	w.reg.Vacate(at)
	if w.reg.Find(at) != nil {
		t.Error("still open")
	}
}

func TestLeaseWantsTheTLSOfTheDevice(t *testing.T) {
	w := newWorld(t)
	one, other := &tls.Config{MinVersion: tls.VersionTLS13}, &tls.Config{MinVersion: tls.VersionTLS13}
	q := w.request()
	q.TLS = one
	l := w.acquire(q)
	for _, c := range []*tls.Config{nil, other} {
		q.TLS = c
		var e *registry.TLSError
		if _, err := w.reg.Acquire(q); !errors.As(err, &e) || !e.TLS || e.At != at {
			t.Errorf("with %p: %v", c, err)
		}
	}
	l.Release()
	q.TLS = other // the device with the first configuration is no longer in use
	l = w.acquire(q)
	if w.opened != 2 || w.reg.Find(at).TLS != other {
		t.Errorf("%d opened", w.opened)
	}
	l.Release()
	w.reg.Vacate(at)
}

func TestRegistriesAreApart(t *testing.T) {
	a, b := newWorld(t), newWorld(t)
	x, y := a.acquire(a.request()), b.acquire(b.request())
	if x.Device() == y.Device() || a.reg.Find(at) == b.reg.Find(at) {
		t.Error("two registries lease one device")
	}
	if a.reg.Connections(a.open) == b.reg.Connections(b.open) {
		t.Error("two registries have one connection manager")
	}
	x.Release()
	a.reg.Vacate(at)
	if a.reg.Find(at) != nil || b.reg.Find(at) == nil {
		t.Error("closing the device of one registry concerns the other's")
	}
	y.Release()
	b.reg.Vacate(at)
}
