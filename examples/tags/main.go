// Tags sends messages between two workers. The receiver picks them by tag, not in the order in
// which they were sent. Both workers are in this process.
package main

import (
	"context"
	"fmt"
	"log"

	"softrdma/msg"
	"softrdma/verbs"
)

// The tags of this program.
const (
	orders = iota + 1
	news
)

func open(addr string) *msg.Worker {
	return must(msg.NewWorker(must(verbs.Open(addr, verbs.Config{})), msg.Config{}))
}

func main() {
	ctx := context.Background()
	a, b := open("127.0.0.1"), open("127.0.0.2")
	// Two processes would exchange the address over a socket or a file.
	e := must(a.Connect(ctx, b.Address()))
	sent := []*msg.Request{
		e.Send(news, msg.Buffers{[]byte("it rains")}, nil),
		e.Send(orders, msg.Buffers{[]byte("two coffees")}, nil),
		e.Send(orders, msg.Buffers{make([]byte, 1<<20)}, nil), // b reads it from a's memory
	}

	buf := make([]byte, 1<<20)
	for _, tag := range []uint64{orders, orders, news} {
		i := must(b.Receive(msg.Buffers{buf}, tag, msg.All).Wait(ctx))
		fmt.Printf("tag %d: %d bytes %.11q\n", i.Tag, i.Length, buf[:i.Length])
	}
	for _, r := range sent {
		must(r.Wait(ctx))
	}
	check(e.Close(ctx))
	check(a.Close())
	check(b.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}
