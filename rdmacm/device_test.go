package rdmacm

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"softrdma/verbs"
)

func TestDialBothEndsInOneDevice(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{})
	d := client()
	d.Local = addr(serverIP, 0)
	c, s := connected(t, l, d)
	if c.Device() != s.Device() || c.Device() == nil {
		t.Errorf("devices: expected one, found %v and %v", c.Device().Addr(), s.Device().Addr())
	}
	talk(t, c, s, "to myself")
	talk(t, s, c, "and back")
}

func TestDialProgramsDevicesShared(t *testing.T) {
	leavesNothing(t)
	a, err := verbs.Open(ip(11), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := verbs.Open(deviceNamed(ip(12)), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	l, err := Listen(ip(11)+":0", ListenConfig{QP: verbs.QPConfig{MaxInline: 64}}) // found by its address
	if err != nil {
		t.Fatal(err)
	}
	d := Dialer{Device: b, QP: verbs.QPConfig{MaxInline: 64}} // chosen by name
	c, s := connected(t, l, d)
	if c.Device() != b || s.Device() != a {
		t.Errorf("devices: expected the program's, found %v and %v", c.Device().Addr(), s.Device().Addr())
	}
	talk(t, c, s, "on the program's devices")
	closed(t, c)
	closed(t, s)
	closed(t, l)
	for _, dev := range []*verbs.Device{a, b} {
		if _, err := dev.AllocPD(); err != nil {
			t.Errorf("device %v was closed: %v", dev.Addr(), err)
		}
	}
}

func TestDialDeviceAndOtherLocalRefused(t *testing.T) {
	leavesNothing(t)
	dev, err := verbs.Open(deviceNamed(ip(12)), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	d := Dialer{Device: dev, Local: addr(clientIP, 0)}
	_, err = d.Dial(within(t), serverIP+":7")
	wants(t, err, ip(12), clientIP)
}

func TestDialClosedDeviceRefused(t *testing.T) {
	leavesNothing(t)
	dev, err := verbs.Open(deviceNamed(ip(12)), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	dev.Close()
	if _, err := Dial(within(t), serverIP+":7", Dialer{Device: dev}); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("expected %v, found %v", verbs.ErrClosed, err)
	}
}

func TestConnDeviceClosedEndsIt(t *testing.T) {
	leavesNothing(t)
	dev, err := verbs.Open(deviceNamed(ip(12)), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t, ListenConfig{})
	c, _ := connected(t, l, Dialer{Device: dev})
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Done():
	case <-time.After(timeLimit):
		t.Fatal("the connection is still established")
	}
	if !errors.Is(c.Err(), verbs.ErrClosed) {
		t.Errorf("expected %v, found %v", verbs.ErrClosed, c.Err())
	}
}

func TestListenerDeviceClosedEndsIt(t *testing.T) {
	leavesNothing(t)
	dev, err := verbs.Open(deviceNamed(ip(11)), verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := Listen(":0", ListenConfig{Device: dev})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a := l.Addr(); a.Addr() != dev.Addr().Addr() || a.Port() == 0 {
		t.Errorf("address: found %v, expected one of device %v", a, dev.Addr())
	}
	dev.Close()
	if _, err := l.Accept(within(t)); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("expected %v, found %v", verbs.ErrClosed, err)
	}
}

func TestVerbsOpenTakesIdleDeviceBack(t *testing.T) {
	leavesNothing(t)
	l, err := Listen(ip(13)+":0", ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verbs.Open(ip(13), verbs.Config{}); err == nil {
		t.Error("a device was opened twice")
	}
	closed(t, l)
	dev, err := verbs.Open(ip(13), verbs.Config{})
	if err != nil {
		t.Fatalf("an idle device was not released: %v", err)
	}
	dev.Close()
}

func TestDialTakenLoopbackFindsAnother(t *testing.T) {
	leavesNothing(t)
	// A device of another process, unless there is one already.
	if other, err := net.ListenPacket("udp", "127.0.0.1:4791"); err == nil {
		defer other.Close()
	}
	l := listen(t, ListenConfig{})
	c, s := connected(t, l, Dialer{QP: verbs.QPConfig{MaxInline: 64}})
	a := c.Device().Addr().Addr()
	if !a.IsLoopback() || a == netip.MustParseAddr("127.0.0.1") || c.LocalAddr().Addr() != a || s.RemoteAddr() != c.LocalAddr() {
		t.Errorf("found device %v, local address %v, the server sees %v", a, c.LocalAddr(), s.RemoteAddr())
	}
	talk(t, c, s, "by another address")
	// The next client has the same device.
	c2, _ := connected(t, l, Dialer{})
	if c2.Device() != c.Device() {
		t.Errorf("devices: expected one, found %v and %v", c.Device().Addr(), c2.Device().Addr())
	}
}

func TestDialNamedLocalTakenFails(t *testing.T) {
	leavesNothing(t)
	other, err := net.ListenPacket("udp", ip(14)+":4791")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	l := listen(t, ListenConfig{})
	d := Dialer{Local: addr(ip(14), 0)}
	_, err = d.Dial(within(t), l.Addr().String())
	var r *ResolveError
	if !errors.As(err, &r) {
		t.Errorf("expected a *ResolveError, found %v", err)
	}
	wants(t, err, ip(14)+":4791", "already in use")
}
