package tcp

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/link/trust"
	"softrdma/internal/reason"
)

// certificate makes a self-signed certificate for an address.
func certificate(t *testing.T, addr string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	return namedCertificate(t, addr, "")
}

// namedCertificate makes a self-signed certificate with a subject for an address.
func namedCertificate(t *testing.T, addr, subject string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.ParseIP(addr)}, Subject: pkix.Name{CommonName: subject},
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

// trusting returns a configuration that trusts only the given certificates, whatever their
// addresses.
func trusting(t *testing.T) *tls.Config {
	c, _ := certificate(t, "127.0.0.1")
	return &tls.Config{
		Certificates: []tls.Certificate{c}, ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) != 1 || !bytes.Equal(s.PeerCertificates[0].Raw, c.Certificate[0]) {
				return trust.ErrUntrusted
			}
			return nil
		},
	}
}

// failed returns the reason of an error.
func failed(err error) reason.Reason {
	var f *link.Failure
	if !errors.As(err, &f) {
		return reason.None
	}
	return f.Detail.Reason
}

// meets dials a listener, each with its configuration or nil for plain TCP, and returns the
// results of both ends: of dialling or reading, and of accepting.
func meets(t *testing.T, dial, listen *tls.Config) (dialled, accepted error) {
	t.Helper()
	open := func(addr string, cfg *tls.Config) end {
		l, err := openConns(netip.MustParseAddr(addr), Config{}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return end{t, l}
	}
	a, b := open("127.13.3.1", dial), open("127.13.3.2", listen)
	at, ox, oy := &owner{}, &owner{}, &owner{}
	nl, err := b.l.Listen(0, 1, at)
	if err != nil {
		t.Fatal(err)
	}
	x, err := a.l.Dial(0, nl.Addr(), 0, ox)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			if err := b.await(func() bool { return at.readable }); err != nil {
				return err
			}
			y, err := nl.Accept(oy)
			if err != nil {
				return err
			}
			if err := b.await(func() bool { return oy.readable }); err != nil {
				return err
			}
			_, err = y.Read([][]byte{make([]byte, 64)})
			return err
		}()
	}()
	a.until(func() bool { return ox.writable })
	if dialled = x.Connected(); dialled == nil {
		if _, dialled = x.Write([][]byte{[]byte("MPA ID Req Frame....")}); dialled == nil {
			select {
			case accepted = <-done:
				if accepted == nil {
					return nil, nil
				}
				done <- accepted
			case <-time.After(40 * time.Second):
				t.Fatal("the listener heard nothing")
			}
			a.until(func() bool { return ox.readable })
			_, dialled = x.Read([][]byte{make([]byte, 64)})
		}
	} else {
		_ = x.Close()
	}
	select {
	case accepted = <-done:
	case <-time.After(40 * time.Second):
		t.Fatal("the listener heard nothing")
	}
	return dialled, accepted
}

func TestTLSTrust(t *testing.T) {
	one, ones := certificate(t, "127.13.3.2")
	other, others := certificate(t, "127.13.3.2")
	wrong, wrongs := certificate(t, "192.0.2.1")
	certs := func(c ...tls.Certificate) []tls.Certificate { return c }
	for _, c := range []struct {
		name              string
		dial, listen      *tls.Config
		dialled, accepted reason.Reason
	}{
		{"same secret", trusting(t), nil, 0, 0},
		{"another secret", trusting(t), trusting(t), reason.TLSTrust, reason.TLSHandshake},
		{"authority", &tls.Config{RootCAs: ones}, &tls.Config{Certificates: certs(one)}, 0, 0},
		{"authorities of both", &tls.Config{RootCAs: ones, Certificates: certs(other)},
			&tls.Config{Certificates: certs(one), ClientCAs: others, ClientAuth: tls.RequireAndVerifyClientCert}, 0, 0},
		{"another authority", &tls.Config{RootCAs: others}, &tls.Config{Certificates: certs(one)}, reason.TLSTrust, reason.TLSHandshake},
		{"another address", &tls.Config{RootCAs: wrongs}, &tls.Config{Certificates: certs(wrong)}, reason.TLSTrust, reason.TLSHandshake},
		{"no certificate of the client", &tls.Config{RootCAs: ones},
			&tls.Config{Certificates: certs(one), ClientCAs: others, ClientAuth: tls.RequireAndVerifyClientCert}, reason.TLSHandshake, reason.TLSHandshake},
		{"a client that is not trusted", &tls.Config{RootCAs: ones, Certificates: certs(one)},
			&tls.Config{Certificates: certs(one), ClientCAs: others, ClientAuth: tls.RequireAndVerifyClientCert}, reason.TLSHandshake, reason.TLSTrust},
		{"older version", &tls.Config{RootCAs: ones, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12},
			&tls.Config{Certificates: certs(one)}, reason.TLSHandshake, reason.TLSHandshake},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.listen == nil {
				c.listen = c.dial
			}
			dialled, accepted := meets(t, c.dial, c.listen)
			if failed(dialled) != c.dialled || failed(accepted) != c.accepted {
				t.Errorf("expected %v and %v, found %v and %v", c.dialled, c.accepted, dialled, accepted)
			}
		})
	}
}

