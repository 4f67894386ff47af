package rpc

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"softrdma/internal/session"
)

// Limits of the headers of a request or an answer. They travel in the frame, so Inline bounds them, too. A test
// says that the limits of frames are the same.
const (
	MaxHeaders    = 8 << 10 // bytes of names and values, and 3 for each value
	MaxHeader     = 64      // values
	MaxHeaderName = 64      // bytes
)

// Headers are named values that travel with a request or an answer in addition to its body, for example the
// identity of the caller or of a trace. Names consist of lower-case letters, digits, '-', '_' and '.'; the methods turn upper-case letters into
// lower-case ones. Values are any bytes. Codecs do not see headers.
type Headers map[string][]string

// Get returns the first value of a header, "" if there is none.
func (h Headers) Get(name string) string {
	if v := h[strings.ToLower(name)]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Set replaces the values of a header.
func (h Headers) Set(name string, values ...string) { h[strings.ToLower(name)] = values }

// Add adds a value to a header.
func (h Headers) Add(name, value string) {
	name = strings.ToLower(name)
	h[name] = append(slices.Clip(h[name]), value) // a clone may share the list
}

// Clone returns headers that can be changed independently.
func (h Headers) Clone() Headers {
	c := make(Headers, len(h))
	for name, values := range h {
		c[name] = slices.Clone(values)
	}
	return c
}

// encode returns the headers as they travel, at most room bytes.
func (h Headers) encode(room int) ([]byte, error) {
	room = min(room, MaxHeaders)
	var b []byte
	count := 0
	for name, values := range h {
		if !session.HeaderName(name) {
			return nil, &Error{InvalidArgument, fmt.Sprintf("a header named %.80q: expected 1 to %d of a-z, 0-9, -, _ and .", name, MaxHeaderName)}
		}
		for _, v := range values {
			if count++; count > MaxHeader || len(b)+session.HeaderSize(name, v) > room {
				return nil, &Error{TooLarge, fmt.Sprintf("headers of more than %d bytes or %d values", room, MaxHeader)}
			}
			b = session.AppendHeader(b, name, v)
		}
	}
	return b, nil
}

// decode reads headers that were checked on arrival.
func decode(b []byte) Headers {
	h := Headers{}
	for name, value := range session.Headers(b) {
		h[string(name)] = append(h[string(name)], string(value))
	}
	return h
}

type (
	headersKey struct{}
	answersKey struct{}
)

// An answers is where the headers of an answer go.
type answers struct {
	to    *Headers
	outer *answers
}

// WithHeaders returns a context. Calls with it send h instead of the headers of ctx. The program must not
// change h during such calls.
func WithHeaders(ctx context.Context, h Headers) context.Context {
	return context.WithValue(ctx, headersKey{}, h)
}

// HeadersOf returns the headers that calls with a context send. Interceptors add to a Clone of them.
func HeadersOf(ctx context.Context) Headers {
	h, _ := ctx.Value(headersKey{}).(Headers)
	return h
}

// WithAnswer returns a context. A call with it stores the headers of the answer in to, also if the server
// answers with an error. Two calls must not use the context at the same time.
func WithAnswer(ctx context.Context, to *Headers) context.Context {
	return context.WithValue(ctx, answersKey{}, &answers{to, answersOf(ctx)})
}

func answersOf(ctx context.Context) *answers {
	a, _ := ctx.Value(answersKey{}).(*answers)
	return a
}

// take stores the headers of an answer.
func (a *answers) take(b []byte) {
	for ; a != nil; a = a.outer {
		*a.to = decode(b)
	}
}

// Headers returns the headers of the request. The handler and interceptors share the map.
func (c *Call) Headers() Headers {
	if c.headers == nil {
		c.headers = decode(c.extra)
	}
	return c.headers
}

// AnswerHeaders returns the headers that the answer will have, which the handler and interceptors fill.
// They reach the client with an error, too.
func (c *Call) AnswerHeaders() Headers {
	if c.answerHeaders == nil {
		c.answerHeaders = Headers{}
	}
	return c.answerHeaders
}

// seal encodes the headers of the answer. If they do not fit behind the body, it leaves the frame.
func (c *Call) seal() (extra []byte, err error) {
	if len(c.answerHeaders) == 0 {
		return nil, nil
	}
	if extra, err = c.answerHeaders.encode(cap(c.frame)); err != nil {
		return nil, err
	}
	if c.answer == nil && c.inline+len(extra) > cap(c.frame) {
		body := c.frame[:c.inline]
		b, err := c.Buffer(len(body))
		if err != nil {
			return nil, err
		}
		copy(b.Bytes(), body)
		c.inline, c.answer = 0, b
	}
	return extra, nil
}
