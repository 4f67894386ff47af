// Rpc calls a service over RDMA. The server counts words of texts that it reads from the client's
// memory, and the client gives each call a deadline. Both ends are in this process.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"softrdma/rpc"
)

// count is the service's method: how often each word of a text occurs.
func count(_ context.Context, text *string) (*map[string]int, error) {
	words := strings.Fields(*text)
	if len(words) == 0 {
		return nil, rpc.Errorf(rpc.InvalidArgument, "the text has no words")
	}
	n := map[string]int{}
	for _, w := range words {
		n[w]++
	}
	return &n, nil
}

func main() {
	s, err := rpc.NewServer(rpc.ServerConfig{})
	check(err)
	check(s.Register("words", rpc.Unary("count", rpc.Gob, count)))
	address, err := s.Listen("127.0.0.1:0")
	check(err)

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := rpc.Dial(ctx, address.String(), rpc.ClientConfig{})
	check(err)
	m := c.Method("words/count", rpc.Gob)

	var n map[string]int
	check(m.Call(ctx, "to be or not to be", &n))
	fmt.Println("short text:", n)
	check(m.Call(ctx, strings.Repeat("long ", 1_000_000), &n)) // the server reads it from c's memory
	fmt.Println("long text:", n)
	err = m.Call(ctx, "", &n)
	fmt.Println("no text:", err, errors.Is(err, rpc.InvalidArgument))

	check(c.Close())
	check(s.Shutdown(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
