package ninep

import (
	"encoding/binary"
	"errors"
	"fmt"

	"softrdma/storage/internal/channel"
	"softrdma/verbs"
)

// The header of a message, and the one whose contents matter here.
const (
	headerLen   = 7 // size, type, tag
	typeVersion = 100
	msizeLen    = 4 // after the header of a version message

	typeError       = 7 // Rlerror
	typeXattrWalk   = 30
	typeXattrCreate = 32
	notSupported    = 95 // EOPNOTSUPP of Linux
)

// ErrMessage says that a SEND is not one message.
var ErrMessage = errors.New("SEND is not a 9P message")

// A stream is a connection as p9 sees it: a stream of messages. One goroutine reads at a time, and one
// writes.
type stream struct {
	conn   *channel.Conn
	server *Server
	limit  int
	tokens chan struct{} // one for each request that is not answered

	message channel.Message
	in      []byte // what is left of message
	have    bool

	out *channel.Buffer // the reply, nil between replies
	n   int
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	if len(s.in) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.in)
	s.in = s.in[n:]
	return n, nil
}

// next takes the next message.
func (s *stream) next() (err error) {
	for {
		if s.have {
			s.conn.Release(s.message)
			s.have = false
		}
		if s.message, err = s.conn.Receive(); err != nil {
			return err
		}
		s.have = true
		s.server.messages.Add(1)
		if err = admit(s.message.Data, s.limit); err != nil {
			return err
		}
		if t := s.message.Data[4]; t != typeXattrWalk && t != typeXattrCreate {
			break
		}
		if err = s.refuse(s.message.Data); err != nil {
			return err
		}
	}
	s.tokens <- struct{}{}
	s.in = s.message.Data
	return nil
}

// refuse answers a request that is not supported. p9 answers EINVAL, which ls takes for an error.
func (s *stream) refuse(request []byte) error {
	b, err := s.conn.Buffer(headerLen + 4)
	if err != nil {
		return err
	}
	defer s.conn.Put(b)
	reply := append(b.Bytes[:0], headerLen+4, 0, 0, 0, typeError, request[5], request[6], notSupported, 0, 0, 0)
	return s.conn.Do(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{b.SGE(0, len(reply))}})
}

// admit checks that a SEND is one message. The size of messages that a client proposes is reduced to
// that of receives here, which p9 does not know.
func admit(b []byte, limit int) error {
	if len(b) < headerLen {
		return fmt.Errorf("%w: expected at least %d bytes, found %d", ErrMessage, headerLen, len(b))
	}
	if size := binary.LittleEndian.Uint32(b); int64(size) != int64(len(b)) {
		return fmt.Errorf("%w: expected %d bytes, found the size %d", ErrMessage, len(b), size)
	}
	if b[4] == typeVersion && len(b) >= headerLen+msizeLen {
		if msize := b[headerLen:]; binary.LittleEndian.Uint32(msize) > uint32(limit) {
			binary.LittleEndian.PutUint32(msize, uint32(limit))
		}
	}
	return nil
}

// Write implements io.Writer. A reply is sent when all of its bytes are there.
func (s *stream) Write(p []byte) (int, error) {
	if s.out == nil {
		if len(p) < headerLen {
			return 0, fmt.Errorf("%w: reply begins with %d bytes", ErrMessage, len(p))
		}
		size := binary.LittleEndian.Uint32(p)
		if int64(size) > int64(s.limit) {
			return 0, fmt.Errorf("%w: expected a reply of at most %d bytes, found %d", ErrMessage, s.limit, size)
		}
		b, err := s.conn.Buffer(int(size))
		if err != nil {
			return 0, err
		}
		s.out, s.n = b, 0
	}
	k := copy(s.out.Bytes[s.n:], p)
	if s.n += k; s.n < int(binary.LittleEndian.Uint32(s.out.Bytes)) {
		return k, nil
	}
	b := s.out
	s.out = nil
	defer s.conn.Put(b)
	select {
	case <-s.tokens:
	default:
	}
	return k, s.conn.Do(verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{b.SGE(0, s.n)}})
}

// Close implements io.Closer.
func (s *stream) Close() error {
	s.conn.Fail(channel.ErrClosed)
	return nil
}
