// Hello writes a greeting into the memory of another device by RDMA WRITE, without any
// action of the receiver. Both devices are in this process.
package main

import (
	"context"
	"fmt"
	"log"

	"softrdma/verbs"
)

type end struct {
	mr *verbs.MR
	cq *verbs.CQ
	qp *verbs.QP
}

func open(addr string) (e end) {
	dev := must(verbs.OpenRoCE(context.Background(), addr, verbs.RoCEConfig{}))
	pd := must(dev.AllocPD())
	e.mr = must(pd.RegisterMemory(make([]byte, 64), verbs.LocalWrite|verbs.RemoteWrite))
	e.cq = must(dev.CreateCQ(verbs.CQConfig{}))
	e.qp = must(pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: e.cq}))
	return e
}

func main() {
	a, b := open("127.0.0.1"), open("127.0.0.2")
	// Two processes would exchange the endpoints and the region's address and key
	// over a socket.
	atA, atB := a.qp.Endpoint(), b.qp.Endpoint()
	check(a.qp.Connect(atA, atB, verbs.ConnectConfig{}))
	check(b.qp.Connect(atB, atA, verbs.ConnectConfig{}))

	n := copy(a.mr.Bytes(), "hello from 127.0.0.1")
	check(a.qp.PostSend(verbs.SendWR{
		Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, n)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	}))
	must(a.cq.WaitOne(context.Background()))
	fmt.Printf("127.0.0.2 finds in its memory: %q\n", b.mr.Bytes()[:n])
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
