package msg_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"softrdma/msg"
	"softrdma/verbs"
)

// Errors are ignored for brevity.
func Example() {
	ctx := context.Background()
	here, _ := verbs.Open("127.0.0.24", verbs.Config{})
	there, _ := verbs.Open("127.0.0.25", verbs.Config{})
	a, _ := msg.NewWorker(here, msg.Config{})
	b, _ := msg.NewWorker(there, msg.Config{}) // in another process, on another host

	e, _ := a.Connect(ctx, b.Address())                  // the address is bytes that programs exchange
	sent := e.Send(7, msg.Buffers{[]byte("hello")}, nil) // 7 is the tag

	buf := make([]byte, 64)
	info, _ := b.Receive(msg.Buffers{buf}, 7, msg.All).Wait(ctx)
	fmt.Printf("tag %d: %s\n", info.Tag, buf[:info.Length])

	_, _ = sent.Wait(ctx)
	_, _, _ = e.Close(ctx), a.Close(), b.Close()
	_, _ = here.Close(), there.Close()
	// Output: tag 7: hello
}

// Errors are ignored for brevity.
func ExampleWorker_Handle() {
	ctx := context.Background()
	here, _ := verbs.Open("127.0.0.24", verbs.Config{})
	there, _ := verbs.Open("127.0.0.25", verbs.Config{})
	a, _ := msg.NewWorker(here, msg.Config{})
	b, _ := msg.NewWorker(there, msg.Config{})

	const double, doubled = 1, 2
	b.Handle(double, func(m *msg.Active) {
		m.From.SendActive(doubled, m.Header, msg.Buffers{[]byte{2 * m.Data[0]}}, nil)
	})
	answers := make(chan string)
	a.Handle(doubled, func(m *msg.Active) {
		answer := fmt.Sprintf("%s: %d", m.Header, m.Data[0])
		go func() { answers <- answer }() // a handler must not block
	})
	e, _ := a.Connect(ctx, b.Address())
	e.SendActive(double, []byte("request 1"), msg.Buffers{[]byte{21}}, nil)
	fmt.Println(<-answers)

	_, _, _ = e.Close(ctx), a.Close(), b.Close()
	_, _ = here.Close(), there.Close()
	// Output: request 1: 42
}

// Errors are ignored for brevity.
func ExampleEndpoint_Remote() {
	ctx := context.Background()
	here, _ := verbs.Open("127.0.0.24", verbs.Config{})
	there, _ := verbs.Open("127.0.0.25", verbs.Config{})
	a, _ := msg.NewWorker(here, msg.Config{})
	b, _ := msg.NewWorker(there, msg.Config{}) // in another process, on another host

	region, _ := b.Map(make([]byte, 16), msg.AllowAll)
	e, _ := a.Connect(ctx, b.Address())
	m, _ := e.Remote(region.Key()) // the key is bytes that programs exchange

	m.Put(8, msg.Buffers{[]byte("hello")})
	m.Atomic64(msg.AtomicAdd, 0, 41, nil)
	e.Fence()
	var old uint64
	m.Atomic64(msg.AtomicAdd, 0, 1, &old)
	_, _ = e.Flush().Wait(ctx)
	fmt.Printf("%d %s\n", old, region.Bytes()[8:13])

	_, _, _ = e.Close(ctx), a.Close(), b.Close()
	_, _ = here.Close(), there.Close()
	// Output: 41 hello
}

// A program listens, another dials, and they exchange bytes without messages. Errors are ignored for
// brevity.
func ExampleWorker_Listen() {
	ctx := context.Background()
	here, _ := verbs.Open("127.0.0.24", verbs.Config{})
	there, _ := verbs.Open("127.0.0.25", verbs.Config{})
	a, _ := msg.NewWorker(here, msg.Config{})
	b, _ := msg.NewWorker(there, msg.Config{})

	l, _ := b.Listen("127.0.0.25:7471")
	go func() {
		for {
			r, err := l.Request(ctx)
			if err != nil {
				return
			}
			if string(r.PrivateData()) != "please" {
				_ = r.Reject([]byte("say please"))
				continue
			}
			e, _ := r.Accept(ctx, nil)
			_, _ = e.SendStream(msg.Buffers{[]byte("welcome")}).Wait(ctx)
		}
	}()

	_, err := a.Dial(ctx, "127.0.0.25:7471", nil)
	var rejected *msg.RejectedError
	if errors.As(err, &rejected) {
		fmt.Printf("rejected: %s\n", rejected.PrivateData)
	}
	e, _ := a.Dial(ctx, "127.0.0.25:7471", []byte("please"))
	buf := make([]byte, 7)
	_, _ = e.ReceiveStream(msg.Buffers{buf}, &msg.StreamOptions{Full: true}).Wait(ctx)
	fmt.Printf("%s\n", buf)

	_, _, _ = e.Close(ctx), a.Close(), b.Close()
	_, _ = here.Close(), there.Close()
	// Output:
	// rejected: say please
	// welcome
}

// Each worker of a ring sends to the next and receives from the one before. A worker that has both leaves,
// without waiting for the others: its last message was received, because the option Sync says so. Errors are
// ignored for brevity, but for those of the end.
func ExampleEndpoint_Send_sync() {
	const n, last = 3, 1
	ctx := context.Background()
	var workers [n]*msg.Worker
	for i := range workers {
		dev, _ := verbs.Open(fmt.Sprintf("127.0.0.%d", 24+i), verbs.Config{})
		defer dev.Close()
		workers[i], _ = msg.NewWorker(dev, msg.Config{})
	}
	var all sync.WaitGroup
	for i, w := range workers {
		next := workers[(i+1)%n].Address()
		all.Go(func() {
			e, _ := w.Connect(ctx, next)
			token := make([]byte, 8)
			received, sent := w.Receive(msg.Buffers{token}, last, msg.All), e.Send(last, msg.Buffers{[]byte("token")}, &msg.SendOptions{Sync: true})
			if _, err := sent.Wait(ctx); err != nil {
				fmt.Println("not received:", err)
			}
			_, _ = received.Wait(ctx)
			if err := e.Close(ctx); err != nil && !errors.Is(err, msg.ErrPeerClosed) {
				fmt.Println("close:", err)
			}
			_ = w.Close()
		})
	}
	all.Wait()
	fmt.Println("all have left")
	// Output: all have left
}

// A header and a body are sent as one message, and received apart. Errors are ignored for brevity.
func ExampleEndpoint_Send_pieces() {
	ctx := context.Background()
	here, _ := verbs.Open("127.0.0.24", verbs.Config{})
	there, _ := verbs.Open("127.0.0.25", verbs.Config{})
	a, _ := msg.NewWorker(here, msg.Config{})
	b, _ := msg.NewWorker(there, msg.Config{})
	e, _ := a.Connect(ctx, b.Address())

	sent := e.Send(7, msg.Buffers{[]byte("head"), []byte("the body")}, nil)
	head, body := make([]byte, 4), make([]byte, 100)
	info, _ := b.Receive(msg.Buffers{head, body}, 7, msg.All).Wait(ctx)
	fmt.Printf("%s: %s\n", head, body[:info.Length-len(head)])

	_, _ = sent.Wait(ctx)
	_, _, _ = e.Close(ctx), a.Close(), b.Close()
	_, _ = here.Close(), there.Close()
	// Output: head: the body
}
