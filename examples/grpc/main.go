// Grpc makes a remote procedure call over RDMA: gRPC runs unchanged on connections of
// package rdmanet. Both ends are in this process. The service has one method with
// predefined messages, so no code has to be generated.
package main

import (
	"context"
	"fmt"
	"log"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"softrdma/rdmanet"
)

type greeter interface {
	Greet(context.Context, *wrapperspb.StringValue) (*wrapperspb.StringValue, error)
}

type server struct{}

func (server) Greet(_ context.Context, name *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
	return wrapperspb.String("hello, " + name.Value), nil
}

// service is the description that protoc-gen-go-grpc would generate for
//
//	service Greeter { rpc Greet(google.protobuf.StringValue) returns (google.protobuf.StringValue); }
var service = grpc.ServiceDesc{
	ServiceName: "Greeter", HandlerType: (*greeter)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Greet",
		Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.StringValue)
			if err := decode(in); err != nil {
				return nil, err
			}
			return srv.(greeter).Greet(ctx, in)
		},
	}},
}

// serve starts the service on an RDMA address, and returns the address.
func serve(address string) (*grpc.Server, string, error) {
	l, err := rdmanet.Listen("rdma", address)
	if err != nil {
		return nil, "", err
	}
	s := grpc.NewServer()
	s.RegisterService(&service, server{})
	go s.Serve(l)
	return s, l.Addr().String(), nil
}

// dial returns a client for an RDMA address.
func dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return rdmanet.DialContext(ctx, "rdma", address)
		}))
}

func main() {
	s, address, err := serve("127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Stop()
	c, err := dial(address)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	out := new(wrapperspb.StringValue)
	if err := c.Invoke(context.Background(), "/Greeter/Greet", wrapperspb.String("RDMA"), out); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s answers: %s\n", address, out.Value)
}
