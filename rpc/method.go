package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"softrdma/internal/session"
)

// A Method is a client's handle of a method of a service. Its methods may be called from any
// goroutine.
type Method struct {
	client *Client
	name   string // "service/method"
	codec  Codec
	kind   kind
	bound  atomic.Pointer[binding]
}

// A binding is the number of a method in a session.
type binding struct {
	link   *link
	number uint32
}

// Method returns a handle for "service/method", whose bodies the codec encodes; nil means Raw. The
// name is checked at the first call.
func (c *Client) Method(name string, codec Codec) *Method {
	return c.method(name, codec, kindCall)
}

func (c *Client) method(name string, codec Codec, k kind) *Method {
	if codec == nil {
		codec = Raw
	}
	return &Method{client: c, name: name, codec: codec, kind: k}
}

// A request is what a call sends: a value, bytes or a buffer.
type request struct {
	codec   Codec // of value; nil means bytes or buffer
	value   any
	bytes   []byte
	buffer  *Buffer
	oneWay  bool
	headers Headers
	answers *answers
}

// Call calls the method with the value in, and stores the result in out, a pointer. A nil in is an
// empty body, and a nil out ignores the result.
//
// If the method failed, the error is an *Error with its code. If ctx ends, Call returns ctx's error
// at once, and the handler's context is canceled. Each call is executed at most once; errors
// that match ErrOutcomeUnknown or ErrClosed, or are ctx's, leave open whether it was.
func (m *Method) Call(ctx context.Context, in, out any) error {
	b, _ := in.(*Buffer)
	s, i, err := m.exchange(ctx, &request{codec: m.codec, value: in, buffer: b})
	if err != nil {
		return err
	}
	defer s.leaveSlot(i)
	if out == nil {
		return nil
	}
	if err := m.codec.Decode(s.slots[i].bodyOf(), out); err != nil {
		return &Error{BadBody, fmt.Sprintf("%s: the answer: %v", m.name, err)}
	}
	return nil
}

// Bytes calls the method with a body as it is, and appends the body of the answer to dst. It does
// not allocate if dst has room and the body is short.
func (m *Method) Bytes(ctx context.Context, body, dst []byte) ([]byte, error) {
	s, i, err := m.exchange(ctx, &request{bytes: body})
	if err != nil {
		return dst, err
	}
	dst = append(dst, s.slots[i].bodyOf()...)
	s.leaveSlot(i)
	return dst, nil
}

// Buffer calls the method with the body in a buffer, nil for an empty one, and returns the answer in
// another one, which the caller releases. Neither is copied if it is too long for a frame.
func (m *Method) Buffer(ctx context.Context, body *Buffer) (*Buffer, error) {
	s, i, err := m.exchange(ctx, &request{buffer: body})
	if err != nil {
		return nil, err
	}
	defer s.leaveSlot(i)
	x := &s.slots[i]
	if x.far != nil {
		b := x.far
		b.hold()
		return b, nil
	}
	b, err := s.pool.get(len(x.answer))
	if err == nil {
		copy(b.Bytes(), x.answer)
	}
	return b, err
}

// Send calls the method and does not wait for it. It returns when the request is on its way, which
// waits for a free place in the session. The method is executed once unless the client closes or
// the session is lost; its result is dropped.
func (m *Method) Send(ctx context.Context, in any) error {
	b, _ := in.(*Buffer)
	_, _, err := m.exchange(ctx, &request{codec: m.codec, value: in, buffer: b, oneWay: true})
	return err
}

// bodyOf returns the body of an answer, until the slot is left.
func (x *slot) bodyOf() []byte {
	if x.far != nil {
		return x.far.Bytes()
	}
	return x.answer
}

// exchange makes a call, within the program's interceptor if it has one. Unless the call is one-way,
// the caller leaves the slot.
func (m *Method) exchange(ctx context.Context, r *request) (*link, int, error) {
	if f := m.client.cfg.Intercept; f != nil {
		return m.intercepted(ctx, r, f)
	}
	return m.direct(ctx, r)
}

