// Greet is a server and a client, two processes that exchange a question and an answer.
// The client sends the question by SEND, which uses a receive of the server. The server
// answers by WRITE with immediate data: the WRITE places the answer directly in the
// client's memory, and the immediate data, here the length, completes a receive of the
// client and so notifies it.
//
//	greet -listen -device 192.0.2.1                   # the server
//	greet -dial 192.0.2.1 -device 192.0.2.2 -name Ada # the client
//
// Without -listen and -dial it is a server and starts a client.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"time"

	"softrdma/verbs"
)

var (
	device = flag.String("device", "127.8.0.20", "RDMA device, by interface or address")
	listen = flag.Bool("listen", false, "serve one client")
	dial   = flag.String("dial", "", "address of the server to ask")
	name   = flag.String("name", "world", "to ask with")
)

const (
	size = 256     // bytes of memory at each end
	port = "18516" // TCP port for exchanging endpoints
)

// An end is the information that one side needs about the other. It is sent over TCP as
// JSON.
type end struct {
	At     verbs.Endpoint     // of the queue pair
	Memory verbs.RemoteMemory // to which the other side writes
}

// A side is this process's memory, completion queue and queue pair.
type side struct {
	mr   *verbs.MR
	cq   *verbs.CQ
	qp   *verbs.QP
	peer end
}

// connect creates a side and connects it with the one at the other end of conn.
func connect(dev *verbs.Device, conn net.Conn) *side {
	pd := must(dev.AllocPD())
	s := &side{
		mr: must(pd.RegisterMemory(make([]byte, size), verbs.LocalWrite|verbs.RemoteWrite)),
		cq: must(dev.CreateCQ(verbs.CQConfig{})),
	}
	s.qp = must(pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: s.cq}))

	// The receive must be posted before the peer's message arrives, that is before
	// Connect. Posting receives requires the INIT state: ToInit.
	check(s.qp.ToInit(verbs.InitAttr{Access: verbs.RemoteWrite}))
	check(s.qp.PostRecv(verbs.RecvWR{SGL: []verbs.SGE{s.mr.SGE(0, size)}}))

	check(json.NewEncoder(conn).Encode(end{s.qp.Endpoint(), s.mr.Remote()}))
	check(json.NewDecoder(conn).Decode(&s.peer))
	check(s.qp.Connect(s.qp.Endpoint(), s.peer.At, verbs.ConnectConfig{Access: verbs.RemoteWrite}))
	return s
}

// next waits for the next completion.
func (s *side) next() verbs.WC {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return must(s.cq.WaitOne(ctx))
}

// await waits for a completion of one kind and skips others, because a send may complete
// before or after the peer's answer arrives.
func (s *side) await(op verbs.WCOp) verbs.WC {
	for {
		if wc := s.next(); wc.Op == op {
			return wc
		}
	}
}

func serve(dev *verbs.Device, conn net.Conn) {
	s := connect(dev, conn)
	wc := s.await(verbs.WCRecv)
	question := string(s.mr.Bytes()[:wc.ByteLen])
	n := copy(s.mr.Bytes(), fmt.Sprintf("hello, %s, from %v", question, dev.Addr().Addr()))
	check(s.qp.PostSend(verbs.SendWR{
		Op: verbs.OpWriteImm, Imm: uint32(n), Flags: verbs.Signaled,
		SGL: []verbs.SGE{s.mr.SGE(0, n)}, RemoteAddr: s.peer.Memory.Addr, RKey: s.peer.Memory.RKey,
	}))
	s.await(verbs.WCWrite) // the client has the answer, and the memory can be reused
}

func ask(dev *verbs.Device, conn net.Conn) {
	s := connect(dev, conn)
	n := copy(s.mr.Bytes(), *name)
	check(s.qp.PostSend(verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled, SGL: []verbs.SGE{s.mr.SGE(0, n)}}))
	wc := s.await(verbs.WCRecvRDMAImm)
	fmt.Printf("%s\n", s.mr.Bytes()[:wc.Imm])
}

func main() {
	flag.Parse()
	dev := must(verbs.Open(*device, verbs.Config{}))
	defer dev.Close()
	if *dial != "" {
		ask(dev, must(net.Dial("tcp", net.JoinHostPort(*dial, port))))
		return
	}
	l := must(net.Listen("tcp", net.JoinHostPort(dev.Addr().Addr().String(), port)))
	if !*listen {
		c := exec.Command(must(os.Executable()), "-dial", *device, "-device", "127.8.0.21", "-name", *name)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		check(c.Start())
		defer func() { check(c.Wait()) }()
	}
	serve(dev, must(l.Accept()))
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
