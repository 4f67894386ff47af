package sealed

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"

	"softrdma/internal/link"
	"softrdma/internal/reason"
)

// A Device is the encrypted link of a device: the link with what makes its keys known.
type Device struct {
	*Link
	meeting *Meeting
}

// Open encrypts a link for the device of an address and UDP port, at which the device meets its peers. The link belongs to the
// device from then on, also if Open fails. Any goroutine may call refused, which is told of callers whose handshake failed; it may be nil.
func Open(local netip.AddrPort, over link.Datagrams, security *tls.Config, refused func(peer netip.AddrPort, err error)) (*Device, error) {
	d := &Device{}
	e := NewEndpoint(local, over.Local().Port())
	e.admitted = over.Wake
	socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(local))
	if err != nil {
		return nil, errors.Join(err, over.Close())
	}
	d.meeting, err = meet(e, local.Addr(), socket, security, Tell{Refused: refused, Report: e.tell})
	if err != nil {
		return nil, errors.Join(err, over.Close())
	}
	d.Link = New(over, e, d.meeting)
	return d, nil
}

// Report sets the function that is told why packets in the clear and callers are refused, and when a translator gives a
// peer another address. Any goroutine may call f.
func (d *Device) Report(f func(reason.Detail)) { d.e.report.Store(&f) }

// Close implements link.Waiter.
func (d *Device) Close() error {
	return errors.Join(d.Link.Close(), d.meeting.Close())
}
