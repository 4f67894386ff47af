package nbd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"softrdma/storage/block"
	"softrdma/storage/internal/streams"
)

// A Server serves one device. Its fields must not change while it serves.
type Server struct {
	Backend  block.Backend
	ReadOnly bool
	Name     string // of the export; clients may also ask for the empty name

	// Events is called with what connections end by, if not by their clients, and with commands that
	// have failed, on goroutines of connections. It must not block. Nil is allowed.
	Events func(error)
}

// maxPayload is how many bytes a read or write moves at most, and how many of a connection are in
// memory.
const maxPayload = 32 << 20

// handshakeTime bounds how long a client may take to choose the export.
const handshakeTime = 30 * time.Second

// replyTime bounds how long a client may take for a part of a reply, of partLen bytes at most. A client that
// does not read would hold memory, its place among the clients, and accesses of the backend.
const (
	replyTime = time.Minute
	partLen   = 1 << 20
)

// maxInFlight is how many commands of a connection are executed at a time.
const maxInFlight = 64

// maxClients is how many clients are served at a time.
const maxClients = 256

// Serve serves clients of a listener until ctx ends. Then it ends their connections, and returns when
// no command is executed any more. It closes the listener. At most 256 clients are served at a time;
// others wait.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return streams.Serve(ctx, l, maxClients, func(ctx context.Context, c net.Conn) {
		if err := s.ServeConn(ctx, c); err != nil && ctx.Err() == nil {
			s.event(fmt.Errorf("client %v: %w", c.RemoteAddr(), err))
		}
	})
}

func (s *Server) event(err error) {
	if s.Events != nil {
		s.Events(err)
	}
}

// ServeConn serves one client until it ends the connection, or ctx ends. It closes the connection.
func (s *Server) ServeConn(ctx context.Context, conn net.Conn) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	c := &client{s: s, conn: conn, in: bufio.NewReaderSize(conn, 64<<10), slots: make(chan struct{}, maxInFlight)}
	c.room = sync.NewCond(&c.mu)
	if err := conn.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	goes, err := c.handshake()
	if err != nil || !goes {
		return ended(err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	err = c.transmit()
	c.work.Wait()
	if c.failed != nil {
		err = c.failed
	}
	return ended(err)
}

// ended returns nil for the error of a connection that the client has closed.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// A client is a connection.
type client struct {
	s          *Server
	conn       net.Conn
	in         *bufio.Reader
	structured bool // replies
	slots      chan struct{}
	work       sync.WaitGroup

	out    sync.Mutex // held while a reply is written
	failed error      // why replies cannot be written

	mu    sync.Mutex
	room  *sync.Cond // bytes have become free
	bytes int        // of commands in progress
	free  [][]byte   // buffers
}

// flags returns the flags of the export. A flush covers what all connections have written.
func (s *Server) flags() uint16 {
	f := uint16(exportHasFlags | exportFlush | exportFUA | exportDF | exportMultiConn)
	if s.ReadOnly {
		return f | exportReadOnly
	}
	return f | exportTrim | exportZeroes
}

// transmit executes the client's commands until the connection ends.
func (c *client) transmit() error {
	var b [requestLen]byte
	for {
		if _, err := io.ReadFull(c.in, b[:]); err != nil {
			return err
		}
		r, err := parseRequest(b[:])
		if err != nil {
			return err
		}
		if r.kind == cmdEnd {
			return nil
		}
		var data []byte
		if r.kind == cmdRead || r.kind == cmdWrite {
			if r.length > maxPayload {
				if r.kind == cmdWrite { // its data would have to be read
					return fmt.Errorf("NBD write: expected at most %d bytes, found %d", maxPayload, r.length)
				}
				c.fail(&r, errArgument, fmt.Errorf("NBD read: expected at most %d bytes, found %d", maxPayload, r.length))
				continue
			}
			data = c.buffer(int(r.length))
			if r.kind == cmdWrite {
				if _, err := io.ReadFull(c.in, data); err != nil {
					return err
				}
			}
		}
		c.slots <- struct{}{}
		c.work.Go(func() {
			c.execute(&r, data)
			c.release(data)
			<-c.slots
		})
	}
}

// buffer returns a buffer of n bytes, when there is room for one.
func (c *client) buffer(n int) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.bytes > 0 && c.bytes+n > maxPayload {
		c.room.Wait()
	}
	c.bytes += n
	if last := len(c.free) - 1; last >= 0 {
		b := c.free[last]
		c.free = c.free[:last]
		if cap(b) >= n {
			return b[:n]
		}
	}
	return make([]byte, n)
}

