package ucx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"softrdma/msg"
)

// A UcpListenerConnectionHandler is called for each worker that requests a connection. The
// program makes an endpoint from the request, or rejects it, at once or later.
type UcpListenerConnectionHandler = func(connRequest *UcpConnectionRequest)

// UcpListenerParams are the parameters of a listener.
type UcpListenerParams struct {
	socket  string
	handler UcpListenerConnectionHandler
}

// SetSocketAddress sets the address and port to listen on. The unspecified address means that
// of the device; port 0 means any free one.
func (p *UcpListenerParams) SetSocketAddress(a *net.TCPAddr) (*UcpListenerParams, error) {
	s, err := socketAddress(a)
	if err != nil {
		return nil, err
	}
	p.socket = s
	return p, nil
}

// SetConnectionHandler sets the function to call for each connection request.
func (p *UcpListenerParams) SetConnectionHandler(connHandler UcpListenerConnectionHandler) *UcpListenerParams {
	p.handler = connHandler
	return p
}

// A UcpListener waits for workers that ask for connections.
type UcpListener struct {
	listener *msg.Listener
	handler  UcpListenerConnectionHandler
}

// UcpListenerAttributes are what UcpListener.Query returns.
type UcpListenerAttributes struct {
	Address *net.TCPAddr
}

// NewListener makes a listener, which needs a socket address and a connection handler.
func (w *UcpWorker) NewListener(listenerParams *UcpListenerParams) (*UcpListener, error) {
	if listenerParams.socket == "" || listenerParams.handler == nil {
		return nil, &UcxError{UCS_ERR_INVALID_PARAM, errors.New("a listener needs a socket address and a connection handler")}
	}
	l, err := w.worker.Listen(listenerParams.socket)
	if err != nil {
		return nil, failure(err)
	}
	u := &UcpListener{l, listenerParams.handler}
	if !w.background(func() { u.serve(w) }) {
		_ = l.Close()
		return nil, NewUcxError(UCS_ERR_CANCELED)
	}
	return u, nil
}

// serve passes connection requests to the handler.
func (l *UcpListener) serve(w *UcpWorker) {
	for {
		r, err := l.listener.Request(w.done)
		if err != nil {
			return
		}
		c := &UcpConnectionRequest{r}
		w.post(event{run: func() { l.handler(c) }})
	}
}

// Close stops listening. Connections continue.
func (l *UcpListener) Close() { _ = l.listener.Close() }

// Query returns attributes of the listener.
func (l *UcpListener) Query(attrs ...UcpListenerAttribute) (*UcpListenerAttributes, error) {
	a := &UcpListenerAttributes{}
	for _, attr := range attrs {
		if attr == UCP_LISTENER_ATTR_FIELD_SOCKADDR {
			a.Address = net.TCPAddrFromAddrPort(l.listener.Addr())
		}
	}
	return a, nil
}

// A UcpConnectionRequest is a worker that asks for a connection.
type UcpConnectionRequest struct{ request *msg.ConnRequest }

// UcpConnectionRequestAttributes are what UcpConnectionRequest.Query returns. Fields that were not
// asked for are zero.
type UcpConnectionRequestAttributes struct {
	ClientAddress *net.TCPAddr
	ClientId      uint64 // 0 if the client sent none
}

// Reject rejects the request. The peer's endpoint fails with UCS_ERR_REJECTED.
func (c *UcpConnectionRequest) Reject() error { return failure(c.request.Reject(nil)) }

// Query returns attributes of the request.
func (c *UcpConnectionRequest) Query(attrs ...UcpConnRequestAttribute) (*UcpConnectionRequestAttributes, error) {
	a := &UcpConnectionRequestAttributes{}
	for _, attr := range attrs {
		switch attr {
		case UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR:
			a.ClientAddress = net.TCPAddrFromAddrPort(c.request.RemoteAddr())
		case UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID:
			if b := c.request.PrivateData(); len(b) == 8 {
				a.ClientId = binary.BigEndian.Uint64(b)
			}
		}
	}
	return a, nil
}

// connector returns the function that makes the connection of an endpoint.
func (w *UcpWorker) connector(p *UcpEpParams) (func(context.Context) (*msg.Endpoint, error), error) {
	switch {
	case p.request != nil:
		return func(ctx context.Context) (*msg.Endpoint, error) { return p.request.request.Accept(ctx, nil) }, nil
	case p.address != nil:
		return func(ctx context.Context) (*msg.Endpoint, error) { return w.worker.Connect(ctx, p.address) }, nil
	case p.socket != "":
		if to, err := netip.ParseAddrPort(p.socket); err != nil || to.Port() == 0 || to.Addr().IsUnspecified() {
			return nil, &UcxError{UCS_ERR_INVALID_ADDR, fmt.Errorf("%s, expected the address and port of a listener", p.socket)}
		}
		var private []byte
		if p.clientID {
			private = binary.BigEndian.AppendUint64(nil, w.params.clientID)
		}
		return func(ctx context.Context) (*msg.Endpoint, error) { return w.worker.Dial(ctx, p.socket, private) }, nil
	}
	return nil, &UcxError{UCS_ERR_INVALID_PARAM, errors.New("the endpoint has no address and no connection request")}
}

// background runs f on a goroutine that Close waits for. It reports whether the worker is open.
func (w *UcpWorker) background(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.running.Add(1)
	go func() {
		defer w.running.Done()
		f()
	}()
	return true
}
