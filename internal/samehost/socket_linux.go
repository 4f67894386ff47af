package samehost

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
	"softrdma/internal/unixmsg"
)

// A socket is the connection to a peer.
type socket struct {
	*unixmsg.Conn
}

// protocol is the framing of messages. Their bodies are binary.
var protocol = unixmsg.Protocol{MaxMessage: maxMessage, MaxDescriptors: maxRights, Malformed: malformed, Refused: reason.HostRefused}

func newSocket(c *net.UnixConn) *socket { return &socket{unixmsg.NewConn(c, &protocol)} }

// receive waits for the next message. Its descriptors, which the caller closes, are as many as
// the message must have.
func (s *socket) receive(m *message) (unixmsg.Descriptors, error) {
	b, fds, err := s.Receive()
	if err == unix.EMFILE {
		return nil, failure(reason.HostResources, 0, err)
	}
	if err != nil {
		return nil, err
	}
	if err = m.parse(b); err == nil && len(fds) != m.descriptorsAsked {
		err = fmt.Errorf("descriptors: %w", malformed(uint64(m.descriptorsAsked), uint64(len(fds))))
	}
	if err != nil {
		fds.Close()
		return nil, err
	}
	return fds, nil
}

// expect receives a message of one kind. A refusal of the peer is returned as an error.
func (s *socket) expect(m *message, k kind) (unixmsg.Descriptors, error) {
	fds, err := s.receive(m)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET):
		return nil, fmt.Errorf("%w: %w", failure(reason.HostRefused, int(k), err), err)
	case err != nil:
		return nil, err
	case m.kind == refused: // has no descriptors
		return nil, m.refusal()
	case m.kind != k:
		fds.Close()
		return nil, malformed(uint64(k), uint64(m.kind))
	}
	return fds, nil
}

// refusedBefore returns the refusal of a peer that has closed the connection before a message was sent, as an
// error.
func (s *socket) refusedBefore() error {
	var m message
	fds, err := s.expect(&m, refused)
	fds.Close()
	return err
}

// send sends a message with descriptors, which stay open. It may be called by several
// goroutines.
func (s *socket) send(m *message, fds ...int) error {
	return s.Send(m.append(nil), fds...)
}

// refuse sends the peer the reason of a refusal, if the socket has room.
func (s *socket) refuse(why reason.Detail) {
	_ = s.SetWriteDeadline(time.Now().Add(refuseTimeout))
	_ = s.send(&message{kind: refused, reason: why.Reason.String(), expected: why.Expected, found: why.Found})
}

// refuseTimeout bounds the wait for room for a refusal, which is usually the only message in
// its direction. On a busy machine much of this time may pass before the first attempt.
const refuseTimeout = time.Second

// refusal returns the peer's reason as an error. The message has a text because other versions
// of softrdma may have other reasons.
func (m *message) refusal() error {
	if r, known := reason.Named(m.reason); known {
		return fmt.Errorf("refused by the peer: %w", reason.Detail{Reason: r, Expected: m.expected, Found: m.found}.Err())
	}
	return fmt.Errorf("refused by the peer: %q: %w", m.reason, reason.Detail{Reason: reason.HostRefused, Expected: uint64(refused)}.Err())
}
