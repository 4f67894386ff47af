package stream

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/rpc"
)

// Limits.
const (
	MaxChunk   = 16 << 20 // bytes of a chunk
	MaxWindow  = 64       // chunks on their way in each direction
	maxStreams = 1 << 14  // of a method
	lifeless   = time.Minute
)

// A Handler serves a stream. When it returns, the client reads what was written and then io.EOF, or
// the error. Its context ends when the client closes the stream or is lost.
type Handler func(ctx context.Context, c *Conn) error

// Register adds a streaming method to a service. Clients open it with Open.
func Register(s *rpc.Server, service, method string, h Handler) error {
	r := &register{handler: h, streams: map[uint64]*Conn{}}
	procs := []*rpc.Procedure{
		rpc.Func(method+openSuffix, rpc.Raw, r.open),
		rpc.Func(method+writeSuffix, rpc.Raw, r.write),
		rpc.Func(method+readSuffix, rpc.Raw, r.read),
		rpc.Func(method+holdSuffix, rpc.Raw, r.hold),
		rpc.Func(method+closeSuffix, rpc.Raw, r.close),
	}
	for _, p := range procs[1:4] {
		p.Run = rpc.RunGoroutine // they wait for the handler
	}
	return s.Register(service, procs...)
}

// A register has the streams of a method.
type register struct {
	handler Handler
	mu      sync.Mutex
	streams map[uint64]*Conn

	gathered atomic.Int64 // bytes, by all streams
}

func (r *register) open(_ context.Context, call *rpc.Call) error {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	number := binary.BigEndian.Uint64(id[:])
	c := &Conn{in: newMeeting(), out: newMeeting(), headers: call.Headers().Clone()}
	c.in.budget, c.out.budget = &r.gathered, &r.gathered
	c.context, c.cancel = context.WithCancelCause(context.Background())
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.streams) >= maxStreams || r.streams[number] != nil {
		return rpc.Errorf(rpc.ResourceExhausted, "%d streams are open", len(r.streams))
	}
	b, err := call.Reserve(8)
	if err != nil {
		return err
	}
	copy(b, id[:])
	r.streams[number] = c
	c.silence = time.AfterFunc(lifeless, func() { r.remove(number, errSilent) })
	go func() {
		err := r.handler(c.context, c)
		c.in.end(errReturned)
		c.finish(err)
	}()
	return nil
}

// The causes of a stream's end.
var (
	errSilent   = errors.New("stream: the client has opened the stream and does not hold it")
	errClosed   = errors.New("stream: the client has closed the stream")
	errReturned = rpc.Errorf(rpc.Aborted, "the handler of the stream has returned")
)

func (r *register) remove(number uint64, err error) {
	r.mu.Lock()
	c := r.streams[number]
	delete(r.streams, number)
	r.mu.Unlock()
	if c != nil {
		c.abort(err)
	}
}

// stream finds a stream for a chunk.
func (r *register) stream(number uint64) (*Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.streams[number]
	if c == nil {
		return nil, rpc.Errorf(rpc.NotFound, "there is no such stream")
	}
	return c, nil
}

func (r *register) write(ctx context.Context, call *rpc.Call) error {
	p, end, data, err := parseWrite(call.Body())
	if err != nil {
		return err
	}
	c, err := r.stream(p.stream)
	if err != nil {
		return err
	}
	return c.in.wait(ctx, p.chunk, &party{data: data, end: end})
}

func (r *register) read(ctx context.Context, call *rpc.Call) error {
	p, most, err := parseRead(call.Body())
	if err != nil {
		return err
	}
	c, err := r.stream(p.stream)
	if err != nil {
		return err
	}
	return c.out.wait(ctx, p.chunk, &party{call: call, most: most})
}

// hold keeps a stream until the client does not want it any more, or is lost.
func (r *register) hold(ctx context.Context, call *rpc.Call) error {
	number, err := parseNumber(call.Body())
	if err != nil {
		return err
	}
	c, err := r.stream(number)
	if err != nil {
		return err
	}
	c.silence.Stop()
	<-ctx.Done()
	r.remove(number, errClosed)
	return ctx.Err()
}

// close ends a stream whose client may not have held it yet.
func (r *register) close(_ context.Context, call *rpc.Call) error {
	number, err := parseNumber(call.Body())
	if err == nil {
		r.remove(number, errClosed)
	}
	return err
}

// A Conn is a server's end of a stream. One goroutine may read and another one write.
type Conn struct {
	in, out meeting
	context context.Context
	cancel  context.CancelCauseFunc
	silence *time.Timer
	headers rpc.Headers

	eof bool
}

// Headers returns the headers of the context with which the client has opened the stream. The program must
// not use them in several goroutines if it changes them.
func (c *Conn) Headers() rpc.Headers { return c.headers }

// Read reads what the client has written. After the client's CloseWrite it returns io.EOF.
func (c *Conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for !c.eof {
		n := 0
		err := c.in.with(c.context, func(x *party) (done bool) {
			n = copy(b, x.data)
			x.data = x.data[n:]
			c.eof = x.end && len(x.data) == 0
			return len(x.data) == 0
		})
		if err != nil || n > 0 {
			return n, err
		}
	}
	return 0, io.EOF
}

// Write writes to the client. What no client waits for is gathered, up to the length of a chunk. Then
// Write waits until the client has room.
func (c *Conn) Write(b []byte) (total int, err error) {
	for len(b) > 0 {
		n, err := c.out.write(c.context, b)
		if err != nil {
			return total, err
		}
		total += n
		b = b[n:]
	}
	return total, nil
}

// finish ends the client's reading, with an error if the handler has returned one.
func (c *Conn) finish(err error) {
	if err == nil {
		c.out.end(nil)
		return
	}
	if rpc.CodeOf(err) == rpc.Unknown {
		err = rpc.Errorf(rpc.Unknown, "%v", err)
	}
	c.out.end(err)
}

// abort ends the stream.
func (c *Conn) abort(err error) {
	c.silence.Stop()
	c.cancel(err)
	c.in.abort(err)
	c.out.abort(err)
}
