package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	netrpc "net/rpc"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"softrdma/bench/compare"
	"softrdma/rdmanet"
	"softrdma/verbs"
)

// connectionCalls is one end of a library that uses connections, of TCP or of package rdmanet.
func connectionCalls(cmd *cobra.Command, c *compare.CallsConfig) error {
	listen := func() (net.Listener, error) { return net.Listen("tcp", net.JoinHostPort(c.Local, "0")) }
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", c.Peer) }
	if c.RDMANet {
		dev, err := verbs.Open(c.Device, verbs.Config{SameHost: verbs.SameHost(c.SameHost)})
		if err != nil {
			return err
		}
		defer dev.Close()
		at := net.JoinHostPort(dev.Addr().Addr().String(), "0")
		listen = func() (net.Listener, error) {
			return (&rdmanet.ListenConfig{Device: dev}).Listen(cmd.Context(), "rdma", at)
		}
		dial = func(ctx context.Context) (net.Conn, error) {
			return (&rdmanet.Dialer{Device: dev}).DialContext(ctx, "rdma", c.Peer)
		}
	}
	if c.Peer == "" {
		return serveConnections(cmd.Context(), cmd.OutOrStdout(), c.Library, listen)
	}
	switch c.Library {
	case compare.HTTPName:
		return askHTTP(cmd.Context(), cmd.OutOrStdout(), c, dial)
	case compare.GRPCName:
		return askGRPC(cmd.Context(), cmd.OutOrStdout(), c, dial)
	}
	return askNetRPC(cmd.Context(), cmd.OutOrStdout(), c, dial)
}

// Echo is the service of net/rpc.
type Echo struct{}

// Echo returns its argument.
func (Echo) Echo(in []byte, out *[]byte) error {
	*out = in
	return nil
}

// echoService is the service of gRPC.
var echoService = grpc.ServiceDesc{
	ServiceName: "Bench", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Echo",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.BytesValue)
			return in, decode(in)
		},
	}},
}

func serveConnections(ctx context.Context, out io.Writer, library string, listen func() (net.Listener, error)) error {
	l, err := listen()
	if err != nil {
		return err
	}
	defer l.Close()
	switch library {
	case compare.HTTPName:
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			if err == nil {
				_, _ = w.Write(b) // the client reports what is missing
			}
		})}
		defer s.Close()
		go s.Serve(l)
	case compare.GRPCName:
		s := grpc.NewServer()
		s.RegisterService(&echoService, nil)
		defer s.Stop()
		go s.Serve(l)
	default:
		s := netrpc.NewServer()
		if err := s.Register(Echo{}); err != nil {
			return err
		}
		go s.Accept(l)
	}
	if _, err := fmt.Fprintf(out, "ready %v 0\n", l.Addr()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func askNetRPC(ctx context.Context, out io.Writer, c *compare.CallsConfig, dial func(context.Context) (net.Conn, error)) error {
	conn, err := dial(ctx)
	if err != nil {
		return err
	}
	client := netrpc.NewClient(conn)
	defer client.Close()
	body, answer := make([]byte, c.Bytes), make([]byte, c.Bytes)
	return measureCalls(out, c.Seconds, func() error { return client.Call("Echo.Echo", body, &answer) })
}

func askHTTP(ctx context.Context, out io.Writer, c *compare.CallsConfig, dial func(context.Context) (net.Conn, error)) error {
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	defer t.CloseIdleConnections()
	client, body := http.Client{Transport: t}, make([]byte, c.Bytes)
	return measureCalls(out, c.Seconds, func() error {
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.Peer+"/echo", bytes.NewReader(body))
		if err != nil {
			return err
		}
		r, err := client.Do(q)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		got, err := io.ReadAll(r.Body)
		if err == nil && len(got) != len(body) {
			err = fmt.Errorf("an answer of %d bytes, expected %d", len(got), len(body))
		}
		return err
	})
}

func askGRPC(ctx context.Context, out io.Writer, c *compare.CallsConfig, dial func(context.Context) (net.Conn, error)) error {
	client, err := grpc.NewClient("passthrough:///"+c.Peer, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }))
	if err != nil {
		return err
	}
	defer client.Close()
	body, answer := wrapperspb.Bytes(make([]byte, c.Bytes)), new(wrapperspb.BytesValue)
	return measureCalls(out, c.Seconds, func() error {
		err := client.Invoke(ctx, "/Bench/Echo", body, answer)
		if err == nil && len(answer.Value) != c.Bytes {
			err = fmt.Errorf("an answer of %d bytes, expected %d", len(answer.Value), c.Bytes)
		}
		return err
	})
}
