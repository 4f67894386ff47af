package tcp

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/reason"
)

const (
	// handshakeTimeout is the time limit of a handshake.
	handshakeTimeout = 10 * time.Second

	// mpaProtocol is the ALPN name of MPA.
	mpaProtocol = "softrdma-mpa"

	recordHandshake = 22 // the content type that TLS begins with (RFC 8446 5.1)
)

// goodbye answers a peer that does not begin with TLS: a fatal alert, protocol_version (RFC
// 8446 6), which an MPA initiator recognises.
var goodbye = []byte{21, 3, 1, 0, 2, 2, 70}

// secure completes a configuration with softrdma's defaults, for an ALPN name.
func secure(cfg *tls.Config, protocol string) *tls.Config {
	cfg = cfg.Clone()
	if cfg.MinVersion == 0 {
		cfg.MinVersion = tls.VersionTLS13
	}
	cfg.NextProtos = []string{cmp.Or(protocol, mpaProtocol)}
	if len(cfg.Certificates) == 1 && cfg.GetClientCertificate == nil {
		// crypto/tls sends no certificate to a listener that does not name its authority. The
		// listener then could not report which certificate it does not trust.
		own := &cfg.Certificates[0]
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil }
	}
	return cfg
}

// Proved implements link.Prover.
func (c *conn) Proved() bool {
	s, ok := c.over.(*secured)
	return ok && proved(s.ConnectionState(), c.l.security, c.remote.Addr())
}

// proved reports whether a peer that has called would be trusted if it were dialled, as crypto/tls checks it.
func proved(s tls.ConnectionState, cfg *tls.Config, peer netip.Addr) bool {
	if len(s.PeerCertificates) == 0 {
		return false
	}
	if cfg.InsecureSkipVerify { // VerifyConnection decides, which has been called
		return true
	}
	o := x509.VerifyOptions{Roots: cfg.RootCAs, DNSName: cfg.ServerName, Intermediates: x509.NewCertPool()}
	if o.DNSName == "" {
		o.DNSName = peer.WithZone("").String()
	}
	if cfg.Time != nil {
		o.CurrentTime = cfg.Time()
	}
	for _, c := range s.PeerCertificates[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := s.PeerCertificates[0].Verify(o)
	return err == nil
}

// A socket counts the bytes that TLS reads and writes, and records whether TCP ended.
type socket struct {
	*net.TCPConn
	dialled bool
	in, out atomic.Uint64
	ended   atomic.Bool
}

func (s *socket) Read(b []byte) (int, error) {
	n, err := s.TCPConn.Read(b)
	s.in.Add(uint64(n))
	if err == io.EOF {
		s.ended.Store(true)
	}
	return n, err
}

func (s *socket) Write(b []byte) (int, error) {
	n, err := s.TCPConn.Write(b)
	s.out.Add(uint64(n))
	return n, err
}

// A secured is a TLS connection whose errors have named reasons.
type secured struct {
	*tls.Conn
	below *socket
	begun bool // the peer has sent something
}

// client does the handshake of the dialling end, which requires the certificate to match the
// address, or the name in cfg.
func client(ctx context.Context, raw *net.TCPConn, cfg *tls.Config, peer netip.Addr) (transport, error) {
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName = peer.WithZone("").String()
	}
	s := &socket{TCPConn: raw, dialled: true}
	return greet(ctx, s, tls.Client(s, cfg), cfg)
}

// server does the handshake of the listening end.
func server(ctx context.Context, raw *net.TCPConn, cfg *tls.Config) (transport, error) {
	s := &socket{TCPConn: raw}
	over, err := greet(ctx, s, tls.Server(s, cfg), cfg)
	if err == nil {
		return over, nil
	}
	if header := (tls.RecordHeaderError{}); errors.As(err, &header) {
		_, _ = raw.Write(goodbye)
	}
	// Read the peer's data, because TCP would otherwise discard the alert.
	_ = raw.CloseWrite()
	_ = raw.SetReadDeadline(time.Now().Add(time.Second))
	_, _ = io.Copy(io.Discard, io.LimitReader(raw, 1<<16))
	return nil, err
}

func greet(ctx context.Context, s *socket, c *tls.Conn, cfg *tls.Config) (transport, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	err := c.HandshakeContext(ctx)
	if want := cfg.NextProtos[0]; err == nil && c.ConnectionState().NegotiatedProtocol != want {
		err = errors.New("peer speaks TLS, but not softrdma's protocol in it: expected ALPN " + want)
	}
	if err != nil {
		return nil, s.failure(err, false)
	}
	return &secured{Conn: c, below: s}, nil
}

// failure gives a TLS error a named reason. System errors stay as they are, except in a
// handshake, where a peer without TLS ends the connection.
func (s *socket) failure(err error, begun bool) error {
	d := reason.Detail{Reason: reason.TLSLost, Expected: s.out.Load(), Found: s.in.Load()}
	var header tls.RecordHeaderError
	var trust *tls.CertificateVerificationError
	var no syscall.Errno
	switch {
	case errors.As(err, &header):
		d = reason.Detail{Reason: reason.TLSPlain, Expected: recordHandshake, Found: uint64(header.RecordHeader[0])}
	case errors.As(err, &trust):
		d = reason.Detail{Reason: reason.TLSTrust, Expected: 1, Found: uint64(len(trust.UnverifiedCertificates))}
		err = fmt.Errorf("%s: %w", whose(trust.UnverifiedCertificates), err)
	case errors.Is(err, ErrUntrusted):
		d = reason.Detail{Reason: reason.TLSTrust, Expected: 1, Found: 1}
	case !begun:
		d.Reason, err = reason.TLSHandshake, s.unanswered(err)
	case errors.As(err, &no):
		return err
	}
	return &link.Failure{Detail: d, Err: err}
}

// unanswered describes the end of a handshake in which the peer sent nothing, or nothing in
// time.
func (s *socket) unanswered(err error) error {
	silent := s.in.Load() == 0 && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no complete handshake within %v: %w", handshakeTimeout, err)
	case silent && s.dialled:
		return fmt.Errorf("the peer closed the connection before it sent anything, as one without TLS does: %w", err)
	case silent:
		return fmt.Errorf("the peer closed the connection before it sent anything: %w", err)
	}
	return err
}

// whose returns the holder and the issuer of a peer's certificate, quoted and truncated,
// because a peer can write anything there.
func whose(chain []*x509.Certificate) string {
	if len(chain) == 0 {
		return "no certificate"
	}
	return fmt.Sprintf("certificate of %.80q, issued by %.80q", chain[0].Subject.String(), chain[0].Issuer.String())
}

// ErrUntrusted is wrapped by errors of a tls.Config's VerifyConnection for a peer that is not
// trusted.
var ErrUntrusted = errors.New("not trusted")

// Read implements net.Conn. An end of TCP that TLS did not announce is an error, because an
// attacker may have truncated the stream (RFC 8446 6.1).
func (s *secured) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.begun = s.begun || n > 0
	switch {
	case err == nil:
	case err != io.EOF:
		err = s.below.failure(err, s.begun)
	case s.below.ended.Load():
		err = s.below.failure(fmt.Errorf("TCP ended before TLS did: %w", io.ErrUnexpectedEOF), s.begun)
	}
	return n, err
}
