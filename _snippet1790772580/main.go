package main

import (
	"context"
	"fmt"
	"softrdma/rpc"
)

func main() {
ctx := context.Background()
s, _ := rpc.NewServer(rpc.ServerConfig{})
_ = s.Register("greeter", rpc.Unary("hello", rpc.JSON,
	func(ctx context.Context, name *string) (*string, error) {
		answer := "hello, " + *name
		return &answer, nil
	}))
addr, _ := s.Listen("127.16.93.1:0")

c, _ := rpc.Dial(ctx, addr.String(), rpc.ClientConfig{}) // in another process, on another host
var answer string
err := c.Method("greeter/hello", rpc.JSON).Call(ctx, "gopher", &answer)
fmt.Println(answer, err)
}
