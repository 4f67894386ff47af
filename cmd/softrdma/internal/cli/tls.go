package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/spf13/cobra"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// Flags of TLS, for iWARP devices.
const (
	SecretFlag      = "psk-file"
	CertificateFlag = "tls-cert"
	KeyFlag         = "tls-key"
	AuthorityFlag   = "tls-ca"
)

func addTLSFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.String(SecretFlag, "", "iWARP: use TLS with a shared secret, the content of `FILE` (for example from openssl rand -base64 32)")
	f.String(CertificateFlag, "", "iWARP: use TLS with the certificate chain in `FILE` (PEM); needs --tls-key and --tls-ca")
	f.String(KeyFlag, "", "private key of --tls-cert, in `FILE` (PEM)")
	f.String(AuthorityFlag, "", "certificates of the authorities that sign the peers' certificates, in `FILE` (PEM)")
}

// TLSFlags returns the TLS flags that the user gave, as arguments.
func TLSFlags(cmd *cobra.Command) (args []string) {
	for _, name := range [...]string{SecretFlag, CertificateFlag, KeyFlag, AuthorityFlag} {
		if v := FlagText(cmd, name); v != "" {
			args = append(args, "--"+name+"="+v)
		}
	}
	return args
}

// tlsConfig returns the TLS configuration that the flags ask for, or nil. The peer's
// certificate must be valid for host or, if host is empty, for the address that is
// dialled.
func tlsConfig(cmd *cobra.Command, host string) (*tls.Config, error) {
	var files [4]string
	given := 0
	for i, name := range [...]string{SecretFlag, CertificateFlag, KeyFlag, AuthorityFlag} {
		files[i] = FlagText(cmd, name)
		if files[i] != "" {
			given++
		}
	}
	switch {
	case given == 0:
		return nil, nil
	case files[0] != "" && given > 1:
		return nil, UsageErrorf("--%s and --%s: expected either a secret or certificates", SecretFlag, CertificateFlag)
	case files[0] != "":
		b, err := os.ReadFile(files[0])
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", SecretFlag, err)
		}
		warnIfReadable(cmd.ErrOrStderr(), files[0])
		cfg, err := verbs.SharedSecret(bytes.TrimSpace(b))
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", SecretFlag, err)
		}
		return cfg, nil
	case given < 3:
		return nil, UsageErrorf("expected all of --%s, --%s and --%s: each end presents a certificate and verifies the peer's", CertificateFlag, KeyFlag, AuthorityFlag)
	}
	own, err := tls.LoadX509KeyPair(files[1], files[2])
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", CertificateFlag, err)
	}
	b, err := os.ReadFile(files[3])
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", AuthorityFlag, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("--%s: expected certificates in PEM, found none in %s", AuthorityFlag, files[3])
	}
	if _, err := netip.ParseAddr(host); err == nil {
		host = ""
	}
	return &tls.Config{
		Certificates: []tls.Certificate{own}, RootCAs: pool, ServerName: host,
		ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}

// chooseIWARPDevice returns the name of a device if the user gave none but gave iWARP
// flags, which apply only to devices that are opened by name. For a client it is the
// device that reaches the peer, for a server the best one.
func chooseIWARPDevice(ctx context.Context, peer string) (string, error) {
	if peer == "" {
		return IWARPPrefix, nil
	}
	d := rdmacm.Dialer{Protocol: verbs.IWARP}
	e, err := d.Resolve(ctx, peer)
	if err != nil {
		return "", err
	}
	name := DeviceName(e.Device())
	return name, e.Close()
}

// hostOf returns the host of "host:port".
func hostOf(at string) string {
	host, _, err := net.SplitHostPort(at)
	if err != nil {
		return ""
	}
	return host
}
