package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"time"

	"softrdma/interop/peers/iperf3"
)

// iperf3Peer is iperf3: a server for one test, or a client.
func iperf3Peer(ctx context.Context, f *flag.FlagSet, args []string) error {
	var test iperf3.Test
	host := f.String("c", "", "the server's address; the server has none")
	bind := f.String("B", "", "address to listen on")
	port := f.String("p", "5201", "port")
	seconds := f.Int("t", 1, "seconds")
	f.IntVar(&test.Parallel, "P", 1, "streams")
	f.BoolVar(&test.Reverse, "R", false, "the server sends")
	f.IntVar(&test.Len, "l", 128<<10, "bytes of a block")
	f.Parse(args)
	test.Time = time.Duration(*seconds) * time.Second

	var r iperf3.Report
	var err error
	if *host == "" {
		var l net.Listener
		if l, err = listenStream(join(*bind, *port), false); err != nil {
			return err
		}
		defer l.Close()
		listening()
		r, err = iperf3.Serve(l)
	} else {
		r, err = iperf3.Run(func() (net.Conn, error) { return dialStream(ctx, join(*host, *port), false) }, test)
	}
	if err != nil {
		return err
	}
	for _, s := range r.Streams {
		fmt.Printf("stream %d: sent %d, received %d bytes in %v\n", s.ID, s.Sent, s.Received, r.Took.Round(time.Millisecond))
		if s.Received == 0 || s.Received > s.Sent {
			return fmt.Errorf("stream %d received %d of %d sent bytes", s.ID, s.Received, s.Sent)
		}
	}
	return nil
}
