package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"softrdma/rpc"
)

// A Config says how a stream sends. The zero value is right for most programs.
type Config struct {
	// Chunk is the length of a chunk in bytes, at most MaxChunk; 0 means 256 KiB, and as much as a
	// long path needs while it needs it, within MaxBody of both ends. A length that the program chooses does not change.
	Chunk int

	// Window is how many chunks are on their way in each direction, at most MaxWindow; 0 means 4.
	Window int
}

const defaultChunk = 256 << 10

func (c *Config) complete() error {
	if c.Chunk == 0 {
		c.Chunk = defaultChunk
	}
	if c.Window == 0 {
		c.Window = 4
	}
	if c.Chunk < 0 || c.Chunk > MaxChunk || c.Window < 0 || c.Window > MaxWindow {
		return fmt.Errorf("stream: %d chunks of %d bytes, expected at most %d of %d", c.Window, c.Chunk, MaxWindow, MaxChunk)
	}
	return nil
}

// A ClientConn is a client's end of a stream. One goroutine may read and another one write. A Write
// sends what it is given at once, unless as many chunks as Config.Window are on their way: then what is
// written is gathered.
type ClientConn struct {
	client            *rpc.Client
	cfg               Config
	number            uint64
	read, write, shut *rpc.Method
	context           context.Context
	cancel            context.CancelFunc
	held              sync.WaitGroup

	wanted  uint64       // chunk that is asked for next
	answers chan *answer // in order
	got     *rpc.Buffer
	rest    []byte // of got
	eof     error

	writes  sync.WaitGroup
	room    chan struct{} // a chunk has arrived
	halfway bool          // CloseWrite was called

	mu      sync.Mutex  // guards the fields below
	sent    uint64      // chunks
	flying  int         // chunks on their way
	pending *rpc.Buffer // gathers what is written while there are enough of them
	filled  int         // bytes of pending
	ending  bool        // pending is the last chunk
	failed  error       // of a chunk that was written
	out, in sizer
}

// An answer is a chunk that the client has asked for.
type answer struct {
	done chan struct{}
	b    *rpc.Buffer
	err  error
}

