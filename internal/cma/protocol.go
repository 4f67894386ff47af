package cma

import (
	"crypto/tls"

	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// SetProtocol sets the protocol of the id's device, before Bind and ResolveAddr.
// librdmacm has no counterpart: it finds a device by address alone, which is Any
// here.
func (at *endpoint) SetProtocol(p cmid.Protocol) error {
	return at.set("set protocol", func(o *options) error {
		if err := at.want("set protocol", cmid.Idle); err != nil {
			return err
		}
		if p > cmid.InfiniBand && p != cmid.Any {
			return reason.BadArgument(0, 0, "set protocol: expected RoCE, RoCE v1, iWARP, InfiniBand or any, found %d", p)
		}
		o.device.Protocol = p
		return nil
	})
}

// SetTLS makes the id use a device with a TLS configuration, before Bind and
// ResolveAddr. librdmacm has no counterpart.
func (at *endpoint) SetTLS(cfg *tls.Config) error {
	return at.set("set TLS", func(o *options) error {
		if err := at.want("set TLS", cmid.Idle); err != nil {
			return err
		}
		o.device.TLS = cfg
		return nil
	})
}

// iwarp reports whether the id's device speaks iWARP.
func (at *endpoint) iwarp() bool {
	if at.option.device.Protocol == cmid.Any {
		return at.dev != nil && at.dev.dev.IWARP()
	}
	return at.option.device.Protocol == cmid.IWARP
}

// checkProtocol reports whether a protocol supports an id's port space.
func (at *endpoint) checkProtocol(iwarp bool) error {
	if !iwarp || at.space == cmid.PortSpaceTCP && at.kind == qp.RC {
		return nil
	}
	return reason.NotSupported("iWARP has reliable connections in RDMA_PS_TCP alone, found %v, service type %v", at.space, at.kind)
}
