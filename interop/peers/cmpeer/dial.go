package main

import (
	"context"
	"net"

	"softrdma/rdmanet"
)

// listenStream listens for connections of rsockets, or of TCP if tcp is set.
func listenStream(addr string, tcp bool) (net.Listener, error) {
	if tcp {
		return net.Listen("tcp", addr)
	}
	return (&rdmanet.ListenConfig{Protocol: protocol}).Listen(context.Background(), "rdma", addr)
}

// dialStream connects to a listener that listenStream made.
func dialStream(ctx context.Context, addr string, tcp bool) (net.Conn, error) {
	if tcp {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
	return (&rdmanet.Dialer{Protocol: protocol}).DialContext(ctx, "rdma", addr)
}
