package ninep

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"softrdma/storage/internal/channel"
	"softrdma/verbs"
)

// The header of a message, and the one whose contents matter here.
const (
	headerLen = 7 // size, type, tag
	msizeLen  = 4 // after the header of a version message

	typeError    = 7  // Rlerror
	notSupported = 95 // EOPNOTSUPP of Linux
	invalid      = 22 // EINVAL
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
	began   bool // the version message has arrived

	out      *channel.Buffer // the reply, nil between replies
	n        int
	answered bool          // a reply was written
	first    chan struct{} // closed with answered

	fids fids
}

func newStream(conn *channel.Conn, server *Server, cfg Config) *stream {
	return &stream{
		conn: conn, server: server, limit: cfg.MaxMessage, tokens: make(chan struct{}, 2*cfg.Receives),
		first: make(chan struct{}), fids: newFids(cfg),
	}
}

// startTime is how long p9 learns of the end of a connection after it. p9 starts goroutines that count
// themselves when they run, and waits for all that are counted as soon as it knows of the end. One that
// was started and has not run would count itself meanwhile, which sync.WaitGroup does not allow, although
// all that it does then is to see the end.
const startTime = 50 * time.Millisecond

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	if len(s.in) == 0 {
		if err := s.next(); err != nil {
			s.conn.Fail(err) // now, because p9 waits for replies that the client may not receive
			time.Sleep(startTime)
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
		b := s.message.Data
		number, err := s.begin(b)
		if err != nil {
			return err
		}
		if number == 0 {
			break
		}
		if err = s.refuse(b, number); err != nil {
			return err
		}
	}
	select {
	case s.tokens <- struct{}{}:
	case <-s.conn.Done():
		return s.conn.Err()
	}
	s.in = s.message.Data
	return nil
}

// begin notes a request. It returns the number of the error with which it is refused, 0 if p9 is to answer
// it. p9 answers EINVAL to what is not supported, which ls takes for an error.
func (s *stream) begin(b []byte) (number byte, err error) {
	switch {
	case layouts[b[4]] == "":
		return notSupported, nil
	case !complete(b):
		return invalid, nil
	}
	if err = s.order(b); err != nil {
		return 0, err
	}
	if ok, err := s.fids.begin(b); !ok {
		return tooManyFiles, err
	}
	return 0, nil
}

// order refuses messages that p9 does not handle safely. p9 handles a version message without locks, so
// that must be the first and the only one, and is answered before others are read.
func (s *stream) order(b []byte) error {
	if isVersion := b[4] == typeVersion; isVersion == s.began {
		return fmt.Errorf("%w: expected one version message, which is the first, found type %d", ErrMessage, b[4])
	} else if isVersion {
		s.began = true
		return nil
	}
	select {
	case <-s.first:
	case <-s.conn.Done():
		return s.conn.Err()
	}
	return nil
}

func tagOf(b []byte) uint16 { return binary.LittleEndian.Uint16(b[5:]) }

// replied notes a reply.
func (s *stream) replied(b []byte) {
	if !s.answered {
		s.answered = true
		close(s.first)
	}
	s.fids.end(b)
}

// refuse answers a request with the number of an error.
func (s *stream) refuse(request []byte, number byte) error {
	b, err := s.conn.Buffer(headerLen + 4)
	if err != nil {
		return err
	}
	defer s.conn.Put(b)
	reply := append(b.Bytes[:0], headerLen+4, 0, 0, 0, typeError, request[5], request[6], number, 0, 0, 0)
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

// Write implements io.Writer. A reply is sent when all of its bytes are there. An error ends the
// connection, because p9 ignores it and the client would wait for the reply.
func (s *stream) Write(p []byte) (int, error) {
	n, err := s.write(p)
	if err != nil {
		s.conn.Fail(err)
	}
	return n, err
}

func (s *stream) write(p []byte) (int, error) {
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
	s.replied(b.Bytes[:s.n])
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
