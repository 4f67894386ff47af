package rdmacm

import (
	"errors"
	"testing"

	"softrdma/verbs"
)

func TestIDOptionsChecked(t *testing.T) {
	p := newPair(t, PortSpaceTCP)
	for _, c := range []struct {
		o      Option
		v, bad int
	}{
		{OptionTOS, 255, 256}, {OptionReuseAddr, 1, 2}, {OptionAfOnly, 1, -1}, {OptionAckTimeout, 31, 32},
		{OptionMinRNRTimer, 31, 32}, {OptionResponseTimeout, 20, 32}, {OptionRetries, 15, 16}, {OptionRemoteUDPPort, 65535, 65536},
	} {
		if err := p.dialer.SetOption(c.o, c.v); err != nil {
			t.Errorf("%v = %d: %v", c.o, c.v, err)
		}
		err := p.dialer.SetOption(c.o, c.bad)
		if err == nil {
			t.Errorf("%v = %d was taken", c.o, c.bad)
		}
		wants(t, err, c.o.String(), "expected 0 to")
	}
	if err := p.dialer.SetOption(99, 0); err == nil {
		t.Error("an unknown option was taken")
	}
}

func TestIDOptionsReachQueuePair(t *testing.T) {
	p := newPair(t, PortSpaceTCP)
	p.ok(p.dialer.SetOption(OptionTOS, 0x68))
	p.ok(p.dialer.SetOption(OptionAckTimeout, 15))
	p.ok(p.dialer.SetOption(OptionMinRNRTimer, 3))
	id := p.request(nil, true)
	_, err := id.CreateQP(nil, verbs.QPConfig{})
	p.ok(err)
	p.ok(id.Accept(nil))
	expect(t, p.client, EventEstablished)
	a := p.dialer.QP().Query()
	rtr, err := p.dialer.RTRAttr()
	if err != nil || a.Timeout != 15 || a.MinRNRTimer != 3 || rtr.AV.TrafficClass != 0x68 {
		t.Errorf("found timeout %d, RNR timer %d, traffic class %#x, %v", a.Timeout, a.MinRNRTimer, rtr.AV.TrafficClass, err)
	}
}

// The client's queue pair waits at least as long as the server says that it may take to acknowledge.
func TestAckDelayOfServerReachesClientsQueuePair(t *testing.T) {
	for _, c := range []struct{ said, timeout uint8 }{{0, 17}, {14, 17}, {23, 23}} {
		p := newPair(t, PortSpaceTCP)
		id := p.request(nil, true)
		_, err := id.CreateQP(nil, verbs.QPConfig{})
		p.ok(err)
		p.ok(id.Accept(&ConnParam{AckDelay: c.said}))
		expect(t, p.client, EventEstablished)
		if a := p.dialer.QP().Query(); a.Timeout != c.timeout {
			t.Errorf("delay %d: found timeout %d, expected %d", c.said, a.Timeout, c.timeout)
		}
	}
}

func TestIDReuseAddrSharesPort(t *testing.T) {
	leavesNothing(t)
	ch := NewEventChannel()
	defer ch.Close()
	for _, reuse := range []int{0, 1} {
		a, b := newID(t, ch, PortSpaceTCP), newID(t, ch, PortSpaceTCP)
		for _, id := range []*ID{a, b} {
			if err := id.SetOption(OptionReuseAddr, reuse); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Bind(addr(clientIP, 0)); err != nil {
			t.Fatal(err)
		}
		err := b.Bind(a.LocalAddr())
		if reuse == 1 && err != nil || reuse == 0 && !errors.Is(err, ErrAddrInUse) {
			t.Errorf("reuse %d: found %v", reuse, err)
		}
		for _, id := range []*ID{a, b} {
			if err := id.Destroy(); err != nil {
				t.Error(err)
			}
		}
	}
}
