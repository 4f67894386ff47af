// Package tlsfiles reads a TLS configuration from files that flags or environment variables name. It opens no device and
// prints no warnings.
package tlsfiles

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"softrdma/verbs"
)

// Files are the names of files, each "" if it is not given: either Secret, or all others.
type Files struct {
	Secret      string // shared by both ends
	Certificate string // of this end, with its chain; PEM
	Key         string // of the certificate; PEM
	Authorities string // certificates of those that sign the peers' certificates; PEM
}

// Variables are the environment variables with the names of files.
var Variables = Files{"SOFTRDMA_PSK_FILE", "SOFTRDMA_TLS_CERT", "SOFTRDMA_TLS_KEY", "SOFTRDMA_TLS_CA"}

// ErrChoice is matched by the error about names that do not belong together.
var ErrChoice = errors.New("expected either a secret or certificates")

// All returns the fields.
func (f *Files) All() []*string { return []*string{&f.Secret, &f.Certificate, &f.Key, &f.Authorities} }

// FromEnvironment loads the configuration that the environment names, nil if it names none.
func FromEnvironment() (*tls.Config, error) {
	f, names := Variables, Variables
	for _, p := range f.All() {
		name := *p
		var set bool
		if *p, set = os.LookupEnv(name); set && *p == "" {
			return nil, fmt.Errorf("%s: expected the name of a file, found an empty one", name)
		}
	}
	return f.Load(names, "")
}

// Load reads the files, and returns the configuration of either end, nil if no file is given. Both ends have to prove
// who they are: the peer's certificate must be valid for host or, if host is empty or an address, for the address that is dialled.
// Errors call each file as names does.
func (f Files) Load(names Files, host string) (*tls.Config, error) {
	given := 0
	for _, p := range f.All() {
		if *p != "" {
			given++
		}
	}
	switch {
	case given == 0:
		return nil, nil
	case f.Secret != "" && given > 1:
		return nil, fmt.Errorf("%s and %s: %w", names.Secret, names.Certificate, ErrChoice)
	case f.Secret != "":
		return f.secret(names)
	case given < 3:
		return nil, fmt.Errorf("%w: each end presents a certificate and verifies the peer's, which takes all of %s, %s and %s", ErrChoice, names.Certificate, names.Key, names.Authorities)
	}
	own, err := f.own(names)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(f.Authorities)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", names.Authorities, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("%s: expected certificates in PEM, found none in %s", names.Authorities, f.Authorities)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		host = ""
	}
	return &tls.Config{
		Certificates: []tls.Certificate{own}, RootCAs: pool, ServerName: host,
		ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}

// secret ignores white space around the secret.
func (f *Files) secret(names Files) (*tls.Config, error) {
	b, err := os.ReadFile(f.Secret)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", names.Secret, err)
	}
	cfg, err := verbs.SharedSecret(bytes.TrimSpace(b))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", names.Secret, err)
	}
	return cfg, nil
}

// own reads the certificate chain of this end and its key.
func (f *Files) own(names Files) (c tls.Certificate, err error) {
	chain, err := os.ReadFile(f.Certificate)
	if err != nil {
		return c, fmt.Errorf("%s: %w", names.Certificate, err)
	}
	key, err := os.ReadFile(f.Key)
	if err != nil {
		return c, fmt.Errorf("%s: %w", names.Key, err)
	}
	if bytes.Contains(key, []byte("ENCRYPTED")) {
		return c, fmt.Errorf("%s: expected a private key without a passphrase, found an encrypted one in %s (openssl pkey -in %s removes it)", names.Key, f.Key, f.Key)
	}
	if c, err = tls.X509KeyPair(chain, key); err != nil {
		err = fmt.Errorf("%s %s, %s %s: expected a certificate and its private key: %w", names.Certificate, f.Certificate, names.Key, f.Key, err)
	}
	return c, err
}
