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
	Chunk  int // bytes of a chunk, at most MaxChunk; 0 means 256 KiB
	Window int // chunks on their way in each direction, at most MaxWindow; 0 means 4
}

func (c *Config) complete() error {
	if c.Chunk == 0 {
		c.Chunk = 256 << 10
	}
	if c.Window == 0 {
		c.Window = 4
	}
	if c.Chunk < 0 || c.Chunk > MaxChunk || c.Window < 0 || c.Window > MaxWindow {
		return fmt.Errorf("stream: %d chunks of %d bytes, expected at most %d of %d", c.Window, c.Chunk, MaxWindow, MaxChunk)
	}
	return nil
}

// A ClientConn is a client's end of a stream. One goroutine may read and another one write. Each
// Write sends what it is given at once, so programs that write little at a time use package bufio.
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

	sent    uint64 // chunks
	places  chan struct{}
	writes  sync.WaitGroup
	mu      sync.Mutex
	failed  error // of a chunk that was written
	halfway bool  // CloseWrite was called
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
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	name := service + "/" + method
	id, err := client.Method(name+openSuffix, rpc.Raw).Bytes(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	if len(id) != 8 {
		return nil, fmt.Errorf("%w: the number of a stream has %d bytes", rpc.ErrProtocol, len(id))
	}
	c := &ClientConn{client: client, cfg: cfg, number: binary.BigEndian.Uint64(id), answers: make(chan *answer, cfg.Window), places: make(chan struct{}, cfg.Window),
		read: client.Method(name+readSuffix, rpc.Raw), write: client.Method(name+writeSuffix, rpc.Raw), shut: client.Method(name+closeSuffix, rpc.Raw)}
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
	body := place{c.number, c.wanted}.append(nil)
	body = binary.BigEndian.AppendUint32(body, uint32(c.cfg.Chunk))
	c.wanted++
	c.answers <- a // has room: as many as the window are asked for
	go func() {
		defer close(a.done)
		var b *rpc.Buffer
		if b, a.err = c.client.Buffer(len(body)); a.err != nil {
			return
		}
		defer b.Release()
		copy(b.Bytes(), body)
		a.b, a.err = c.read.Buffer(c.context, b)
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

// Write writes to the handler. It returns when the bytes are on their way; errors of the last chunks
// are those of later calls, and of CloseWrite.
func (c *ClientConn) Write(p []byte) (total int, err error) {
	for len(p) > 0 {
		n := min(len(p), c.cfg.Chunk)
		if err := c.put(p[:n], 0); err != nil {
			return total, err
		}
		total += n
		p = p[n:]
	}
	return total, nil
}

// put sends a chunk.
func (c *ClientConn) put(p []byte, flags byte) error {
	select {
	case c.places <- struct{}{}:
	case <-c.context.Done():
		return c.context.Err()
	}
	if err := c.failure(); err != nil {
		return err
	}
	b, err := c.client.Buffer(prefixLen + len(p))
	if err != nil {
		return err
	}
	place{c.number, c.sent}.append(b.Bytes()[:0])
	b.Bytes()[prefixLen-1] = flags
	copy(b.Bytes()[prefixLen:], p)
	c.sent++
	c.writes.Go(func() {
		answer, err := c.write.Buffer(c.context, b)
		b.Release()
		if err == nil {
			answer.Release()
		}
		c.mu.Lock()
		if c.failed == nil {
			c.failed = err
		}
		c.mu.Unlock()
		<-c.places
	})
	return nil
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
		if err := c.put(nil, last); err != nil {
			return err
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
