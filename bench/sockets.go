package main

import (
	"context"
	"net"

	"github.com/spf13/cobra"

	"softrdma/bench/loop"
	"softrdma/rdmanet"
	"softrdma/verbs"
)

// sockets implements loop.Sockets with package rdmanet on one device.
type sockets struct{ dev *verbs.Device }

// openSockets opens the device of an end's local address.
func openSockets(cmd *cobra.Command, c *loop.Config) (sockets, error) {
	dev, err := verbs.Open(c.Local.String(), verbs.Config{SameHost: verbs.SameHost(c.SameHost)})
	return sockets{dev}, err
}

// Dial implements loop.Sockets.
func (s sockets) Dial(address string) (loop.StreamConn, error) {
	conn, err := (&rdmanet.Dialer{Device: s.dev}).Dial("rdma", address)
	if err != nil {
		return nil, err
	}
	return conn.(*rdmanet.Conn), nil
}

// Listen implements loop.Sockets.
func (s sockets) Listen(address string) (net.Listener, error) {
	return (&rdmanet.ListenConfig{Device: s.dev}).Listen(context.Background(), "rdma", address)
}
