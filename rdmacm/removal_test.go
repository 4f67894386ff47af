package rdmacm

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"softrdma/verbs"
)

// A program may close a device between any two calls of a connection set-up. The next
// call fails with verbs.ErrClosed, whichever it is.

func TestEndpointOnClosedDeviceFails(t *testing.T) {
	hasPD := map[string]bool{"CreateQP after PD": true}
	for name, call := range map[string]func(*Endpoint) error{
		"CreateQP after PD": func(e *Endpoint) error { _, err := e.CreateQP(nil, verbs.QPConfig{}); return err },
		"CreateQP":          func(e *Endpoint) error { _, err := e.CreateQP(nil, verbs.QPConfig{}); return err },
		"Connect":           func(e *Endpoint) error { _, err := e.Connect(within(t), ConnParam{}); return err },
		"PD":                func(e *Endpoint) error { _, err := e.PD(); return err },
		"route":             func(e *Endpoint) error { return e.end.id.ResolveRoute() },
		"request":           func(e *Endpoint) error { return e.end.id.Connect(nil) },
		"INIT":              func(e *Endpoint) error { _, err := e.end.id.InitAttr(); return err },
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			dev := openTestDevice(t, ip(12))
			d := Dialer{Device: dev}
			e, err := d.Resolve(within(t), addr(serverIP, 7).String())
			if err != nil {
				t.Fatal(err)
			}
			defer closed(t, e)
			if hasPD[name] {
				if _, err := e.PD(); err != nil {
					t.Fatal(err)
				}
			}
			closed(t, dev)
			if err := call(e); !errors.Is(err, verbs.ErrClosed) {
				t.Errorf("expected %v, found %v", verbs.ErrClosed, err)
			}
		})
	}
}

// requestFrom makes an id on a device ask p's listener for a connection.
func (p *pair) requestFrom(dev *verbs.Device) (asks, asked *ID) {
	p.t.Helper()
	asks = p.destroy(newID(p.t, p.client, PortSpaceTCP))
	p.ok(asks.UseDevice(dev))
	p.ok(asks.ResolveAddr(netip.AddrPort{}, p.listener.LocalAddr()))
	expect(p.t, p.client, EventAddrResolved)
	p.ok(asks.ResolveRoute())
	expect(p.t, p.client, EventRouteResolved)
	_, err := asks.CreateQP(nil, verbs.QPConfig{})
	p.ok(err)
	p.ok(asks.Connect(nil))
	return asks, p.destroy(expect(p.t, p.server, EventConnectRequest).ID)
}

func TestIDDeviceClosedAfterResponse(t *testing.T) {
	dev := openTestDevice(t, ip(12))
	p := newPair(t, PortSpaceTCP)
	asks, asked := p.requestFrom(dev)
	_, err := asked.CreateQP(nil, verbs.QPConfig{})
	p.ok(err)
	p.ok(asked.Accept(nil))
	eventually(t, "the response", func() bool {
		_, err := asks.RTRAttr()
		return err == nil
	})
	closed(t, dev)
	if e := expect(t, p.client, EventDeviceRemoval); e.ID != asks {
		t.Errorf("found %v", e)
	}
}

func TestListenerRequestOnClosedDevicePassedOver(t *testing.T) {
	leavesNothing(t)
	dev := openTestDevice(t, ip(11))
	l, err := Listen(ip(11)+":0", ListenConfig{Device: dev})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, l)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	answer := make(chan error, 1)
	go func() {
		d := client()
		_, err := d.Dial(ctx, l.Addr().String())
		answer <- err
	}()
	r, err := l.Request(ctx)
	if err != nil {
		t.Fatal(err)
	}
	closed(t, dev)
	if err := l.accept(r); err != nil {
		t.Errorf("one peer's device ends the listener: %v", err)
	}
	isReject(t, <-answer)
}

func openTestDevice(t *testing.T, ip string) *verbs.Device {
	t.Helper()
	dev, err := verbs.Open(deviceNamed(ip), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return dev
}