// intercepted makes a call within an interceptor.
func (m *Method) intercepted(ctx context.Context, r *request, f func(context.Context, string, func(context.Context) error) error) (s *link, i int, err error) {
	made, held := false, false
	leave := func() {
		if held && !r.oneWay {
			s.leaveSlot(i)
		}
		held = false
	}
	err = f(ctx, m.name, func(ctx context.Context) error {
		leave()
		var err error
		s, i, err = m.direct(ctx, r)
		made, held = true, err == nil
		return err
	})
	switch {
	case err != nil:
		leave()
	case !held:
		err = fmt.Errorf("rpc: %s: Intercept returned no error, but made no call that succeeded (made: %t)", m.name, made)
	}
	return s, i, err
}

// direct makes a call.
func (m *Method) direct(ctx context.Context, r *request) (*link, int, error) {
	r.headers, r.answers = HeadersOf(ctx), answersOf(ctx)
	for {
		s, number, err := m.bind(ctx)
		if err != nil {
			return nil, 0, err
		}
		i, err := s.call(ctx, number, r)
		if err == nil {
			return s, i, nil
		}
		if !errors.Is(err, errUnsent) && !errors.Is(err, Draining) {
			return nil, 0, err
		}
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		if errors.Is(err, Draining) { // the server's wish to leave is under way
			s.leaveNow()
		}
	}
}

// bind returns the session for a call and the method's number there.
func (m *Method) bind(ctx context.Context) (*link, uint32, error) {
	for {
		s, err := m.client.session(ctx)
		if err != nil {
			return nil, 0, err
		}
		if b := m.bound.Load(); b != nil && b.link == s {
			return s, b.number, nil
		}
		number, err := m.lookup(ctx, s)
		switch {
		case err == nil:
			m.bound.Store(&binding{s, number})
			return s, number, nil
		case errors.Is(err, Draining):
			s.leaveNow()
		case !errors.Is(err, errUnsent):
			if errors.Is(err, ErrOutcomeUnknown) && ctx.Err() == nil && !m.client.closed.Load() && s.lost() {
				continue // nothing of the caller's was sent
			}
			return nil, 0, err
		}
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
	}
}

// lookup asks the server for the method's number.
func (m *Method) lookup(ctx context.Context, s *link) (uint32, error) {
	q := query{m.kind, m.codec.Name(), m.name}
	body, err := q.bytes()
	if err != nil {
		return 0, err
	}
	i, err := s.call(ctx, lookupNumber, &request{bytes: body})
	if err != nil {
		return 0, err
	}
	defer s.leaveSlot(i)
	b := s.slots[i].bodyOf()
	if len(b) != 4 {
		return 0, fmt.Errorf("%w: the number of %s has %d bytes", ErrProtocol, m.name, len(b))
	}
	return binary.BigEndian.Uint32(b), nil
}

// call makes a call in this session, and leaves the slot after an error and if it is one-way.
func (s *link) call(ctx context.Context, number uint32, r *request) (i int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if i, err = s.begin(ctx); err != nil {
		return 0, err
	}
	n, err := s.write(ctx, i, number, r)
	if err != nil {
		s.leaveSlot(i)
		return 0, err
	}
	x := &s.slots[i]
	s.e.Lock()
	x.oneWay = r.oneWay
	s.submit(i, n)
	if !r.oneWay {
		err = s.Await(ctx, &x.Waiter)
	}
	if err == nil && x.answered {
		err = x.err
	}
	s.e.Unlock()
	if err == nil && !r.oneWay {
		r.answers.take(x.extra)
	}
	if err == nil && !r.oneWay && x.code != OK {
		err = &Error{x.code, string(x.bodyOf())}
	}
	if err != nil || r.oneWay {
		s.leaveSlot(i)
	}
	return i, err
}

