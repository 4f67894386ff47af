package protobuf

import (
	"bufio"
	"context"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"softrdma/rpc"
	"softrdma/rpc/stream"
)

// message is a pointer to T that is a message.
type message[T any] interface {
	*T
	proto.Message
}

// A ClientStream is a client's end of a stream that sends In and receives Out. One goroutine may send
// and another one receive.
type ClientStream[In, Out any, PI message[In], PO message[Out]] struct {
	conn *stream.ClientConn
	read *bufio.Reader
}

// OpenStream opens a stream. Generated code calls it.
func OpenStream[In, Out any, PI message[In], PO message[Out]](ctx context.Context, c *rpc.Client, service, method string) (*ClientStream[In, Out, PI, PO], error) {
	conn, err := stream.Open(ctx, c, service, method, stream.Config{})
	if err != nil {
		return nil, err
	}
	return &ClientStream[In, Out, PI, PO]{conn, bufio.NewReader(conn)}, nil
}

// Send sends a message.
func (s *ClientStream[In, Out, PI, PO]) Send(m *In) error { return send(s.conn, PI(m)) }

// CloseSend tells the handler that no message follows.
func (s *ClientStream[In, Out, PI, PO]) CloseSend() error { return s.conn.CloseWrite() }

// Receive receives a message. It returns io.EOF when the handler has returned, or the handler's
// error.
func (s *ClientStream[In, Out, PI, PO]) Receive() (*Out, error) {
	m := new(Out)
	return m, protodelim.UnmarshalFrom(s.read, PO(m))
}

// Close ends the stream.
func (s *ClientStream[In, Out, PI, PO]) Close() error { return s.conn.Close() }

// A ServerStream is a server's end of a stream that receives In and sends Out.
type ServerStream[In, Out any, PI message[In], PO message[Out]] struct {
	conn *stream.Conn
	read *bufio.Reader
}

// RegisterStream registers a streaming method. Generated code calls it.
func RegisterStream[In, Out any, PI message[In], PO message[Out]](s *rpc.Server, service, method string, h func(context.Context, *ServerStream[In, Out, PI, PO]) error) error {
	return stream.Register(s, service, method, func(ctx context.Context, c *stream.Conn) error {
		return h(ctx, &ServerStream[In, Out, PI, PO]{c, bufio.NewReader(c)})
	})
}

// Send sends a message.
func (s *ServerStream[In, Out, PI, PO]) Send(m *Out) error { return send(s.conn, PO(m)) }

// Receive receives a message. It returns io.EOF after the client's CloseSend.
func (s *ServerStream[In, Out, PI, PO]) Receive() (*In, error) {
	m := new(In)
	return m, protodelim.UnmarshalFrom(s.read, PI(m))
}

// send writes a message at once.
func send(w interface{ Write([]byte) (int, error) }, m proto.Message) error {
	buffered := bufio.NewWriterSize(w, 16<<10)
	if _, err := protodelim.MarshalTo(buffered, m); err != nil {
		return err
	}
	return buffered.Flush()
}
