package rdmacm

import (
	"bytes"
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
	"softrdma/verbs"
)

// fabricPorts opens a device on each adapter of a fabric. With a subnet manager it waits until
// all ports are active.
func fabricPorts(t *testing.T, shape string, manager bool) (devices []*verbs.Device) {
	t.Helper()
	f := fabrictest.StartWith(t, shape, func(c *live.Config) {
		if !manager {
			c.Manager = nil
		}
	})
	for _, name := range f.Adapters {
		d, err := verbs.Open("ib:"+name, verbs.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closed(t, d) })
		if manager {
			fabrictest.WaitFor(t, "an active port", func() bool { return d.QueryPort().State == verbs.PortActive })
		}
		devices = append(devices, d)
	}
	fabrictest.WaitFor(t, "the fabric's goroutines", func() bool { // which leavesNothing counts
		b := make([]byte, 1<<20)
		return strings.Count(string(b[:runtime.Stack(b, true)]), "live.(*outbox).run(") == len(devices)
	})
	return devices
}

// listenAt listens on a device of a fabric.
func listenAt(t *testing.T, d *verbs.Device, ip string, cfg ListenConfig) *Listener {
	t.Helper()
	cfg.Device, cfg.QP.MaxInline = d, 64
	l, err := Listen(ip+":0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, l) })
	return l
}

func dialerAt(d *verbs.Device) Dialer {
	return Dialer{Device: d, QP: verbs.QPConfig{MaxInline: 64}}
}

func TestConnectionsOfAFabric(t *testing.T) {
	devices := fabricPorts(t, "ring:3", true)
	leavesNothing(t)
	l := listenAt(t, devices[2], "10.77.0.3", ListenConfig{Param: ConnParam{PrivateData: []byte("welcome")}})
	for i, dev := range devices[:2] {
		c, s := connected(t, l, dialerAt(dev))
		if want := netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)}); c.LocalAddr().Addr() != want || s.RemoteAddr().Addr() != want {
			t.Errorf("the client has the address %v, by the server %v; expected %v", c.LocalAddr(), s.RemoteAddr(), want)
		}
		if !bytes.HasPrefix(c.PrivateData(), []byte("welcome")) {
			t.Errorf("private data %q", c.PrivateData())
		}
		talk(t, c, s, "from the client")
		talk(t, s, c, "from the server")
	}
}

func TestLookupOnAFabric(t *testing.T) {
	devices := fabricPorts(t, "star:2", true)
	leavesNothing(t)
	l := listenAt(t, devices[1], "10.77.0.2", ListenConfig{PortSpace: PortSpaceUDP})
	server := accepted(t, l)
	d := dialerAt(devices[0])
	d.PortSpace = PortSpaceUDP
	e, to, err := d.Lookup(within(t), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	s := server()
	defer closed(t, s)
	if got, want := to.QPN, s.QP().Number(); got != want {
		t.Errorf("queue pair %#x, expected %#x", got, want)
	}
	if got, want := to.AV.DLID, devices[1].QueryPort().LID; got != want {
		t.Errorf("LID %d, expected %d", got, want)
	}
	theirs, err := s.PD()
	if err != nil {
		t.Fatal(err)
	}
	received := receiver(t, theirs, s.QP(), s.RecvCQ())
	own, err := e.PD()
	if err != nil {
		t.Fatal(err)
	}
	post(t, own, e.end.id.QP(), e.SendCQ(), to, "a datagram")
	if words, _ := received(); words != "a datagram" {
		t.Errorf("received %q", words)
	}
}

func TestDialToAnAddressThatNoPortOfAFabricHas(t *testing.T) {
	devices := fabricPorts(t, "star:2", true)
	leavesNothing(t)
	d := dialerAt(devices[0])
	_, err := d.Dial(within(t), "10.77.0.9:4000")
	wants(t, err, "10.77.0.9")
	wantsReason(t, err, "ADDRESS_UNREACHABLE")
}

func TestDialOnAFabricWithoutManager(t *testing.T) {
	devices := fabricPorts(t, "star:2", false)
	leavesNothing(t)
	d := dialerAt(devices[0])
	_, err := d.Dial(within(t), "10.77.0.2:4000")
	wantsReason(t, err, "SA_NONE")
}

func wantsReason(t *testing.T, err error, want string) {
	t.Helper()
	var why verbs.ReasonError
	if !errors.As(err, &why) || why.Reason() != want {
		t.Errorf("expected the reason %s, found %v", want, err)
	}
}

// A port without a program refuses requests, like a host without a listener. It also does so
// after a program has ended, and a connection to that program learns of it.
func TestPortWithoutAProgramRefuses(t *testing.T) {
	f := fabrictest.Start(t, "star:3")
	var devices []*verbs.Device
	for _, name := range f.Adapters[:2] {
		d, err := verbs.Open("ib:"+name, verbs.Config{})
		if err != nil {
			t.Fatal(err)
		}
		fabrictest.WaitFor(t, "an active port", func() bool { return d.QueryPort().State == verbs.PortActive })
		devices = append(devices, d)
	}
	defer closed(t, devices[0])
	closed(t, devices[1])
	for _, ip := range []string{"10.77.0.2", "10.77.0.3"} { // a port that had a program, and one that never had
		d := dialerAt(devices[0])
		_, err := d.Dial(within(t), ip+":4000")
		if r := isReject(t, err); r != nil {
			wants(t, r, "no listener")
		}
		d.PortSpace = PortSpaceUDP
		_, _, err = d.Lookup(within(t), ip+":4000")
		wants(t, err, "service ID not supported")
	}
}