// A caller has proved what a peer that is dialled has to: that it has the address, to authorities of peers that are dialled.
func TestTLSCallerProvesItsAddress(t *testing.T) {
	at := netip.MustParseAddr("127.13.3.1")
	one, ones := certificate(t, at.String())
	wrong, wrongs := certificate(t, "192.0.2.1")
	demands := func(roots, clients *x509.CertPool, name string) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{one}, RootCAs: roots, ServerName: name, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}
	}
	own := trusting(t)
	for _, c := range []struct {
		name   string
		calls  tls.Certificate
		listen *tls.Config
		want   bool
	}{
		{"a certificate for the address", one, demands(ones, ones, ""), true},
		{"one for another address", wrong, demands(wrongs, wrongs, ""), false},
		{"one for the name of all peers", wrong, demands(wrongs, wrongs, "192.0.2.1"), true},
		{"another name than that of all peers", one, demands(ones, ones, "host-a"), false},
		{"an authority of callers only", one, demands(wrongs, ones, ""), false},
		{"a shared secret", own.Certificates[0], own, true},
		{"no certificate", tls.Certificate{}, &tls.Config{Certificates: []tls.Certificate{one}, RootCAs: ones}, false},
	} {
		x, y := net.Pipe()
		caller := &tls.Config{InsecureSkipVerify: true}
		if c.calls.Certificate != nil {
			caller.Certificates = []tls.Certificate{c.calls}
		}
		client, server := tls.Client(x, trust.Complete(caller, mpaProtocol)), tls.Server(y, trust.Complete(c.listen, mpaProtocol))
		done := make(chan error, 1)
		go func() { done <- client.HandshakeContext(t.Context()) }()
		if err := errors.Join(server.HandshakeContext(t.Context()), <-done); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := trust.Proved(server.ConnectionState(), c.listen, at); got != c.want {
			t.Errorf("%s: expected %v, found %v", c.name, c.want, got)
		}
		_ = errors.Join(x.Close(), y.Close())
	}
}

// A client sends its certificate also to a listener that does not list its authority, so that
// both ends can name the untrusted certificate.
func TestTLSClientOfAnotherAuthority(t *testing.T) {
	one, ones := namedCertificate(t, "127.13.3.2", "server")
	other, _ := namedCertificate(t, "127.13.3.1", "client")
	dialled, accepted := meets(t, &tls.Config{RootCAs: ones, Certificates: []tls.Certificate{other}},
		&tls.Config{Certificates: []tls.Certificate{one}, ClientCAs: ones, ClientAuth: tls.RequireAndVerifyClientCert})
	if failed(accepted) != reason.TLSTrust || !strings.Contains(accepted.Error(), `"CN=client"`) {
		t.Errorf("expected TLS_TRUST and the client's subject, the listener heard %v", accepted)
	}
	if failed(dialled) != reason.TLSHandshake || !strings.Contains(dialled.Error(), "unknown certificate authority") {
		t.Errorf("expected TLS_HANDSHAKE and the listener's alert, the client heard %v", dialled)
	}
}

// The names in a certificate are truncated and quoted in errors.
func TestTLSQuotesTheCertificate(t *testing.T) {
	one, _ := namedCertificate(t, "127.13.3.2", "a\nb"+strings.Repeat("c", 1000))
	_, others := namedCertificate(t, "127.13.3.2", "other")
	dialled, _ := meets(t, &tls.Config{RootCAs: others}, &tls.Config{Certificates: []tls.Certificate{one}})
	if failed(dialled) != reason.TLSTrust || len(dialled.Error()) > 600 || strings.Contains(dialled.Error(), "\n") {
		t.Errorf("expected TLS_TRUST in one line, found %v", dialled)
	}
}

