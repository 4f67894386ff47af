package rdmacm

import (
	"errors"
	"fmt"
	"testing"

	"softrdma/verbs"
)

// openIn opens a device of a stack for the test.
func openIn(t *testing.T, s *verbs.Stack, name string) *verbs.Device {
	t.Helper()
	dev, err := s.Open(name, verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// meet connects a client's device to a listener and checks which device
// accepted.
func meet(t *testing.T, client *verbs.Device, l *Listener, server *verbs.Device) {
	t.Helper()
	accepted := make(chan *Conn, 1)
	go func() {
		c, err := l.Accept(within(t))
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	c, err := Dial(within(t), l.Addr().String(), Dialer{Device: client, RemoteUDPPort: server.Addr().Port()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if s := <-accepted; s != nil {
		if s.Device() != server || c.Device() != client {
			t.Errorf("devices: client on %v, server on %v; expected %v, %v", c.Device().Addr(), s.Device().Addr(), client.Addr(), server.Addr())
		}
		s.Close()
	}
}

// Two stacks of a process have separate connection managers: each has all ports, on devices of
// one address.
func TestTwoStacksInOneProcess(t *testing.T) {
	leavesNothing(t)
	one, two := verbs.NewStack(), verbs.NewStack()
	at, from := ip(40), ip(41)
	a, b := openIn(t, one, at), openIn(t, two, at+":4792")
	clientA, clientB := openIn(t, one, from), openIn(t, two, from+":4792")
	la, err := Listen(at+":7471", ListenConfig{Device: a})
	if err != nil {
		t.Fatal(err)
	}
	defer la.Close()
	lb, err := Listen(at+":7471", ListenConfig{Device: b})
	if err != nil {
		t.Fatal(err)
	}
	defer lb.Close()
	third := openIn(t, one, at+":4793")
	if l, err := Listen(at+":7471", ListenConfig{Device: third}); !errors.Is(err, ErrAddrInUse) {
		t.Errorf("the port of another listener of the stack: %v, %v", l, err)
	}
	meet(t, clientA, la, a)
	meet(t, clientB, lb, b)
	meet(t, clientA, lb, b) // from stack to stack, as between hosts
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	meet(t, clientB, lb, b)
	if _, err := la.Request(within(t)); !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("listener on the closed device: %v", err)
	}
}

func TestTwoStacksHaveIWARPDevicesOfOneAddress(t *testing.T) {
	leavesNothing(t)
	one, two := verbs.NewStack(), verbs.NewStack()
	name := "iwarp:" + ip(42)
	a, b := openIn(t, one, name), openIn(t, two, name)
	if dev, err := one.Open(name, verbs.Config{}); err == nil {
		dev.Close()
		t.Error("one stack has two devices of one address")
	}
	l, err := Listen(fmt.Sprint(ip(42), ":0"), ListenConfig{Device: a})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	meet(t, b, l, a)
}
