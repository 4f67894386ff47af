package pmix

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

const (
	securityNative = "native" // a client sends its user and group
	securityNone   = "none"

	headerLen = 16 // on 64-bit hosts

	// The first tag of requests. Servers send events with lower ones.
	firstTag = 100

	// simpleClient is the type of a program that was started by the server it connects to.
	simpleClient = 0
	// nonDescribed is the type of messages without the types of their items.
	nonDescribed = 1

	// datastore is the module by which the server returns values: in its answers, not in
	// shared memory.
	datastore = "hash"

	// maxAnswer limits the length of an answer in bytes. The longest answers contain the
	// values that one program has published.
	maxAnswer = 1 << 20
)

// A Client is a connection to a server. One goroutine uses it.
type Client struct {
	server *Server
	conn   io.ReadWriteCloser
	ctx    context.Context // ends the connection when it is done
	stop   func() bool
	index  uint32 // the server's index of this client
	tag    uint32 // of the last request
}

// Connect connects to the server. The connection ends when the context does.
func (s *Server) Connect(ctx context.Context) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", s.address)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return s.open(ctx, conn)
}

func (s *Server) open(ctx context.Context, conn io.ReadWriteCloser) (*Client, error) {
	c := &Client{server: s, conn: conn, ctx: ctx, tag: firstTag}
	c.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err := c.handshake(); err != nil {
		_ = c.Close()
		return nil, c.cause(fmt.Errorf("%w with format %s: %w", ErrRefused, s.format.module, err))
	}
	return c, nil
}

// Close ends the connection. A server treats a program that has not finalized as one that failed.
func (c *Client) Close() error {
	c.stop()
	return c.conn.Close()
}

// cause returns the context's error if that has ended the connection, else the given one.
func (c *Client) cause(err error) error {
	if err != nil && c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return err
}

// hello returns the first message. Its header is in the host's byte order, the numbers after it are in
// network byte order.
func (s *Server) hello() []byte {
	b := append([]byte(s.security), 0)
	if s.security == securityNative {
		b = binary.BigEndian.AppendUint32(b, 8)
		b = binary.NativeEndian.AppendUint32(b, uint32(os.Geteuid()))
		b = binary.NativeEndian.AppendUint32(b, uint32(os.Getegid()))
	} else {
		b = binary.BigEndian.AppendUint32(b, 0)
	}
	b = append(b, simpleClient)
	b = append(append(b, s.Namespace...), 0)
	b = binary.BigEndian.AppendUint32(b, s.Rank)
	b = append(append(b, s.format.version...), 0)
	b = append(append(b, s.format.module...), 0)
	b = append(b, nonDescribed)
	b = append(append(b, datastore...), 0)

	const unassigned = 1<<32 - 1
	header := binary.NativeEndian.AppendUint32(nil, unassigned)
	header = binary.NativeEndian.AppendUint32(header, unassigned)
	header = binary.NativeEndian.AppendUint32(header, uint32(len(b)))
	return append(binary.NativeEndian.AppendUint32(header, 0), b...)
}

// handshake introduces this program. A server that refuses it closes the connection.
func (c *Client) handshake() error {
	if _, err := c.conn.Write(c.server.hello()); err != nil {
		return err
	}
	var answer [4]byte
	if _, err := io.ReadFull(c.conn, answer[:]); err != nil {
		return err
	}
	if status := Status(binary.BigEndian.Uint32(answer[:])); status != 0 {
		return status
	}
	if _, err := io.ReadFull(c.conn, answer[:]); err != nil {
		return err
	}
	c.index = binary.BigEndian.Uint32(answer[:])
	return nil
}

// ask sends a request and returns the answer after its status.
func (c *Client) ask(request []byte) (*unpacker, error) {
	c.tag++
	b := binary.BigEndian.AppendUint32(nil, c.index)
	b = binary.BigEndian.AppendUint32(b, c.tag)
	b = binary.BigEndian.AppendUint32(b, uint32(len(request)))
	b = binary.BigEndian.AppendUint32(b, 0)
	if _, err := c.conn.Write(append(b, request...)); err != nil {
		return nil, c.cause(err)
	}
	answer, err := c.answer()
	if err != nil {
		return nil, c.cause(err)
	}
	u := &unpacker{format: c.server.format, b: answer}
	u.one()
	if status := Status(u.int32()); u.err == nil && status != 0 {
		return nil, status
	}
	return u, u.err
}

// answer reads messages until the one that answers the last request. It drops events.
func (c *Client) answer() ([]byte, error) {
	for {
		var header [headerLen]byte
		if _, err := io.ReadFull(c.conn, header[:]); err != nil {
			return nil, fmt.Errorf("%w: header of an answer: %w", ErrMessage, err)
		}
		tag, n := binary.BigEndian.Uint32(header[4:]), int64(binary.BigEndian.Uint32(header[8:]))
		if tag != c.tag {
			if _, err := io.CopyN(io.Discard, c.conn, n); err != nil {
				return nil, fmt.Errorf("%w: event of %d bytes: %w", ErrMessage, n, noEOF(err))
			}
			continue
		}
		if n > maxAnswer {
			return nil, fmt.Errorf("%w: answer of %d bytes, expected at most %d", ErrMessage, n, maxAnswer)
		}
		var b bytes.Buffer // grows with received data, not with the header's length
		if m, err := io.CopyN(&b, c.conn, n); err != nil {
			return nil, fmt.Errorf("%w: %d bytes of an answer, expected %d: %w", ErrMessage, m, n, noEOF(err))
		}
		return b.Bytes(), nil
	}
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
