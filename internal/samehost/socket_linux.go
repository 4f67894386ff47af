package samehost

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
)

// A socket is the connection to a peer.
type socket struct {
	*net.UnixConn
	in  [maxMessage]byte
	oob []byte
}

func newSocket(c *net.UnixConn) *socket {
	return &socket{UnixConn: c, oob: make([]byte, unix.CmsgSpace(4*maxRights))}
}

// descriptors came with a message. The receiver defers close.
type descriptors []int

// take returns a descriptor for the caller to close.
func (d descriptors) take(i int) int {
	fd := d[i]
	d[i] = -1
	return fd
}

// close closes the descriptors that were not taken.
func (d descriptors) close() {
	for _, fd := range d {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// receive waits for the next message. It returns all descriptors of the message, also with an
// error. Without an error their number is the one that the message must have.
func (s *socket) receive(m *message) (descriptors, error) {
	n, on, flags, _, err := s.ReadMsgUnix(s.in[:], s.oob)
	if err != nil {
		return nil, err
	}
	fds := rights(s.oob[:on])
	if flags&unix.MSG_TRUNC != 0 {
		return fds, reason.Detail{Reason: reason.HostMessage, Expected: maxMessage, Found: maxMessage + 1}.Err()
	}
	if err := m.parse(s.in[:n]); err != nil {
		return fds, err
	}
	if len(fds) < m.descriptorsAsked && flags&unix.MSG_CTRUNC != 0 {
		return fds, failure(reason.HostResources, 0, unix.EMFILE)
	}
	if len(fds) != m.descriptorsAsked || flags&unix.MSG_CTRUNC != 0 {
		return fds, fmt.Errorf("descriptors: %w", reason.Detail{Reason: reason.HostMessage, Expected: uint64(m.descriptorsAsked), Found: uint64(len(fds))}.Err())
	}
	return fds, nil
}

// expect receives a message of one kind. A refusal of the peer is returned as an error.
func (s *socket) expect(m *message, k kind) (descriptors, error) {
	fds, err := s.receive(m)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET):
		return fds, fmt.Errorf("%w: %w", failure(reason.HostRefused, int(k), err), err)
	case err != nil:
		return fds, err
	case m.kind == refused:
		return fds, m.refusal()
	case m.kind != k:
		return fds, reason.Detail{Reason: reason.HostMessage, Expected: uint64(k), Found: uint64(m.kind)}.Err()
	}
	return fds, nil
}

// send sends a message with descriptors, which stay open. It may be called by several
// goroutines.
func (s *socket) send(m *message, fds ...int) error {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	_, _, err := s.WriteMsgUnix(m.append(nil), oob, nil)
	return err
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

// rights returns all descriptors in the control messages.
func rights(oob []byte) (fds descriptors) {
	list, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range list {
		got, err := unix.ParseUnixRights(&list[i])
		if err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}
