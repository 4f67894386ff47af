package main

import (
	"context"
	"net"
	"testing"
)

// Both ends measure calls over a connection.
func TestEndsMeasureCalls(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, func() (net.Listener, error) { return l, nil }) }()
	c := config{Peer: l.Addr().String(), Bytes: 64, Seconds: .01}
	err = c.ask(ctx, func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", c.Peer)
	})
	if err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
