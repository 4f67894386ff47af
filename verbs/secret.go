package verbs

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"time"

	"softrdma/internal/link/tcp"
	"softrdma/internal/reason"
)

// MinSecret is the least length of a shared secret in bytes.
const MinSecret = 16

// SharedSecret gives a Config.TLS by which ends that know one secret, and nobody
// else, trust each other. The secret must be random: whoever reaches a listener
// can try guesses at it as fast as his machine allows, so a pass-phrase is none.
// 32 bytes of a random generator are right.
//
// Of the secret comes, by HKDF (RFC 5869), the one Ed25519 key of all ends. Each
// shows a certificate of it and wants that of the other to be of the same key.
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
	// Nothing of the certificate counts but the key.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		return nil, fmt.Errorf("shared secret: %w", err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:   tls.RequireAnyClientCert,
		MinVersion:   tls.VersionTLS13,

		// Names and authorities say nothing here; the key does, below.
		InsecureSkipVerify:     true,
		SessionTicketsDisabled: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 1 {
				k, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
				if ok && bytes.Equal(k, public) {
					return nil
				}
			}
			return fmt.Errorf("another key than the shared secret's: %w", tcp.ErrUntrusted)
		},
	}, nil
}
