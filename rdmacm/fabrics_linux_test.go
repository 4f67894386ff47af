package rdmacm

import (
	"errors"
	"testing"

	"softrdma/internal/fabric/fabrictest"
	"softrdma/verbs"
)

// Ports of two fabrics have the same IP address. In one stack connections use the port that
// was opened first, in separate stacks each uses its own.
func TestPortsOfTwoFabricsWithOneAddress(t *testing.T) {
	leavesNothing(t)
	open := func(s *verbs.Stack, name string) *verbs.Device {
		d := openIn(t, s, "ib:"+name)
		fabrictest.WaitFor(t, "an active port", func() bool { return d.QueryPort().State == verbs.PortActive })
		return d
	}
	one, two := verbs.NewStack(), verbs.NewStack()
	first := fabrictest.Start(t, "star:2")
	a := open(one, first.Adapters[0])
	second := fabrictest.Start(t, "star:2") // its sockets are in another directory from now on
	b := open(one, second.Adapters[0])
	if a.Addr() != b.Addr() {
		t.Fatalf("the ports have the addresses %v and %v", a.Addr(), b.Addr())
	}
	const at = "10.77.0.1:7474"
	listen := func(d *verbs.Device) error {
		l, err := Listen(at, ListenConfig{Device: d})
		if err == nil {
			err = l.Close()
		}
		return err
	}
	if err := listen(a); err != nil {
		t.Errorf("at the first port: %v", err)
	}
	if err := listen(b); !errors.Is(err, ErrAddrInUse) {
		t.Errorf("at the second port: %v, expected %v", err, ErrAddrInUse)
	}
	closed(t, a)
	if err := listen(b); err != nil {
		t.Errorf("at the second port after the first was closed: %v", err)
	}
	closed(t, b)
	server, client := open(two, second.Adapters[0]), open(two, second.Adapters[1])
	l, err := Listen(at, ListenConfig{Device: server})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	meet(t, client, l, server)
}
