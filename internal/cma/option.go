package cma

import (
	"fmt"
	"net/netip"
	"time"

	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// options are the settings of an id.
type options struct {
	device    DeviceOptions
	reuse     bool
	afOnly    bool
	afOnlySet bool
	tos       uint8

	ackTimeout    uint8
	ackTimeoutSet bool
	minRNR        uint8
	minRNRSet     bool

	remoteUDP uint16 // 0 means 4791

	responseTimeout, retries uint8 // 0 means the communication manager's default
}

// set changes an option with the Manager locked.
func (at *endpoint) set(op string, f func(o *options) error) error {
	at.m.lock()
	defer at.m.unlock()
	if at.state == cmid.Destroying {
		return fmt.Errorf("%s: %w", op, cmid.ErrDestroyed)
	}
	return f(&at.option)
}

// SetTOS sets the traffic class of both directions of the connection
// (RDMA_OPTION_ID_TOS). It affects the requesting side, before ResolveRoute.
func (at *endpoint) SetTOS(tos uint8) error {
	return at.set("set TOS", func(o *options) error { o.tos = tos; return nil })
}

// SetReuseAddr lets Bind share a port with ids that also allow it
// (RDMA_OPTION_ID_REUSEADDR). Listen clears the option.
func (at *endpoint) SetReuseAddr(on bool) error {
	return at.set("set reuse address", func(o *options) error {
		if on && at.state == cmid.Listen {
			return &cmid.StateError{Op: "set reuse address", Expected: []cmid.State{cmid.Idle, cmid.AddrBound}, Found: at.state}
		}
		o.reuse = on
		return nil
	})
}

// SetAFOnly restricts an IPv6 wildcard to IPv6 (RDMA_OPTION_ID_AFONLY). By default
// it includes IPv4.
func (at *endpoint) SetAFOnly(on bool) error {
	return at.set("set AF only", func(o *options) error {
		if err := at.want("set AF only", cmid.Idle, cmid.AddrBound); err != nil {
			return err
		}
		o.afOnly, o.afOnlySet = on, true
		return nil
	})
}

// SetAckTimeout sets the queue pair's acknowledge timeout: 4.096 µs × 2^field; 0
// means no timeout (RDMA_OPTION_ID_ACK_TIMEOUT). If set before ResolveRoute it also
// determines the path's packet lifetime, which is half of it.
func (at *endpoint) SetAckTimeout(field uint8) error {
	return at.set("set acknowledge timeout", func(o *options) error {
		if at.kind != qp.RC {
			return reason.BadArgument(0, 0, "set acknowledge timeout: expected service type RC, found %v", at.kind)
		}
		if field > 31 {
			return reason.BadArgument(0, 0, "set acknowledge timeout: expected 0..31, found %d", field)
		}
		o.ackTimeout, o.ackTimeoutSet = field, true
		return nil
	})
}

// SetMinRNRTimer sets how long the peer waits if no receive was posted: the field
// of IBTA 9.7.5.2.8, table 45.
func (at *endpoint) SetMinRNRTimer(field uint8) error {
	return at.set("set minimum RNR timer", func(o *options) error {
		if at.kind != qp.RC {
			return reason.BadArgument(0, 0, "set minimum RNR timer: expected service type RC, found %v", at.kind)
		}
		if field > 31 {
			return reason.BadArgument(0, 0, "set minimum RNR timer: expected 0..31, found %d", field)
		}
		o.minRNR, o.minRNRSet = field, true
		return nil
	})
}

// SetUDPPorts sets the UDP ports of the id's device and of the peer's; 0 means
// 4791, which all implementations but softrdma use. It takes effect before Bind and
// ResolveAddr. librdmacm has no counterpart.
func (at *endpoint) SetUDPPorts(local, remote uint16) error {
	return at.set("set UDP ports", func(o *options) error {
		o.device.UDPPort, o.remoteUDP = local, remote
		return nil
	})
}

// SetResponseTimeout sets how long the peer may take to answer, 4.096 µs × 2^field,
// and how often a message is retransmitted. Zero means Linux's values, 4.3 s and 15
// times. librdmacm has no counterpart.
func (at *endpoint) SetResponseTimeout(field, retries uint8) error {
	return at.set("set response timeout", func(o *options) error {
		if field > 31 || retries > 15 {
			return reason.BadArgument(0, 0, "set response timeout: expected 0..31 and 0..15 retries, found %d and %d", field, retries)
		}
		o.responseTimeout, o.retries = field, retries
		return nil
	})
}

// responseTime returns the response timeout.
func (o *options) responseTime() time.Duration {
	if o.responseTimeout == 0 {
		return 0
	}
	return 4096 * time.Nanosecond << o.responseTimeout
}

// udp returns the address with its UDP port.
func udp(a netip.Addr, port uint16) netip.AddrPort {
	if port == 0 {
		port = ib.UDPPort
	}
	return netip.AddrPortFrom(a, port)
}
