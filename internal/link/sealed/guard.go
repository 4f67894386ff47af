package sealed

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/reason"
)

// guardPause is how long the guard waits after a packet, so that a flood does not keep a processor busy.
const guardPause = 100 * time.Microsecond

// A guard has the UDP port of a device that encrypts, where peers in the clear send to. It drops
// what comes and reports it. No other device can have the port.
type guard struct {
	c    *net.UDPConn
	done chan struct{}
}

func watch(local netip.AddrPort, port uint16, report func(reason.Detail)) (*guard, error) {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(local))
	if err != nil {
		return nil, err
	}
	g := &guard{c, make(chan struct{})}
	go func() {
		defer close(g.done)
		var b [1]byte
		for {
			_, from, err := c.ReadFromUDPAddrPort(b[:])
			if errors.Is(err, net.ErrClosed) {
				return
			}
			report(reason.Detail{Reason: reason.PSPClear, Expected: uint64(port), Found: uint64(from.Port())})
			time.Sleep(guardPause)
		}
	}()
	return g, nil
}

// Close gives the port back.
func (g *guard) Close() error {
	err := g.c.Close()
	<-g.done
	return err
}

// A Device is the encrypted link of a device: the link with what makes its keys known.
type Device struct {
	*Link
	guard   *guard
	meeting *Meeting
}

// Open encrypts a link for the device of an address and UDP port. It meets peers by streams, which have TLS with the ALPN name
// Protocol. Both links belong to the device from then on, also if Open fails.
func Open(local netip.AddrPort, over link.Datagrams, streams link.Streams) (*Device, error) {
	d := &Device{}
	e := NewEndpoint(local, over.Local().Port())
	var err error
	if d.guard, err = watch(local, e.port, e.tell); err != nil {
		return nil, errors.Join(err, over.Close(), streams.Close())
	}
	if d.meeting, err = meet(e, streams, e.tell); err != nil {
		return nil, errors.Join(err, d.guard.Close(), over.Close(), streams.Close())
	}
	d.Link = New(over, e, d.meeting)
	return d, nil
}

// Report sets the function that is told why packets in the clear and callers are refused, and when a translator gives a
// peer another address. Any goroutine may call f.
func (d *Device) Report(f func(reason.Detail)) { d.e.report.Store(&f) }

// Close implements link.Waiter.
func (d *Device) Close() error {
	return errors.Join(d.Link.Close(), d.meeting.Close(), d.guard.Close())
}
