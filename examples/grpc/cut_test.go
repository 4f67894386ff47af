package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"softrdma/rdmanet"
	"softrdma/verbs"
)

// serverAddress is the environment variable that makes TestServerProcess a server.
const serverAddress = "SOFTRDMA_TEST_GRPC_SERVER"

// counting is a service that sends three messages and then pauses.
var counting = grpc.ServiceDesc{
	ServiceName: "Counting", HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{
		StreamName: "Count", ServerStreams: true,
		Handler: func(_ any, s grpc.ServerStream) error {
			if err := s.RecvMsg(new(wrapperspb.StringValue)); err != nil {
				return err
			}
			for i := range 3 {
				if err := s.SendMsg(wrapperspb.String(fmt.Sprint(i))); err != nil {
					return err
				}
			}
			<-s.Context().Done()
			return nil
		},
	}},
}

// TestServerProcess is the server that TestStreamCutByAKill kills.
func TestServerProcess(t *testing.T) {
	at := os.Getenv(serverAddress)
	if at == "" {
		t.Skip("not a test: another one runs it")
	}
	lc := rdmanet.ListenConfig{Protocol: verbs.IWARP}
	l, err := lc.Listen(t.Context(), "rdma", at)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("serving")
	s := grpc.NewServer()
	s.RegisterService(&counting, nil)
	t.Fatal(s.Serve(l))
}

// A stream whose server is killed must end with an error and not with io.EOF.
func TestStreamCutByAKill(t *testing.T) {
	at := fmt.Sprintf("127.%d.%d.%d:7000", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
	server := exec.Command(os.Args[0], "-test.run=^TestServerProcess$")
	server.Env = append(os.Environ(), serverAddress+"="+at)
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, "serving") {
		t.Fatalf("the server says %q, %v", line, err)
	}
	d := rdmanet.Dialer{Protocol: verbs.IWARP}
	c, err := grpc.NewClient("passthrough:///"+at, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return d.DialContext(ctx, "rdma", address)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := c.NewStream(ctx, &counting.Streams[0], "/Counting/Count", grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SendMsg(wrapperspb.String("")); err != nil {
		t.Fatal(err)
	}
	in := new(wrapperspb.StringValue)
	for range 3 {
		if err := s.RecvMsg(in); err != nil {
			t.Fatal(err)
		}
	}
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	err = s.RecvMsg(in)
	if err == nil || err == io.EOF || status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "SOCKET_CUT") {
		t.Errorf("expected an error of a connection that was cut, found %v", err)
	}
}