// Errors distinguish a peer that ends the connection before it sends anything from one that
// never answers.
func TestTLSPeersThatSayNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		with func(*net.TCPConn)
		says string
	}{
		{"end", func(*net.TCPConn) {}, "before it sent anything"},
		{"reset", func(c *net.TCPConn) { _ = c.SetLinger(0) }, "before it sent anything"},
		{"part of an answer", func(c *net.TCPConn) { _, _ = c.Write([]byte{22, 3, 3}) }, "EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nl, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
			if err != nil {
				t.Fatal(err)
			}
			defer nl.Close()
			go func() {
				if p, err := nl.AcceptTCP(); err == nil {
					_, _ = io.ReadAtLeast(p, make([]byte, 1<<16), 1)
					c.with(p)
					_ = p.Close()
				}
			}()
			raw, err := net.DialTCP("tcp", nil, nl.Addr().(*net.TCPAddr))
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			loopback := netip.MustParseAddr("127.0.0.1")
			_, err = client(t.Context(), systemConn{raw}, trust.Complete(trusting(t), mpaProtocol), loopback, loopback)
			if failed(err) != reason.TLSHandshake || !strings.Contains(err.Error(), c.says) {
				t.Errorf("expected TLS_HANDSHAKE and %q, found %v", c.says, err)
			}
		})
	}
	t.Run("silence", func(t *testing.T) {
		s := &socket{}
		if err := s.failure(context.DeadlineExceeded, false); failed(err) != reason.TLSHandshake || !strings.Contains(err.Error(), "within 10s") {
			t.Errorf("expected TLS_HANDSHAKE and the time, found %v", err)
		}
	})
}

// A peer without TLS gets an alert that MPA recognises.
func TestTLSRefusesPlain(t *testing.T) {
	dialled, accepted := meets(t, nil, trusting(t))
	if failed(accepted) != reason.TLSPlain || !strings.Contains(accepted.Error(), "77") {
		t.Errorf("the listener heard %v", accepted)
	}
	if dialled != nil {
		t.Errorf("expected an alert to read, found %v", dialled)
	}
}

// A TLS server of another protocol is not mistaken for an MPA server.
func TestTLSWantsItsApplicationProtocol(t *testing.T) {
	secret := trusting(t)
	nl, err := tls.Listen("tcp", "127.0.0.1:0", secret)
	if err != nil {
		t.Fatal(err)
	}
	var serves sync.WaitGroup
	defer serves.Wait() // other tests count descriptors
	defer nl.Close()
	serves.Go(func() {
		if c, err := nl.Accept(); err == nil {
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	})
	l, err := OpenTLS(netip.MustParseAddr("127.0.0.1"), Config{}, secret)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, o := end{t, l}, &owner{}
	x, err := l.Dial(0, netip.MustParseAddrPort(nl.Addr().String()), 0, o)
	if err != nil {
		t.Fatal(err)
	}
	a.until(func() bool { return o.writable })
	if err := x.Connected(); failed(err) != reason.TLSHandshake || !strings.Contains(err.Error(), "expected ALPN "+mpaProtocol) {
		t.Errorf("found %v", err)
	}
}

// An end of TCP without TLS's end, and a modified record, are failures.
func TestTLSTruncationIsAFailure(t *testing.T) {
	for name, f := range map[string]func(below *net.TCPConn){
		"FIN":     func(c *net.TCPConn) { _ = c.CloseWrite() },
		"garbage": func(c *net.TCPConn) { _, _ = c.Write([]byte("\x17\x03\x03\x00\x20" + strings.Repeat("x", 32))) },
	} {
		t.Run(name, func(t *testing.T) {
			secret := trusting(t)
			k := opener(func(a netip.Addr, c Config) (link.Streams, error) { return OpenTLS(a, c, secret) })
			a, b := k.open(t, "127.13.3.3"), k.open(t, "127.13.3.4")
			x, y, ox, _ := streams(a, b)
			if _, err := y.Write([][]byte{[]byte("data")}); err != nil {
				t.Fatal(err)
			}
			a.until(func() bool { return ox.readable })
			if n, err := x.Read([][]byte{make([]byte, 64)}); n != 4 || err != nil {
				t.Fatal(n, err)
			}
			f(y.(*conn).raw.(systemConn).TCPConn)
			a.until(func() bool { return ox.hangup })
			if _, err := x.Read([][]byte{make([]byte, 64)}); failed(err) != reason.TLSLost {
				t.Errorf("found %v", err)
			}
		})
	}
}

// When links are closed, in any state, their goroutines end.
func TestConnsLeaveNoGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	secret := trusting(t)
	for range 5 {
		k := opener(func(a netip.Addr, c Config) (link.Streams, error) { return OpenTLS(a, c, secret) })
		la, _ := k(netip.MustParseAddr("127.13.3.5"), Config{})
		lb, _ := k(netip.MustParseAddr("127.13.3.6"), Config{})
		a, b := end{t, la}, end{t, lb}
		x, _, _, _ := streams(a, b)
		if _, err := x.Write([][]byte{make([]byte, 4*ringLen)}); err != nil {
			t.Fatal(err)
		}
		nl, err := lb.Listen(0, 1, &owner{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := la.Dial(0, nl.Addr(), 0, &owner{}); err != nil { // still in its handshake
			t.Fatal(err)
		}
		if err := errors.Join(lb.Close(), la.Close()); err != nil {
			t.Error(err)
		}
	}
	for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, before %d\n%s", runtime.NumGoroutine(), before, b[:runtime.Stack(b, true)])
		}
	}
}
