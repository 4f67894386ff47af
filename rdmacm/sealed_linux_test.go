package rdmacm

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"syscall"
	"testing"
	"time"

	"softrdma/verbs"
)

// openSealed opens a RoCE v2 device with TLS, or in the clear.
func openSealed(t *testing.T, at string, security *tls.Config) *verbs.Device {
	t.Helper()
	dev, err := verbs.Open(at, verbs.Config{TLS: security})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	return dev
}

// counter waits until a device has counted a reason.
func counter(t *testing.T, dev *verbs.Device, name string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for k, n := range dev.Counters() {
			if k == name && n > 0 {
				return
			}
		}
	}
	t.Errorf("the device has not counted %s", name)
}

// Ends of which one does not encrypt, or has another secret, do not connect, and both say why. Nothing is sent in the
// clear by the end that encrypts.
func TestSealedEndsThatDoNotFit(t *testing.T) {
	one := secret(t, "what one end knows alone")
	for name, c := range map[string]struct {
		listens, dials *tls.Config
		want, counted  string
	}{
		"the dialer has none":   {one, nil, "", "PSP_CLEAR"},
		"the listener has none": {nil, one, "PSP_PEER", ""},
		"another secret":        {one, secret(t, "what the other end knows"), "TLS_TRUST", "TLS_HANDSHAKE"},
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			server, client := openSealed(t, serverIP, c.listens), openSealed(t, clientIP, c.dials)
			l, err := Listen(serverIP+":0", ListenConfig{Device: server})
			if err != nil {
				t.Fatal(err)
			}
			defer closed(t, l)
			d := Dialer{Device: client, Retries: 1, ResponseTimeout: 14}
			_, err = d.Dial(within(t), l.Addr().String())
			var why verbs.ReasonError
			if !errors.As(err, &why) || c.want != "" && why.Reason() != c.want {
				t.Errorf("expected %s, found %v", c.want, err)
			}
			if c.counted != "" {
				counter(t, server, c.counted)
			}
		})
	}
}

// A server answers a client whose certificate is not for the client's address, and does not connect to it.
func TestSealedClientWithAnotherName(t *testing.T) {
	leavesNothing(t)
	cert, pool := authority(t, serverIP)
	other, others := authority(t, "192.0.2.77")
	server := openSealed(t, serverIP, &tls.Config{
		Certificates: []tls.Certificate{cert}, RootCAs: others, ClientCAs: others, ClientAuth: tls.RequireAndVerifyClientCert,
	})
	client := openSealed(t, clientIP, &tls.Config{
		Certificates: []tls.Certificate{other}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	})
	l, err := Listen(serverIP+":0", ListenConfig{Device: server, QP: verbs.QPConfig{MaxInline: 64}})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, l)
	accept := accepted(t, l)
	c, err := (&Dialer{Device: client, QP: verbs.QPConfig{MaxInline: 64}}).Dial(within(t), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, c)
	s := accept()
	defer closed(t, s)
	talk(t, c, s, "for this server only")

	var why verbs.ReasonError
	if _, err := (&Dialer{Device: server}).Dial(within(t), clientIP+":7"); !errors.As(err, &why) || why.Reason() != "TLS_TRUST" && why.Reason() != "TLS_HANDSHAKE" {
		t.Errorf("the server connected to a client that has not proved who it is: %v", err)
	}
}

// A client that trusts the server has its key before the server has seen the client's certificate. If the server does not
// trust it, the client says so, instead of that the server does not answer, at the first attempt and at the next one.
func TestSealedClientThatTheServerDoesNotTrust(t *testing.T) {
	leavesNothing(t)
	cert, pool := authority(t, serverIP)
	own, _ := authority(t, clientIP)
	_, others := authority(t, "192.0.2.77")
	server := openSealed(t, serverIP, &tls.Config{
		Certificates: []tls.Certificate{cert}, RootCAs: others, ClientCAs: others, ClientAuth: tls.RequireAndVerifyClientCert,
	})
	client := openSealed(t, clientIP, &tls.Config{
		Certificates: []tls.Certificate{own}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
	})
	l, err := Listen(serverIP+":0", ListenConfig{Device: server})
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, l)
	for range 2 {
		var why verbs.ReasonError
		if _, err := (&Dialer{Device: client}).Dial(within(t), l.Addr().String()); !errors.As(err, &why) || why.Reason() != "TLS_HANDSHAKE" {
			t.Errorf("expected TLS_HANDSHAKE, found %v", err)
		} else if late := (net.Error)(nil); !errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &late) && late.Timeout() {
			t.Errorf("expected a refusal and no time-out, found %v", err)
		}
	}
	counter(t, server, "TLS_TRUST")
}

// A device that was closed and opened again is met again.
func TestSealedPeerBeginsAnew(t *testing.T) {
	leavesNothing(t)
	both := secret(t, "what both ends know of each other")
	client := openSealed(t, clientIP, both)
	for range 3 {
		server := openSealed(t, serverIP, both)
		l, err := Listen(serverIP+":0", ListenConfig{Device: server, QP: verbs.QPConfig{MaxInline: 64}})
		if err != nil {
			t.Fatal(err)
		}
		accept := accepted(t, l)
		c, err := (&Dialer{Device: client, QP: verbs.QPConfig{MaxInline: 64}}).Dial(within(t), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		s := accept()
		talk(t, c, s, "again")
		closed(t, c)
		closed(t, s)
		closed(t, l)
		closed(t, server)
	}
}

// A dialer whose context ends does not wait for a peer that does not agree on keys.
func TestSealedDialEndsWithItsContext(t *testing.T) {
	leavesNothing(t)
	silent, err := net.ListenPacket("udp", serverIP+":4791")
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, silent)
	client := openSealed(t, clientIP, secret(t, "nobody asks for this"))
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _, _ = silent.ReadFrom(make([]byte, 2048))
		cancel()
	}()
	if _, err := (&Dialer{Device: client}).Dial(ctx, serverIP+":7"); !errors.Is(err, context.Canceled) {
		t.Errorf("expected the end of the context, found %v", err)
	}
	for name, n := range client.Counters() {
		if n > 0 && (name == "PSP_SILENT" || name == "TLS_HANDSHAKE") {
			t.Errorf("the dialer waited until the call had failed: %s", name)
		}
	}
	closed(t, client)
	<-ended
}

// What a device that encrypts cannot have is refused when it is opened.
func TestSealedRefusals(t *testing.T) {
	leavesNothing(t)
	one := secret(t, "a secret that nobody uses")
	cert, pool := authority(t, serverIP)
	for name, cfg := range map[string]verbs.Config{
		"any caller":                  {TLS: &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool}},
		"a certificate of any caller": {TLS: &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool, ClientAuth: tls.RequireAnyClientCert}},
		"a certificate if there is one": {TLS: &tls.Config{
			Certificates: []tls.Certificate{cert}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven,
		}},
		"a configuration for each caller": {TLS: &tls.Config{
			Certificates: []tls.Certificate{cert}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, nil },
		}},
		"lanes": {TLS: one, Lanes: 2}, "memory only": {TLS: one, SameHost: verbs.SameHostRequire},
	} {
		if dev, err := verbs.Open(serverIP, cfg); err == nil {
			t.Errorf("%s: expected an error", name)
			closed(t, dev)
		}
	}
}

// authority makes a certificate for an address that signs itself.
func authority(t *testing.T, addr string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.ParseIP(addr)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(c)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}
