package verbs

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"

	"softrdma/internal/link/trust"
	"softrdma/internal/reason"
)

// MinSecret is the minimum length of a shared secret in bytes.
const MinSecret = 16

// SharedSecret returns a Config.TLS by which ends that know one secret trust each other and no
// other peer. The secret must be random and have at least MinSecret bytes: a host that reaches
// a listener can try guesses as fast as it can compute, so a pass-phrase is too weak. Use 32
// bytes of a random generator.
//
// HKDF (RFC 5869) derives one Ed25519 key for all ends from the secret. Each end presents a
// certificate of this key and accepts only a certificate of the same key. Each device has a certificate of its own: one that
// has dialled another address and is shown its own certificate was connected to itself by an attacker on the path, and refuses.
func SharedSecret(secret []byte) (*tls.Config, error) {
	if len(secret) < MinSecret {
		return nil, reason.BadArgument(MinSecret, uint64(len(secret)), "shared secret: expected at least %d random bytes, found %d", MinSecret, len(secret))
	}
	seed, err := hkdf.Key(sha256.New, secret, nil, "softrdma TLS key of a shared secret, 1", ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("shared secret: %w", err)
	}
	key := ed25519.NewKeyFromSeed(seed)
	public := key.Public().(ed25519.PublicKey)
	// Peers check only the key of the certificate.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: trust.SecretName}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return nil, fmt.Errorf("shared secret: %w", err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:   tls.RequireAnyClientCert,
		MinVersion:   tls.VersionTLS13,

		// VerifyConnection checks the key instead of names and authorities.
		InsecureSkipVerify:     true,
		SessionTicketsDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 1 {
				k, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
				if ok && bytes.Equal(k, public) {
					return nil
				}
			}
			return fmt.Errorf("certificate of another key than the shared secret's: %w", trust.ErrUntrusted)
		},
	}, nil
}
