package verbs

import (
	"crypto/tls"
	"errors"
	"net/netip"
	"syscall"

	"softrdma/internal/frame/rocev2"
	"softrdma/internal/host"
	"softrdma/internal/link/sealed"
	"softrdma/internal/link/udp"
	"softrdma/internal/reason"
	"softrdma/internal/samehost"
	"softrdma/internal/wire/psp"
)

// seals reports whether a device encrypts RoCE v2.
func (c *Config) seals(p Protocol) bool { return c.TLS != nil && p == RoCE }

// checkSealed refuses what a device that encrypts RoCE v2 cannot have. Its packets all take the network: there each
// is encrypted for a peer that has proved who it is.
func (p *opening) checkSealed(cfg *Config) error {
	switch {
	case !cfg.seals(p.protocol):
		return nil
	case !verifiesCallers(cfg.TLS):
		return reason.NotSupported("TLS of RoCE v2: expected ClientAuth RequireAndVerifyClientCert, or RequireAnyClientCert with VerifyConnection, found %v: "+
			"each end calls the other, and the keys of an address are for all of its connections", cfg.TLS.ClientAuth)
	case cfg.TLS.GetConfigForClient != nil:
		return reason.NotSupported("TLS of RoCE v2: expected no GetConfigForClient, which may accept any caller")
	case cfg.Lanes > 1:
		return reason.NotSupported("lanes: expected 1 of a RoCE v2 device with TLS, as the queue pair of a packet is encrypted, found %d", cfg.Lanes)
	case p.mode == samehost.Require:
		return reason.Detail{Reason: reason.HostTransport, Expected: 1}.Err()
	}
	p.mode = samehost.Off
	return nil
}

// verifiesCallers reports whether an end accepts only callers that it trusts. Without that anyone on the path could
// cut the connection to a peer, call in its place, and get the keys of connections that are open.
func verifiesCallers(t *tls.Config) bool {
	switch t.ClientAuth {
	case tls.RequireAndVerifyClientCert:
		return true
	case tls.RequireAnyClientCert:
		return t.VerifyConnection != nil || t.VerifyPeerCertificate != nil
	}
	return false
}

// openSealed opens the link of a device that encrypts RoCE v2.
func openSealed(c *host.Choice, cfg *Config) (l links, err error) {
	over, err := udp.OpenLanes(netip.AddrPortFrom(c.Addr.Addr(), psp.Port), udpConfig(c, cfg), 1)
	if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EADDRINUSE) {
		// Peers are told the port. This one needs a privilege, and another device may have it.
		over, err = udp.OpenLanes(netip.AddrPortFrom(c.Addr.Addr(), 0), udpConfig(c, cfg), 1)
	}
	if err != nil {
		return l, err
	}
	if l.sealed, err = sealed.Open(c.Addr, over[0], cfg.TLS, cfg.refused()); err != nil {
		return l, err
	}
	l.networks = rocev2.Networks([]*sealed.Device{l.sealed})
	return l, nil
}