// Open opens a stream of a service's method. The context is that of the whole stream; Close ends it,
// too.
func Open(ctx context.Context, client *rpc.Client, service, method string, cfg Config) (*ClientConn, error) {
	fixed := cfg.Chunk != 0
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	began := time.Now()
	name := service + "/" + method
	id, err := client.Method(name+openSuffix, rpc.Raw).Bytes(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	if len(id) != 8 {
		return nil, fmt.Errorf("%w: the number of a stream has %d bytes", rpc.ErrProtocol, len(id))
	}
	c := &ClientConn{client: client, cfg: cfg, number: binary.BigEndian.Uint64(id), answers: make(chan *answer, cfg.Window), room: make(chan struct{}, 1),
		read: client.Method(name+readSuffix, rpc.Raw), write: client.Method(name+writeSuffix, rpc.Raw), shut: client.Method(name+closeSuffix, rpc.Raw)}
	trip := time.Since(began)
	request, answer, err := client.Limits(ctx)
	if err != nil {
		return nil, err
	}
	c.out, c.in = newSizer(&cfg, fixed, trip, request-prefixLen), newSizer(&cfg, fixed, trip, answer-1)
	c.context, c.cancel = context.WithCancel(ctx)
	hold := client.Method(name+holdSuffix, rpc.Raw)
	c.held.Go(func() { _, _ = hold.Bytes(c.context, id, nil) }) // ends with the stream
	for range cfg.Window {
		c.ask()
	}
	return c, nil
}

// ask asks for the next chunk.
func (c *ClientConn) ask() {
	a := &answer{done: make(chan struct{})}
	number := c.wanted
	c.wanted++
	body := place{c.number, number}.append(nil)
	c.mu.Lock()
	body = binary.BigEndian.AppendUint32(body, uint32(c.in.chunk))
	c.in.begin(number)
	c.mu.Unlock()
	c.answers <- a // has room: as many as the window are asked for
	go func() {
		defer close(a.done)
		var b *rpc.Buffer
		if b, a.err = c.client.Buffer(len(body)); a.err != nil {
			return
		}
		defer b.Release()
		copy(b.Bytes(), body)
		if a.b, a.err = c.read.Buffer(c.context, b); a.err == nil {
			c.mu.Lock()
			c.in.end(number, a.b.Len())
			c.mu.Unlock()
		}
	}()
}

// Read reads what the handler has written. When the handler has returned it returns io.EOF, or the
// handler's error.
func (c *ClientConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(c.rest) == 0 {
		c.release()
		if c.eof != nil {
			return 0, c.eof
		}
		c.eof = c.next()
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// next takes the next chunk. It returns io.EOF if that is the last one.
func (c *ClientConn) next() error {
	a := <-c.answers
	<-a.done
	if a.err != nil {
		return a.err
	}
	end, data, err := parseAnswer(a.b.Bytes())
	if err != nil {
		a.b.Release()
		return err
	}
	c.got, c.rest = a.b, data
	if end {
		return io.EOF
	}
	c.ask()
	return nil
}

func (c *ClientConn) release() {
	if c.got != nil {
		c.got.Release()
		c.got, c.rest = nil, nil
	}
}

// Write writes to the handler. It returns when the bytes are on their way or gathered; errors of the last
// chunks are those of later calls, and of CloseWrite.
func (c *ClientConn) Write(p []byte) (total int, err error) {
	for len(p) > 0 {
		n, err := c.put(p)
		total += n
		if err != nil {
			return total, err
		}
		p = p[n:]
	}
	return total, nil
}

// put writes the first bytes of p to the next chunk, and sends that unless there are enough on their way. It
// waits while that chunk is full.
func (c *ClientConn) put(p []byte) (n int, err error) {
	for {
		if err := c.prepare(len(p)); err != nil {
			return 0, err
		}
		c.mu.Lock()
		if c.pending != nil { // not sent meanwhile
			n = copy(c.pending.Bytes()[prefixLen+c.filled:], p)
			c.filled += n
			c.pump()
		}
		c.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		select {
		case <-c.room:
		case <-c.context.Done():
			return 0, c.context.Err()
		}
	}
}

// prepare makes the next chunk, for n bytes or for more to be gathered.
func (c *ClientConn) prepare(n int) error {
	c.mu.Lock()
	if c.pending != nil || c.failed != nil {
		defer c.mu.Unlock()
		return c.failed
	}
	size := c.out.chunk
	if c.flying < c.cfg.Window {
		size = min(n, size)
	}
	c.mu.Unlock()
	b, err := c.client.Buffer(prefixLen + size)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.pending, c.filled = b, 0
	c.mu.Unlock()
	return nil
}

// pump sends the next chunk if fewer than the window are on their way. The caller holds the lock.
func (c *ClientConn) pump() {
	b := c.pending
	if b == nil || c.filled == 0 && !c.ending || c.flying >= c.cfg.Window {
		return
	}
	place{c.number, c.sent}.append(b.Bytes()[:0])
	b.Bytes()[prefixLen-1] = 0
	if c.ending {
		b.Bytes()[prefixLen-1] = last
	}
	b.Truncate(prefixLen + c.filled)
	number := c.sent
	c.sent++
	c.flying++
	c.pending = nil
	c.out.begin(number)
	c.writes.Go(func() { c.arrive(b, number) })
}

// arrive sends a chunk, waits until the handler has read it, and sends the next.
func (c *ClientConn) arrive(b *rpc.Buffer, number uint64) {
	n := b.Len()
	answer, err := c.write.Buffer(c.context, b)
	b.Release()
	if err == nil {
		answer.Release()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flying--
	if c.failed == nil {
		c.failed = err
	}
	if c.failed == nil {
		c.out.end(number, n)
		c.pump()
	}
	select {
	case c.room <- struct{}{}:
	default:
	}
}

func (c *ClientConn) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// CloseWrite tells the handler that nothing follows, which it reads as io.EOF, and waits until it
// has read everything. A second CloseWrite does nothing.
func (c *ClientConn) CloseWrite() error {
	if !c.halfway {
		c.halfway = true
		for done := false; !done; {
			if err := c.prepare(0); err != nil {
				return err
			}
			c.mu.Lock()
			if done = c.pending != nil; done { // not sent meanwhile
				c.ending = true
				c.pump()
			}
			c.mu.Unlock()
		}
	}
	c.writes.Wait()
	return c.failure()
}

// closeTime bounds how long Close takes to tell the server.
const closeTime = time.Second

// Close ends the stream. The handler's context ends, if it has not returned yet.
func (c *ClientConn) Close() error {
	c.cancel()
	c.held.Wait()
	c.writes.Wait()
	c.mu.Lock()
	if c.pending != nil { // the chunk is not sent any more
		c.pending.Release()
		c.pending = nil
	}
	c.mu.Unlock()
	c.release()
	for range len(c.answers) {
		a := <-c.answers
		if <-a.done; a.err == nil {
			a.b.Release()
		}
	}
	c.eof = rpc.ErrClosed
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	err := c.shut.Send(ctx, binary.BigEndian.AppendUint64(nil, c.number))
	if errors.Is(err, rpc.ErrClosed) {
		return nil
	}
	return err
}
