// Package rpc makes remote procedure calls over RDMA: a client calls the methods of services that a
// server has registered by name. Bodies that are longer than a frame are read by the receiver from
// the sender's memory, without a copy. A session continues when its connections break, and each call is
// executed at most once.
//
// # A service
//
// A server registers methods and listens:
//
//	s, err := rpc.NewServer(rpc.ServerConfig{})
//	err = s.Register("greeter", rpc.Unary("hello", rpc.JSON,
//		func(ctx context.Context, name *string) (*string, error) {
//			answer := "hello, " + *name
//			return &answer, nil
//		}))
//	addr, err := s.Listen("192.0.2.1:7471")
//
// A client calls them, from any number of goroutines:
//
//	c, err := rpc.Dial(ctx, "192.0.2.1:7471", rpc.ClientConfig{})
//	hello := c.Method("greeter/hello", rpc.JSON)
//	var answer string
//	err = hello.Call(ctx, "gopher", &answer)
//
// A Codec turns values into bodies: Raw, JSON and Gob are here, and programs add their own. Client
// and server must use the codec of the same name for a method. Method.Send makes a one-way call,
// which has no answer.
//
// # Deadlines and cancellation
//
// The deadline of a call's context travels with it, and when the context is canceled the server
// learns that too: the handler's context ends. The caller does not wait for that.
//
// # Errors
//
// A handler's error reaches the client as an *Error with a Code and a message. Codes are errors
// themselves:
//
//	if errors.Is(err, rpc.NotFound) {
//
// The package adds codes, such as UnknownMethod, WrongCodec, TooLarge. Failures of the session have
// errors of their own: ErrUnreachable, ErrOutcomeUnknown, ErrVersion and others.
//
// # Memory
//
// Call.Body is registered memory that the handler must not use after it has returned.
// Call.Reserve returns the memory of the answer. With Client.Buffer and Method.Buffer, the client
// avoids copies, too. Everything else copies a body once at each end.
//
// A session bounds what a peer can make the other side keep: ServerConfig.Calls requests and answers,
// and ServerConfig.Bytes of long bodies each way. Calls beyond the limits wait, or fail with ErrBusy.
//
// # Where handlers run
//
// One goroutine of the server receives. It runs short handlers itself, because a hand-over to another
// goroutine would cost more than they do. A method whose handler has taken long gets goroutines, and
// if a handler blocks the receiving goroutine, another one takes over after a few milliseconds. So
// handlers may block. Run chooses otherwise. A waiting client polls for a short time and then sleeps;
// an idle client or server costs no processor time.
//
// # Broken connections
//
// The devices probe each other on idle connections, so that a peer which is only busy is not taken for
// dead. When a connection breaks, the client connects again and repeats the requests that have no
// answer. The server executes only what it has not begun, and repeats the answers that it keeps. If
// the server has lost the session, because it was started again or the client was away for longer than
// ServerConfig.SessionTimeout, calls in flight fail with ErrOutcomeUnknown, and later calls get a new
// session.
//
// Server.Shutdown lets clients go to another server before it ends, and Server.Redirect says to which.
// Calls that the server has not begun are made there without the program noticing.
//
// Package internal/session has the rules of the protocol. Both ends use this package.
package rpc
