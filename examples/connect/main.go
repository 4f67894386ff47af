// Connect sends a greeting over a connection that the communication manager
// establishes: the client needs an address and a port, as with TCP. Any program that
// uses librdmacm can be the other end. Here both ends are in this process.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

func main() {
	addr := flag.String("listen", "127.0.0.1:7471", "local address and port of the server")
	flag.Parse()
	l := must(rdmacm.Listen(*addr, rdmacm.ListenConfig{}))
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		serve(l)
	}()

	ctx := context.Background()
	c := must(rdmacm.Dial(ctx, l.Addr().String(), rdmacm.Dialer{
		QP: verbs.QPConfig{MaxInline: 64},
	}))
	check(c.QP().PostSend(verbs.SendWR{
		Op: verbs.OpSend, Flags: verbs.Signaled, Inline: []byte("hello from " + c.LocalAddr().String()),
	}))
	must(c.SendCQ().WaitOne(ctx))
	<-done
	check(c.Close())
}

// serve accepts one connection. It posts the receive before it accepts the request,
// because the peer may send immediately afterwards.
func serve(l *rdmacm.Listener) {
	ctx := context.Background()
	r := must(l.Request(ctx))
	pd := must(r.PD())
	mr := must(pd.RegisterMemory(make([]byte, 64), verbs.LocalWrite))
	qp := must(r.CreateQP(pd, verbs.QPConfig{}))
	check(qp.PostRecv(verbs.RecvWR{SGL: []verbs.SGE{mr.SGE(0, mr.Len())}}))
	c := must(r.Accept(ctx, rdmacm.ConnParam{}))
	wc := must(c.RecvCQ().WaitOne(ctx))
	fmt.Printf("%v receives %q\n", c.LocalAddr(), mr.Bytes()[:wc.ByteLen])
	check(mr.Deregister())
	check(c.Close())
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
