package cli

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// writePEM writes a block to a file of a directory and returns its path.
func writePEM(t *testing.T, dir, name, kind string, b []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// writePair writes a self-signed certificate that is valid until end, and its key.
func writePair(t *testing.T, name string, end time.Time) (cert, key string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: end.Add(-time.Hour), NotAfter: end}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return writePEM(t, dir, name+".pem", "CERTIFICATE", der), writePEM(t, dir, name+".key", "PRIVATE KEY", pkcs8)
}

// The error names each invalid file with its flag, and what was expected.
func TestCertificateFilesThatDoNotFit(t *testing.T) {
	cert, key := writePair(t, "one", time.Now().Add(time.Hour))
	_, otherKey := writePair(t, "other", time.Now().Add(time.Hour))
	old, oldKey := writePair(t, "old", time.Now().Add(-time.Minute))
	sealed := writePEM(t, t.TempDir(), "sealed.key", "ENCRYPTED PRIVATE KEY", []byte("anything"))
	for _, c := range []struct {
		name, cert, key, ca string
		fails               string // "" means success
		says                []string
	}{
		{"fit", cert, key, cert, "", nil},
		{"expired", old, oldKey, cert, "", []string{"warning: --tls-cert", old, "valid now"}},
		{"key of another certificate", cert, otherKey, cert, "expected a certificate and its private key", []string{cert, otherKey}},
		{"changed places", key, cert, cert, "expected a certificate and its private key", []string{key, cert}},
		{"no key", cert, "none.key", cert, "--tls-key: open none.key", nil},
		{"no certificate", "none.pem", key, cert, "--tls-cert: open none.pem", nil},
		{"no authority", cert, key, "none.pem", "--tls-ca: open none.pem", nil},
		{"a key as authority", cert, key, key, "--tls-ca: expected certificates in PEM", []string{key}},
		{"encrypted key", cert, sealed, cert, "--tls-key: expected a private key without a passphrase", []string{sealed}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			cmd := &cobra.Command{Use: "x"}
			cmd.SetErr(&out)
			AddTLSFlags(cmd)
			if err := cmd.ParseFlags([]string{"--tls-cert", c.cert, "--tls-key", c.key, "--tls-ca", c.ca}); err != nil {
				t.Fatal(err)
			}
			cfg, err := tlsConfig(cmd, "")
			text := out.String()
			if err != nil {
				text += err.Error()
			}
			if (err != nil) != (c.fails != "") || (cfg == nil) != (c.fails != "") || !strings.Contains(text, c.fails) {
				t.Errorf("expected an error with %q, found %q", c.fails, text)
			}
			for _, s := range c.says {
				if !strings.Contains(text, s) {
					t.Errorf("expected %q, found %q", s, text)
				}
			}
			if c.fails == "" && c.says == nil && text != "" {
				t.Errorf("expected no message, found %q", text)
			}
		})
	}
}
