package rdmacm_test

import (
	"context"
	"fmt"
	"log"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// A server with one protection domain, one memory and one completion queue for all its clients. The
// private data of the connection tells each client where it may write.
func ExampleRequest_CreateQP() {
	ctx := context.Background()
	dev := must(verbs.Open("127.0.0.61", verbs.Config{}))
	defer dev.Close()
	l := must(rdmacm.Listen("127.0.0.61:7471", rdmacm.ListenConfig{Device: dev}))
	defer l.Close()
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(verbs.CQConfig{}))
	mr := must(pd.RegisterMemory(make([]byte, 64), verbs.LocalWrite|verbs.RemoteWrite))
	memory := must(mr.Remote().MarshalBinary())
	go func() {
		for {
			r, err := l.Request(ctx)
			if err != nil {
				return
			}
			qp := must(r.CreateQP(pd, verbs.QPConfig{SendCQ: cq}))
			check(qp.PostRecv(verbs.RecvWR{})) // for the immediate data
			must(r.Accept(ctx, rdmacm.ConnParam{PrivateData: memory}))
		}
	}()

	for _, name := range []string{"Ada", "Grace"} {
		c := must(rdmacm.Dial(ctx, "127.0.0.61:7471", rdmacm.Dialer{QP: verbs.QPConfig{MaxInline: 64}}))
		to := must(verbs.ParseRemoteMemory(c.PrivateData()))
		check(c.QP().PostSend(verbs.SendWR{
			Op: verbs.OpWriteImm, Imm: uint32(len(name)), Flags: verbs.Signaled, Inline: []byte(name), RemoteAddr: to.Addr, RKey: to.RKey,
		}))
		must(c.SendCQ().WaitOne(ctx))
		wc := must(cq.WaitOne(ctx)) // the server's; the client does not matter
		fmt.Printf("%s was here\n", mr.Bytes()[:wc.Imm])
		check(c.Close())
	}
	// Output:
	// Ada was here
	// Grace was here
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}
