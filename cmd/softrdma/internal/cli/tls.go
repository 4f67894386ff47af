package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/spf13/cobra"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// Flags of TLS, for devices of RoCE v2 and iWARP.
const (
	SecretFlag      = "psk-file"
	CertificateFlag = "tls-cert"
	KeyFlag         = "tls-key"
	AuthorityFlag   = "tls-ca"
)

func addTLSFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.String(SecretFlag, "", "RoCE v2 and iWARP: encrypt, with a shared secret, the content of `FILE` (for example from openssl rand -base64 32)")
	f.String(CertificateFlag, "", "RoCE v2 and iWARP: encrypt, with the certificate chain in `FILE` (PEM); needs --tls-key and --tls-ca")
	f.String(KeyFlag, "", "private key of --tls-cert, in `FILE` (PEM)")
	f.String(AuthorityFlag, "", "certificates of the authorities that sign the peers' certificates, in `FILE` (PEM)")
}

// tlsFlags are the flags of TLS. Each names a file.
var tlsFlags = [...]string{SecretFlag, CertificateFlag, KeyFlag, AuthorityFlag}

// TLSFlags returns the TLS flags that the user gave, as arguments.
func TLSFlags(cmd *cobra.Command) (args []string) {
	for _, name := range tlsFlags {
		if FlagGiven(cmd, name) {
			args = append(args, "--"+name+"="+FlagText(cmd, name))
		}
	}
	return args
}

// CheckTLSFlags refuses invalid TLS flags. Servers that open their devices only when clients
// connect call it before.
func CheckTLSFlags(cmd *cobra.Command) error {
	_, err := tlsConfig(cmd, "")
	return err
}

// FileOf returns the file that a flag names, or "" if the user did not give the flag. It
// refuses an empty name, which comes from an unset variable: without its secret or certificate
// a command would continue unprotected.
func FileOf(cmd *cobra.Command, name string) (string, error) {
	file := FlagText(cmd, name)
	if FlagGiven(cmd, name) && file == "" {
		return "", UsageErrorf("--%s: expected the name of a file, found an empty one", name)
	}
	return file, nil
}

// tlsConfig returns the TLS configuration of the flags, or nil. The peer's certificate must be
// valid for host or, if host is empty, for the address that is dialled.
func tlsConfig(cmd *cobra.Command, host string) (*tls.Config, error) {
	var files [len(tlsFlags)]string
	given := 0
	for i, name := range tlsFlags {
		var err error
		if files[i], err = FileOf(cmd, name); err != nil {
			return nil, err
		}
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
		WarnIfReadable(cmd.ErrOrStderr(), SecretFlag, files[0])
		cfg, err := verbs.SharedSecret(bytes.TrimSpace(b))
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", SecretFlag, err)
		}
		return cfg, nil
	case given < 3:
		return nil, UsageErrorf("expected all of --%s, --%s and --%s: each end presents a certificate and verifies the peer's", CertificateFlag, KeyFlag, AuthorityFlag)
	}
	own, err := ownCertificate(cmd.ErrOrStderr(), files[1], files[2])
	if err != nil {
		return nil, err
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

// ownCertificate reads the certificate chain of this end and its key. It warns once if peers
// will refuse the certificate, because all that they tell this end is that it is bad.
func ownCertificate(out io.Writer, file, keyFile string) (tls.Certificate, error) {
	chain, err := os.ReadFile(file)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("--%s: %w", CertificateFlag, err)
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("--%s: %w", KeyFlag, err)
	}
	if bytes.Contains(key, []byte("ENCRYPTED")) {
		return tls.Certificate{}, fmt.Errorf("--%s: expected a private key without a passphrase, found an encrypted one in %s (openssl pkey -in %s removes it)", KeyFlag, keyFile, keyFile)
	}
	c, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return c, fmt.Errorf("--%s %s, --%s %s: expected a certificate and its private key: %w", CertificateFlag, file, KeyFlag, keyFile, err)
	}
	if now := time.Now(); now.Before(c.Leaf.NotBefore) || now.After(c.Leaf.NotAfter) {
		warnOnce(out, CertificateFlag, file, fmt.Sprintf("peers refuse %s: expected a certificate that is valid now, found one from %s to %s",
			file, c.Leaf.NotBefore.Format(time.RFC3339), c.Leaf.NotAfter.Format(time.RFC3339)))
	}
	return c, nil
}

// chooseDevice returns the name of a device if the user gave none but gave flags of TLS or iWARP,
// which apply only to devices that are opened by name. For a client it is the
// device that reaches the peer, for a server the best one.
func chooseDevice(ctx context.Context, peer string, p Protocol) (string, error) {
	d := rdmacm.Dialer{}
	prefix := ""
	if p.IWARP() {
		d.Protocol, prefix = verbs.IWARP, iwarpPrefix
	}
	if peer == "" {
		return prefix, nil
	}
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
