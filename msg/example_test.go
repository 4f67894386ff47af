package msg_test

import (
	"context"
	"fmt"

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

	e, _ := a.Connect(ctx, b.Address()) // the address is bytes that programs exchange
	sent := e.Send(7, []byte("hello"))  // 7 is the tag

	buf := make([]byte, 64)
	info, _ := b.Receive(buf, 7, msg.All).Wait(ctx)
	fmt.Printf("tag %d: %s\n", info.Tag, buf[:info.Length])

	_, _ = sent.Wait(ctx)
	_, _, _ = e.Close(ctx), a.Close(), b.Close()
	_, _ = here.Close(), there.Close()
	// Output: tag 7: hello
}
