package main

import (
	"context"
	"net"

	"softrdma/rdmanet"
)

// listenStream listens for rsockets' connections, or for TCP's.
func listenStream(addr string, tcp bool) (net.Listener, error) {
	if tcp {
		return net.Listen("tcp", addr)
	}
	return (&rdmanet.ListenConfig{Protocol: protocol}).Listen(context.Background(), "rdma", addr)
}

// dialStream connects as listenStream's peer.
func dialStream(ctx context.Context, addr string, tcp bool) (net.Conn, error) {
	if tcp {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
	return (&rdmanet.Dialer{Protocol: protocol}).DialContext(ctx, "rdma", addr)
}