// keepBuffers is how many buffers of a connection are kept, and keepBytes how long they are at most.
const (
	keepBuffers = 16
	keepBytes   = 1 << 20
)

func (c *client) release(b []byte) {
	if b == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes -= len(b)
	c.room.Broadcast()
	if len(c.free) < keepBuffers && cap(b) <= keepBytes {
		c.free = append(c.free, b)
	}
}

// execute executes a command and replies.
func (c *client) execute(r *request, data []byte) {
	if code, err := c.check(r); err != nil {
		c.fail(r, code, err)
		return
	}
	b, off, n := c.s.Backend, int64(r.offset), int64(r.length)
	var err error
	switch r.kind {
	case cmdRead:
		err = block.ReadFull(b, data, off)
	case cmdWrite:
		_, err = b.WriteAt(data, off)
	case cmdTrim:
		err = b.Trim(off, n)
	case cmdZeroes:
		err = b.WriteZeroes(off, n, r.flags&flagNoHole == 0)
	}
	if err == nil && (r.kind == cmdFlush || r.flags&flagFUA != 0 && r.kind != cmdRead) {
		err = b.Flush()
	}
	if err != nil {
		c.s.event(err)
		c.fail(r, errIO, err)
		return
	}
	c.succeed(r, data)
}

// check checks a command.
func (c *client) check(r *request) (code uint32, err error) {
	allowed := uint16(flagFUA)
	switch r.kind {
	case cmdRead:
		allowed |= flagDF
	case cmdZeroes:
		allowed |= flagNoHole
	case cmdWrite, cmdTrim:
	case cmdFlush:
		if r.offset != 0 || r.length != 0 {
			return errArgument, fmt.Errorf("NBD flush: expected offset and length 0, found %d and %d", r.offset, r.length)
		}
	default:
		return errArgument, fmt.Errorf("NBD command: expected one of read, write, flush, trim and write zeroes, found number %d", r.kind)
	}
	if other := r.flags &^ allowed; other != 0 {
		return errArgument, fmt.Errorf("NBD command %d: expected flags of %#x, found %#x", r.kind, allowed, r.flags)
	}
	if c.s.ReadOnly && (r.kind == cmdWrite || r.kind == cmdTrim || r.kind == cmdZeroes) {
		return errPermission, errors.New("the export is read-only")
	}
	size, mask := uint64(c.s.Backend.Size()), uint64(c.s.Backend.BlockSize()-1)
	if (r.offset|uint64(r.length))&mask != 0 {
		return errArgument, fmt.Errorf("NBD command: expected multiples of %d bytes, found offset %d and length %d", mask+1, r.offset, r.length)
	}
	if r.offset > size || uint64(r.length) > size-r.offset {
		code = errArgument
		if r.kind == cmdWrite || r.kind == cmdZeroes {
			code = errSpace
		}
		return code, fmt.Errorf("NBD command: expected an end at byte %d at most, found offset %d and length %d", size, r.offset, r.length)
	}
	return 0, nil
}

// succeed replies to a command, with the data of a read.
func (c *client) succeed(r *request, data []byte) {
	var head []byte
	switch {
	case !c.structured:
		head = appendSimple(nil, r.cookie, 0)
	case r.kind == cmdRead && len(data) > 0:
		head = be.AppendUint64(appendChunk(nil, r.cookie, chunkData, 8+len(data)), r.offset)
	default:
		head = appendChunk(nil, r.cookie, chunkNone, 0)
	}
	if r.kind != cmdRead {
		data = nil
	}
	c.write(head, data)
}

// fail replies that a command has failed.
func (c *client) fail(r *request, code uint32, why error) {
	if !c.structured {
		c.write(appendSimple(nil, r.cookie, code), nil)
		return
	}
	text := why.Error()
	text = text[:min(len(text), maxName)]
	b := appendChunk(nil, r.cookie, chunkError, 6+len(text))
	b = be.AppendUint32(b, code)
	b = be.AppendUint16(b, uint16(len(text)))
	c.write(append(b, text...), nil)
}

// write writes a reply. If it fails the connection ends, which transmit notices.
func (c *client) write(head, data []byte) {
	c.out.Lock()
	defer c.out.Unlock()
	for c.failed == nil && len(head)+len(data) > 0 {
		part := data[:min(len(data), partLen)]
		data = data[len(part):]
		parts := net.Buffers{head, part}
		if len(part) == 0 {
			parts = parts[:1]
		}
		head = nil
		err := c.conn.SetWriteDeadline(time.Now().Add(replyTime))
		if err == nil {
			_, err = parts.WriteTo(c.conn)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("expected the client to take a part of a reply within %v: %w", replyTime, err)
		}
		c.failed = err
		c.conn.Close()
	}
}
