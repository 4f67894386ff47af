package main

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

// The flags that openDevice opens iWARP devices with TLS by.
const (
	secretFlag      = "psk-file"
	certificateFlag = "tls-cert"
	keyFlag         = "tls-key"
	authorityFlag   = "tls-ca"
)

func addSecurityFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.String(secretFlag, "", "iWARP over TLS, with the peers that have the same secret: random bytes or text in `FILE`, such as of openssl rand -base64 32")
	f.String(certificateFlag, "", "iWARP over TLS, with certificates: this end's, and those on its way to the authority, in `FILE` (PEM); with both of:")
	f.String(keyFlag, "", "private key of --tls-cert in `FILE` (PEM)")
	f.String(authorityFlag, "", "certificates of the authorities that peers' have to be of, in `FILE` (PEM)")
}

// securityFlags are those that were given, as arguments.
func securityFlags(cmd *cobra.Command) (args []string) {
	for _, name := range [...]string{secretFlag, certificateFlag, keyFlag, authorityFlag} {
		if v := flagText(cmd, name); v != "" {
			args = append(args, "--"+name+"="+v)
		}
	}
	return args
}

// security is what the flags say of TLS, nil for none. The peer's certificate
// has to be of host, or where that is empty of the address that is dialled.
func security(cmd *cobra.Command, host string) (*tls.Config, error) {
	var files [4]string
	given := 0
	for i, name := range [...]string{secretFlag, certificateFlag, keyFlag, authorityFlag} {
		if files[i] = flagText(cmd, name); files[i] != "" {
			given++
		}
	}
	switch {
	case given == 0:
		return nil, nil
	case files[0] != "" && given > 1:
		return nil, usageErrorf("--%s and --%s: expected a secret or certificates", secretFlag, certificateFlag)
	case files[0] != "":
		b, err := os.ReadFile(files[0])
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", secretFlag, err)
		}
		warnOfReaders(cmd.ErrOrStderr(), files[0])
		cfg, err := verbs.SharedSecret(bytes.TrimSpace(b))
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", secretFlag, err)
		}
		return cfg, nil
	case given < 3:
		return nil, usageErrorf("expected all of --%s, --%s and --%s: both ends show a certificate and check the other's", certificateFlag, keyFlag, authorityFlag)
	}
	own, err := tls.LoadX509KeyPair(files[1], files[2])
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", certificateFlag, err)
	}
	b, err := os.ReadFile(files[3])
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", authorityFlag, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("--%s: expected certificates in PEM, found none in %s", authorityFlag, files[3])
	}
	if _, err := netip.ParseAddr(host); err == nil {
		host = ""
	}
	return &tls.Config{
		Certificates: []tls.Certificate{own}, RootCAs: pool, ServerName: host,
		ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}, nil
}

// chosenDevice is the name of a device for TLS where the user named none: one
// with TLS has to be opened by name. A client's is that by which the peer is
// reached, a server's the best.
func chosenDevice(ctx context.Context, peer string) (string, error) {
	if peer == "" {
		return iwarpPrefix, nil
	}
	d := rdmacm.Dialer{Protocol: verbs.IWARP}
	e, err := d.Resolve(ctx, peer)
	if err != nil {
		return "", err
	}
	name := deviceName(e.Device())
	return name, e.Close()
}

// hostOf is the host of "host:port".
func hostOf(at string) string {
	host, _, err := net.SplitHostPort(at)
	if err != nil {
		return ""
	}
	return host
}
