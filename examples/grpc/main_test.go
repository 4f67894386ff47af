package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Many concurrent calls over one connection, with messages longer than its buffers.
func TestCallsOverOneConnection(t *testing.T) {
	s, address, err := serve(fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250)))
	if err != nil {
		t.Fatal(err)
	}
	defer s.GracefulStop()
	c, err := dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			name := strings.Repeat("x", i*20_000)
			out := new(wrapperspb.StringValue)
			if err := c.Invoke(ctx, "/Greeter/Greet", wrapperspb.String(name), out); err != nil {
				t.Error(err)
			}
			if out.Value != "hello, "+name {
				t.Errorf("a call with %d bytes: found %d", len(name), len(out.Value))
			}
		})
	}
	all.Wait()
}
