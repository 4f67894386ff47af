package verbs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/netip"
	"testing"

	"softrdma/internal/link/trust"
)

// All ends with a secret have the same key. An attacker on the path, who lacks the secret, can therefore connect an end to
// itself. The end refuses if it has dialled another address and is shown its own certificate.
func TestAttackSharedSecretConnectsNoEndToItself(t *testing.T) {
	program, err := SharedSecret([]byte("thirty-two bytes of a test secret"))
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := SharedSecret([]byte("another secret of a good many bytes"))
	if err != nil {
		t.Fatal(err)
	}
	a, b := trust.Complete(program, "x"), trust.Complete(program, "x")
	own, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for _, c := range []struct {
		what  string
		peer  netip.Addr
		shows *tls.Config
		ok    bool
	}{
		{"another device of the program", other, b, true},
		{"this device, at another address", other, a, false},
		{"this device", own, a, true},
		{"another secret", other, trust.Complete(stranger, "x"), false},
	} {
		shown, err := x509.ParseCertificate(c.shows.Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		err = trust.Dialling(a, own, c.peer).VerifyConnection(tls.ConnectionState{PeerCertificates: []*x509.Certificate{shown}})
		if (err == nil) != c.ok || err != nil && !errors.Is(err, trust.ErrUntrusted) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
