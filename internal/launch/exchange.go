package launch

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// MinSecret is the minimum length of a secret in bytes.
const MinSecret = 16

// The errors of an exchange.
var (
	// ErrSecret is matched by errors about a peer that does not know the secret.
	ErrSecret = errors.New("the other end does not know the secret")
	// ErrExchange is matched by errors about a peer that violates the protocol.
	ErrExchange = errors.New("invalid message of an exchange")
)

// NewSecret returns a random secret.
func NewSecret() []byte {
	b := make([]byte, MinSecret)
	_, _ = rand.Read(b) // never fails
	return b
}

// ParseSecret parses a secret in hexadecimal digits.
func ParseSecret(s string) ([]byte, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) < MinSecret {
		return nil, fmt.Errorf("launch: %s: expected at least %d hexadecimal digits", EnvSecret, 2*MinSecret)
	}
	return b, nil
}

// The messages of an exchange are lines of JSON. The server begins with a challenge, each
// client answers it with its value, and gets all values when all clients have answered.
// Authentication codes prove that both ends know the secret; values are not encrypted.
type (
	challenge struct {
		Nonce []byte `json:"nonce"`
	}
	request struct {
		Rank  int    `json:"rank"`
		Nonce []byte `json:"nonce"`
		Value []byte `json:"value"`
		Code  []byte `json:"code"`
	}
	reply struct {
		Values  [][]byte      `json:"values"`
		Missing *MissingError `json:"missing,omitempty"` // instead of values
		Code    []byte        `json:"code"`
	}
)

const (
	maxRequest       = 4 * (MaxValue + 256) // of a line in bytes
	maxReply         = MaxRanks * 2 * MaxValue
	handshakeTimeout = 20 * time.Second
)

// code authenticates parts of a message.
func code(secret []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, secret)
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p)) // makes the division into parts unambiguous
		h.Write(p)
	}
	return h.Sum(nil)
}

func (r *request) code(secret, nonce []byte) []byte {
	return code(secret, []byte("request"), nonce, r.Nonce, fmt.Appendf(nil, "%d", r.Rank), r.Value)
}

func (r *reply) code(secret, nonce []byte) []byte {
	if m := r.Missing; m != nil {
		return code(secret, []byte("missing"), nonce, fmt.Appendf(nil, "%d %d %d", m.Ranks, m.Size, m.Within))
	}
	return code(secret, append([][]byte{[]byte("reply"), nonce}, r.Values...)...)
}

// readLine reads a message of at most limit bytes.
func readLine(r *bufio.Reader, limit int, v any) error {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > limit {
			return fmt.Errorf("%w: a line of more than %d bytes", ErrExchange, limit)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return err
		}
		if err := json.Unmarshal(line, v); err != nil {
			return fmt.Errorf("%w: %w", ErrExchange, err)
		}
		return nil
	}
}

// parseRequest reads a client's answer to a challenge.
func parseRequest(r *bufio.Reader, secret, nonce []byte, size int) (q request, err error) {
	if err := readLine(r, maxRequest, &q); err != nil {
		return q, err
	}
	switch {
	case !hmac.Equal(q.Code, q.code(secret, nonce)):
		return q, ErrSecret
	case q.Rank < 0 || q.Rank >= size:
		return q, fmt.Errorf("%w: rank %d, expected 0 to %d", ErrExchange, q.Rank, size-1)
	case len(q.Value) > MaxValue:
		return q, fmt.Errorf("%w: value of %d bytes, expected at most %d", ErrExchange, len(q.Value), MaxValue)
	}
	return q, nil
}

// A Server collects the values of all ranks and sends them to all.
type Server struct {
	listener net.Listener
	secret   []byte
	size     int
	wait     time.Duration
	handlers sync.WaitGroup

	mu      sync.Mutex
	values  [][]byte
	missing int
	ended   []int         // ranks that have ended without a value
	limit   *time.Timer   // starts with the first value
	failure *MissingError // when the time limit has expired or a rank cannot give a value
	done    chan struct{} // closed when no value is missing, or with failure
	conns   map[net.Conn]bool
	closed  bool
}

