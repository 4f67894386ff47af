// Package trust is shared by the links that use TLS: common settings, the choice of trusted peers, and the
// names of handshake failures. It performs no handshakes.
package trust

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net/netip"

	"softrdma/internal/link"
	"softrdma/internal/reason"
)

// ErrUntrusted is wrapped by errors of a tls.Config's VerifyConnection for a peer that is not
// trusted.
var ErrUntrusted = errors.New("not trusted")

// Complete returns a copy of a configuration for a device, with softrdma's defaults, for an ALPN name (RFC 7301).
func Complete(cfg *tls.Config, protocol string) *tls.Config {
	cfg = cfg.Clone()
	if cfg.MinVersion == 0 {
		cfg.MinVersion = tls.VersionTLS13
	}
	cfg.NextProtos = []string{protocol}
	// VerifyPeerCertificate is not called for a session that is resumed, and a ticket of another
	// listener with the same keys for tickets would be enough.
	cfg.SessionTicketsDisabled, cfg.ClientSessionCache = true, nil
	if c := secretOf(cfg); c != nil {
		cfg.Certificates = []tls.Certificate{renew(c, cfg.Certificates[0])}
	}
	if len(cfg.Certificates) == 1 && cfg.GetClientCertificate == nil {
		// crypto/tls sends no certificate to a listener that does not name its authority. The
		// listener then could not report which certificate it does not trust.
		own := &cfg.Certificates[0]
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil }
	}
	return cfg
}

// SecretName is the name in certificates by which ends show that they have a shared secret. No two devices have the same
// certificate, although all have the same key.
const SecretName = "softrdma shared secret"

// secretOf returns the certificate of a shared secret, nil if the configuration has none.
func secretOf(cfg *tls.Config) *x509.Certificate {
	if len(cfg.Certificates) != 1 || len(cfg.Certificates[0].Certificate) != 1 {
		return nil
	}
	c, err := x509.ParseCertificate(cfg.Certificates[0].Certificate[0])
	if err != nil || c.Subject.CommonName != SecretName {
		return nil
	}
	return c
}

// renew returns the same certificate with another number.
func renew(c *x509.Certificate, old tls.Certificate) tls.Certificate {
	template := *c
	var number [16]byte
	_, _ = rand.Read(number[:]) // never fails
	template.SerialNumber = new(big.Int).SetBytes(number[:])
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, c.PublicKey, old.PrivateKey)
	if err != nil {
		return old // a key of the program's own, which cannot sign
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: old.PrivateKey}
}

// Dialling returns the configuration of the device with address local for dialling a peer, whose certificate has to be for
// its address, or for the name in cfg.
func Dialling(cfg *tls.Config, local, peer netip.Addr) *tls.Config {
	cfg = cfg.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName = peer.WithZone("").String()
	}
	if own := secretOf(cfg); own != nil && local.WithZone("") != peer.WithZone("") {
		verify := cfg.VerifyConnection
		cfg.VerifyConnection = func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) != 0 && own.Equal(s.PeerCertificates[0]) {
				// An attacker on the path has connected this device to itself, which a key that all ends have does not
				// show (RFC 9257, 4.1).
				return fmt.Errorf("%v shows the certificate of this device, %v: the connection leads back to it: %w", peer, local, ErrUntrusted)
			}
			if verify == nil {
				return nil
			}
			return verify(s)
		}
	}
	return cfg
}

// Proved reports whether a peer that has called would be trusted if it were dialled, as crypto/tls
// checks it. The handshake has ended.
func Proved(s tls.ConnectionState, cfg *tls.Config, peer netip.Addr) bool {
	if len(s.PeerCertificates) == 0 {
		return false
	}
	if cfg.InsecureSkipVerify { // VerifyConnection decides, which has been called
		return true
	}
	o := x509.VerifyOptions{Roots: cfg.RootCAs, DNSName: cfg.ServerName, Intermediates: x509.NewCertPool()}
	if o.DNSName == "" {
		o.DNSName = peer.WithZone("").String()
	}
	if cfg.Time != nil {
		o.CurrentTime = cfg.Time()
	}
	for _, c := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(o)
	return err == nil
}

// Refusal returns the named failure for an error of a handshake in which this end does not trust
// the peer, and nil for another error.
func Refusal(err error) *link.Failure {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		n := len(untrusted.UnverifiedCertificates)
		return &link.Failure{
			Detail: reason.Detail{Reason: reason.TLSTrust, Expected: 1, Found: uint64(n)},
			Err:    fmt.Errorf("%s: %w", whose(untrusted.UnverifiedCertificates), err),
		}
	case errors.Is(err, ErrUntrusted):
		return &link.Failure{Detail: reason.Detail{Reason: reason.TLSTrust, Expected: 1, Found: 1}, Err: err}
	}
	return nil
}

// whose returns the holder and the issuer of a peer's certificate, quoted and truncated,
// because a peer can write anything there.
func whose(chain []*x509.Certificate) string {
	if len(chain) == 0 {
		return "no certificate"
	}
	return fmt.Sprintf("certificate of %.80q, issued by %.80q", chain[0].Subject.String(), chain[0].Issuer.String())
}
