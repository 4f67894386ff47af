// Bench is one end of a measurement of gRPC, over TCP or over RDMA by package rdmanet. `softrdma bench`
// starts it if it is installed as softrdma-bench-grpc.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"softrdma/rdmanet"
	"softrdma/verbs"
)

// config is what `softrdma bench` gives as argument.
type config struct {
	RDMANet  bool    `json:"rdmanet"`
	Device   string  `json:"device"`
	SameHost string  `json:"same_host"`
	Peer     string  `json:"peer"` // the server's address and port; empty at the server
	Local    string  `json:"local"`
	Bytes    int     `json:"bytes"`
	Seconds  float64 `json:"seconds"`
}

// service echoes bytes.
var service = grpc.ServiceDesc{
	ServiceName: "Bench", HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Echo",
		Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.BytesValue)
			return in, decode(in)
		},
	}},
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: softrdma-bench-grpc CONFIG")
	}
	var c config
	if err := json.Unmarshal([]byte(os.Args[1]), &c); err != nil {
		log.Fatal(err)
	}
	if err := c.run(); err != nil {
		log.Fatal(err)
	}
}

func (c *config) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listen := func() (net.Listener, error) { return net.Listen("tcp", net.JoinHostPort(c.Local, "0")) }
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", c.Peer)
	}
	if c.RDMANet {
		dev, err := verbs.Open(c.Device, verbs.Config{SameHost: verbs.SameHost(c.SameHost)})
		if err != nil {
			return err
		}
		defer dev.Close()
		at := net.JoinHostPort(dev.Addr().Addr().String(), "0")
		listen = func() (net.Listener, error) { return (&rdmanet.ListenConfig{Device: dev}).Listen(ctx, "rdma", at) }
		dial = func(ctx context.Context, _ string) (net.Conn, error) {
			return (&rdmanet.Dialer{Device: dev}).DialContext(ctx, "rdma", c.Peer)
		}
	}
	if c.Peer == "" {
		return serve(ctx, listen)
	}
	return c.ask(ctx, dial)
}

func serve(ctx context.Context, listen func() (net.Listener, error)) error {
	l, err := listen()
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	s.RegisterService(&service, nil)
	defer s.Stop()
	go s.Serve(l)
	fmt.Printf("ready %v 0\n", l.Addr())
	<-ctx.Done()
	return nil
}

// ask makes calls for some time after a warm-up, and prints percentiles of how long they took.
func (c *config) ask(ctx context.Context, dial func(context.Context, string) (net.Conn, error)) error {
	client, err := grpc.NewClient("passthrough:///"+c.Peer, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial))
	if err != nil {
		return err
	}
	defer client.Close()
	in, out := wrapperspb.Bytes(make([]byte, c.Bytes)), new(wrapperspb.BytesValue)
	whole := time.Duration(c.Seconds * float64(time.Second))
	var times []float64
	for begun := time.Now(); time.Since(begun) < whole+whole/10; {
		from := time.Now()
		if err := client.Invoke(ctx, "/Bench/Echo", in, out); err != nil {
			return err
		}
		if len(out.Value) != c.Bytes {
			return fmt.Errorf("an answer of %d bytes, expected %d", len(out.Value), c.Bytes)
		}
		if from.Sub(begun) > whole/10 {
			times = append(times, float64(time.Since(from).Nanoseconds())/1e3)
		}
	}
	if len(times) == 0 {
		return fmt.Errorf("no call in the measured time")
	}
	slices.Sort(times)
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{"p50_us": times[len(times)/2], "p99_us": times[len(times)*99/100]})
}