// Serve serves an exchange of some ranks on a listener, which it owns. The time limit starts
// with the first value.
func Serve(l net.Listener, secret []byte, size int, wait time.Duration) *Server {
	s := &Server{
		listener: l, secret: secret, size: size, wait: wait, values: make([][]byte, size), missing: size,
		done: make(chan struct{}), conns: map[net.Conn]bool{},
	}
	s.handlers.Go(s.accept)
	return s
}

// Addr returns the listener's address.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close ends the exchange.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	if s.limit != nil {
		s.limit.Stop()
	}
	err := s.listener.Close()
	for c := range s.conns {
		_ = c.Close() // makes its client fail
	}
	s.mu.Unlock()
	s.handlers.Wait()
	return err
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed || len(s.conns) > 2*s.size+16 {
			_ = c.Close()
			s.mu.Unlock()
			continue
		}
		s.conns[c] = true
		s.mu.Unlock()
		s.handlers.Go(func() {
			_ = s.serve(c) // the client reports it
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
			_ = c.Close()
		})
	}
}

func (s *Server) serve(c net.Conn) error {
	_ = c.SetDeadline(time.Now().Add(handshakeTimeout)) // applies to a TCP connection
	nonce := NewSecret()
	if err := json.NewEncoder(c).Encode(challenge{nonce}); err != nil {
		return err
	}
	q, err := parseRequest(bufio.NewReader(c), s.secret, nonce, s.size)
	if err != nil {
		return err
	}
	_ = c.SetDeadline(time.Time{})
	if err := s.keep(&q); err != nil {
		return err
	}
	gone := make(chan struct{})
	go func() { // a client sends nothing more
		defer close(gone)
		_, _ = c.Read(make([]byte, 1))
	}()
	select {
	case <-s.done:
	case <-gone:
		return io.ErrUnexpectedEOF
	}
	p := reply{Values: s.values}
	if s.failure != nil { // once done is closed, neither failure nor the values change
		p = reply{Missing: s.failure}
	}
	p.Code = p.code(s.secret, q.Nonce)
	return json.NewEncoder(c).Encode(p)
}

// keep stores the value of a rank, unless the time limit has expired.
func (s *Server) keep(q *request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch old := s.values[q.Rank]; {
	case s.failure != nil:
	case old == nil:
		s.values[q.Rank] = append([]byte{}, q.Value...)
		if s.limit == nil && !s.closed {
			s.limit = time.AfterFunc(s.wait, s.expire)
		}
		s.missing--
		s.settle()
	case !bytes.Equal(old, q.Value):
		return fmt.Errorf("%w: rank %d has two values", ErrExchange, q.Rank)
	}
	return nil
}

// settle ends the exchange when no value is missing, or when a rank waits for one that has
// ended. The caller holds the lock.
func (s *Server) settle() {
	switch {
	case s.closed || s.failure != nil:
	case s.missing == 0:
		close(s.done)
	case s.missing < s.size && len(s.ended) > 0:
		s.fail(&MissingError{Ranks: s.ended, Size: s.size})
	}
}

// fail ends the exchange without the missing values. The caller holds the lock.
func (s *Server) fail(e *MissingError) {
	s.failure = e
	close(s.done)
}

// Ended reports that the process of a rank has ended. If the rank gave no value, the exchange
// fails for the ranks that give one.
func (s *Server) Ended(rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values[rank] == nil && s.failure == nil {
		s.ended = append(s.ended, rank)
		s.settle()
	}
}

// expire ends the exchange without the missing values.
func (s *Server) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.missing > 0 && !s.closed && s.failure == nil {
		s.fail(newMissing(s.values, s.wait))
	}
}

// Err returns a MissingError if the time limit expired, or a rank ended, before all ranks gave
// a value.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		return nil
	}
	return s.failure
}

// handlersIdle waits until no client is connected, for at most handshakeTimeout.
func (s *Server) handlersIdle() {
	for end := time.Now().Add(handshakeTimeout); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		n := len(s.conns)
		s.mu.Unlock()
		if n == 0 {
			return
		}
	}
}
