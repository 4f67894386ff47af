package verbs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/netip"
	"testing"

	"softrdma/internal/link/trust"
)

// Somebody on the path, who lacks the secret, can connect an end to itself: both sides have the same key. The end that has
// dialled another host notices that it is shown its own certificate.
func TestAttackSharedSecretConnectsNoEndToItself(t *testing.T) {
	end := func() *tls.Config {
		c, err := SharedSecret([]byte("thirty-two bytes of a test secret"))
		if err != nil {
			t.Fatal(err)
		}
		return trust.Complete(c, "x")
	}
	a, b := end(), end()
	shown := func(c *tls.Config) tls.ConnectionState {
		x, err := x509.ParseCertificate(c.Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return tls.ConnectionState{PeerCertificates: []*x509.Certificate{x}}
	}
	far, here := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("127.0.0.1")
	for _, c := range []struct {
		what string
		peer netip.Addr
		of   *tls.Config
		ok   bool
	}{
		{"another end", far, b, true},
		{"this end, at another host's address", far, a, false},
		{"another device of this program", here, a, true},
	} {
		err := trust.Dialling(a, c.peer).VerifyConnection(shown(c.of))
		if (err == nil) != c.ok || err != nil && !errors.Is(err, trust.ErrUntrusted) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	other, err := SharedSecret([]byte("another secret of a good many bytes"))
	if err != nil {
		t.Fatal(err)
	}
	if err := trust.Dialling(a, far).VerifyConnection(shown(other)); !errors.Is(err, trust.ErrUntrusted) {
		t.Errorf("another secret: %v", err)
	}
}
