package tcp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/link/trust"
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

// A socket counts the bytes that TLS reads and writes, and records whether TCP ended.
type socket struct {
	Conn
	dialled bool
	in, out atomic.Uint64
	ended   atomic.Bool
}

func (s *socket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.in.Add(uint64(n))
	if err == io.EOF {
		s.ended.Store(true)
	}
	return n, err
}

func (s *socket) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
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
func client(ctx context.Context, raw Conn, cfg *tls.Config, local, peer netip.Addr) (transport, error) {
	cfg = trust.Dialling(cfg, local, peer)
	s := &socket{Conn: raw, dialled: true}
	return greet(ctx, s, tls.Client(s, cfg), cfg)
}

// server does the handshake of the listening end.
func server(ctx context.Context, raw Conn, cfg *tls.Config) (transport, error) {
	s := &socket{Conn: raw}
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
	var no syscall.Errno
	refusal := trust.Refusal(err)
	switch {
	case errors.As(err, &header):
		d = reason.Detail{Reason: reason.TLSPlain, Expected: recordHandshake, Found: uint64(header.RecordHeader[0])}
	case refusal != nil:
		return refusal
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
