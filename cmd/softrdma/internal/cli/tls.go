package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"softrdma/internal/tlsfiles"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// Flags of TLS, for devices of RoCE v2 and iWARP.
const (
	SecretFlag      = "psk-file"
	CertificateFlag = "tls-cert"
	keyFlag         = "tls-key"
	authorityFlag   = "tls-ca"
)

// AddTLSFlags adds the flags of TLS.
func AddTLSFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.String(SecretFlag, "", "RoCE v2 and iWARP: encrypt, with a shared secret, the content of `FILE` (for example from openssl rand -base64 32)")
	f.String(CertificateFlag, "", "RoCE v2 and iWARP: encrypt, with the certificate chain in `FILE` (PEM); needs --tls-key and --tls-ca")
	f.String(keyFlag, "", "private key of --tls-cert, in `FILE` (PEM)")
	f.String(authorityFlag, "", "certificates of the authorities that sign the peers' certificates, in `FILE` (PEM)")
}

// tlsFlags are the flags of TLS. Each names a file.
var tlsFlags = [...]string{SecretFlag, CertificateFlag, keyFlag, authorityFlag}

// TLSFlags returns the TLS flags that the user gave, as arguments.
func TLSFlags(cmd *cobra.Command) (args []string) {
	for _, name := range tlsFlags {
		if FlagGiven(cmd, name) {
			args = append(args, "--"+name+"="+FlagText(cmd, name))
		}
	}
	return args
}

// CheckTLSFlags returns the files that the TLS flags name, and refuses invalid ones. Servers that open their devices only when clients
// connect call it before.
func CheckTLSFlags(cmd *cobra.Command) (files tlsfiles.Files, err error) {
	if _, err = tlsConfig(cmd, ""); err != nil {
		return files, err
	}
	return tlsFilesOf(cmd)
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

// tlsNames are the flags as messages call them.
var tlsNames = tlsfiles.Files{Secret: "--" + SecretFlag, Certificate: "--" + CertificateFlag, Key: "--" + keyFlag, Authorities: "--" + authorityFlag}

// tlsFilesOf returns the files that the TLS flags name.
func tlsFilesOf(cmd *cobra.Command) (files tlsfiles.Files, err error) {
	for i, p := range files.All() {
		if *p, err = FileOf(cmd, tlsFlags[i]); err != nil {
			return files, err
		}
	}
	return files, nil
}

// tlsConfig returns the TLS configuration of the flags, or nil. The peer's certificate must be
// valid for host or, if host is empty, for the address that is dialled. It warns once about a secret that others may
// read, and about a certificate that peers will refuse, because all that they tell this end is that it is bad.
func tlsConfig(cmd *cobra.Command, host string) (*tls.Config, error) {
	files, err := tlsFilesOf(cmd)
	if err != nil {
		return nil, err
	}
	cfg, err := files.Load(tlsNames, host)
	switch {
	case errors.Is(err, tlsfiles.ErrChoice):
		return nil, UsageErrorf("%w", err)
	case err != nil || cfg == nil:
		return nil, err
	}
	if files.Secret != "" {
		WarnIfReadable(cmd.ErrOrStderr(), SecretFlag, files.Secret)
		return cfg, nil
	}
	c := cfg.Certificates[0].Leaf
	if now := time.Now(); now.Before(c.NotBefore) || now.After(c.NotAfter) {
		warnOnce(cmd.ErrOrStderr(), CertificateFlag, files.Certificate, fmt.Sprintf("peers refuse %s: expected a certificate that is valid now, found one from %s to %s",
			files.Certificate, c.NotBefore.Format(time.RFC3339), c.NotAfter.Format(time.RFC3339)))
	}
	return cfg, nil
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