// write writes the request's frame. It returns its length.
func (s *link) write(ctx context.Context, i int, number uint32, r *request) (int, error) {
	x := &s.slots[i]
	frame := s.out.Bytes(i)
	room := frame[session.HeaderLen:session.HeaderLen:s.server.Frame]
	h := session.Header{Kind: session.Request, Slot: uint16(i), Sequence: x.sequence, Number: number}
	if r.oneWay {
		h.Flags = session.OneWay
	}
	if d, ok := ctx.Deadline(); ok {
		h.Timeout = uint64(max(time.Until(d), 1))
	}
	extra, err := r.headers.encode(cap(room))
	if err != nil {
		return 0, err
	}
	body, far, err := s.encode(room[:0:cap(room)-len(extra)], r)
	if err != nil {
		return 0, err
	}
	n := session.HeaderLen + len(body)
	h.Length, h.Headers = uint64(len(body)), uint32(len(extra))
	if far != nil {
		x.body = far
		n = session.HeaderLen
		h.Flags |= session.Far
		h.Length = uint64(far.n)
		if h.Length > s.server.Body || h.Length > s.server.Bytes {
			return 0, &Error{TooLarge, fmt.Sprintf("a request of %d bytes, the server accepts %d", h.Length, min(s.server.Body, s.server.Bytes))}
		}
		if err := s.grant(ctx, i, h.Length); err != nil {
			return 0, err
		}
	}
	h.Put(frame)
	return n + copy(frame[n:], extra), nil
}

// encode writes the body of a request to room, or to a buffer if it is too long.
func (s *link) encode(room []byte, r *request) (inline []byte, far *Buffer, err error) {
	body, b := r.bytes, r.buffer
	switch v := r.value.(type) {
	case nil, *Buffer:
	case []byte:
		body = v
		if r.codec != Raw {
			body, err = r.codec.Append(room, v)
		}
	default:
		body, err = r.codec.Append(room, v)
	}
	if err != nil {
		return nil, nil, &Error{BadBody, fmt.Sprintf("the request: %v", err)}
	}
	if b != nil {
		body = b.Bytes()
	}
	if len(body) <= cap(room) {
		if len(body) > 0 && &body[0] != &room[:1][0] {
			copy(room[:len(body)], body)
		}
		return room[:len(body)], nil, nil
	}
	if uint64(len(body)) > s.server.Body {
		return nil, nil, &Error{TooLarge, fmt.Sprintf("a request of %d bytes, the server accepts %d", len(body), s.server.Body)}
	}
	if b != nil && b.pool == s.pool {
		b.hold()
		return nil, b, nil
	}
	if far, err = s.pool.get(len(body)); err == nil {
		copy(far.Bytes(), body)
	}
	return nil, far, err
}

// leaveNow makes new calls use another session.
func (s *link) leaveNow() {
	s.e.Lock()
	defer s.e.Unlock()
	s.leave(s.moved)
}

// lost reports whether the session has ended.
func (s *link) lost() bool {
	s.e.Lock()
	defer s.e.Unlock()
	return s.err != nil
}

// A kind is how a method is called.
type kind uint8

const (
	kindCall kind = iota + 1
	kindStream
)

// The method that tells the numbers of the others. Names of the program's have a slash.
const (
	lookupNumber = 0
	lookupName   = "lookup"
)

// A query asks for a method's number.
//
//	kind (1) | length of the codec's name (1) | codec's name | method's name
type query struct {
	kind  kind
	codec string
	name  string
}

// maxName bounds the names of services and methods in bytes, together.
const maxName = 1024

func (q *query) bytes() ([]byte, error) {
	if len(q.codec) > math.MaxUint8 || len(q.name) > maxName || strings.Count(q.name, "/") != 1 {
		return nil, &Error{InvalidArgument, fmt.Sprintf("the method %q with codec %q: expected service/method, at most %d bytes", q.name, q.codec, maxName)}
	}
	b := append([]byte{byte(q.kind), byte(len(q.codec))}, q.codec...)
	return append(b, q.name...), nil
}

func parseQuery(b []byte) (q query, err error) {
	if len(b) < 2 || len(b) < 2+int(b[1]) || len(b) > 2+math.MaxUint8+maxName {
		return q, &Error{InvalidArgument, fmt.Sprintf("a question of %d bytes for a method", len(b))}
	}
	n := 2 + int(b[1])
	return query{kind(b[0]), string(b[2:n]), string(b[n:])}, nil
}
