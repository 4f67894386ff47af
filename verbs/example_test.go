package verbs_test

import (
	"context"
	"fmt"
	"log"

	"softrdma/verbs"
)

// exampleEnd is a device with 64 bytes of memory, a completion queue and a queue pair: the
// objects of one process. The examples have two of them.
type exampleEnd struct {
	dev *verbs.Device
	mr  *verbs.MR
	cq  *verbs.CQ
	qp  *verbs.QP
}

func openExample(addr string) *exampleEnd {
	dev, err := verbs.Open(addr, verbs.Config{})
	check(err)
	pd, err := dev.AllocPD()
	check(err)
	mr, err := pd.RegisterMemory(make([]byte, 64), verbs.LocalWrite|verbs.RemoteWrite|verbs.RemoteAtomic)
	check(err)
	cq, err := dev.CreateCQ(verbs.CQConfig{})
	check(err)
	qp, err := pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq})
	check(err)
	return &exampleEnd{dev, mr, cq, qp}
}

// connectExample connects two ends. Between processes, the endpoints travel by other means: as
// JSON over TCP, in a file, in the environment.
func connectExample(a, b *exampleEnd) {
	atA, atB := a.qp.Endpoint(), b.qp.Endpoint()
	check(a.qp.Connect(atA, atB, verbs.ConnectConfig{}))
	check(b.qp.Connect(atB, atA, verbs.ConnectConfig{}))
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

// RDMA WRITE: one side puts bytes into the other's memory without its help.
func Example_write() {
	a, b := openExample("127.7.9.1"), openExample("127.7.9.2")
	defer a.dev.Close()
	defer b.dev.Close()
	connectExample(a, b)

	n := copy(a.mr.Bytes(), "written by the peer")
	check(a.qp.PostSend(verbs.SendWR{
		Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{a.mr.SGE(0, n)},
		RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(),
	}))
	_, err := a.cq.WaitOne(context.Background())
	check(err)
	b.qp.State() // the device orders its WRITEs before this call
	fmt.Printf("%s\n", b.mr.Bytes()[:n])
	// Output: written by the peer
}

// SEND: the receiver says in advance where the next message goes, and a completion tells it
// that the message has arrived.
func Example_send() {
	a, b := openExample("127.7.9.1"), openExample("127.7.9.2")
	defer a.dev.Close()
	defer b.dev.Close()
	connectExample(a, b)

	check(b.qp.PostRecv(verbs.RecvWR{WRID: 42, SGL: []verbs.SGE{b.mr.SGE(0, 64)}}))
	n := copy(a.mr.Bytes(), "a message")
	check(a.qp.PostSend(verbs.SendWR{Op: verbs.OpSendImm, Imm: 7, SGL: []verbs.SGE{a.mr.SGE(0, n)}}))
	wc, err := b.cq.WaitOne(context.Background())
	check(err)
	fmt.Printf("request %d took %d bytes with %d: %s\n", wc.WRID, wc.ByteLen, wc.Imm, b.mr.Bytes()[:wc.ByteLen])
	// Output: request 42 took 9 bytes with 7: a message
}

// A completion that failed says what was expected and what was found.
func ExampleWC_Err() {
	a, b := openExample("127.7.9.1"), openExample("127.7.9.2")
	defer a.dev.Close()
	defer b.dev.Close()
	connectExample(a, b)

	check(a.qp.PostSend(verbs.SendWR{
		Op: verbs.OpWrite, SGL: []verbs.SGE{a.mr.SGE(0, 64)},
		RemoteAddr: b.mr.Addr() + 1, RKey: b.mr.RKey(), // one byte too far
	}))
	wc, err := a.cq.WaitOne(context.Background())
	fmt.Println(err == nil, wc.Status)
	fmt.Println(wc.Reason())
	for name, n := range b.dev.Counters() { // the peer has counted the reason
		fmt.Println(name, n)
	}
	// Output:
	// false IBV_WC_REM_ACCESS_ERR
	// NAK_REMOTE_ACCESS
	// KEY_BOUNDS 1
}

// A device on the address of the daemon that serves this machine's programs.
func ExampleOpen_shared() {
	dev, err := verbs.Open("shared:", verbs.Config{})
	check(err)
	defer dev.Close()
	mem, err := verbs.AllocMemory(1<<20, verbs.AllocConfig{Device: dev})
	check(err)
	pd, err := dev.AllocPD()
	check(err)
	mr, err := pd.RegisterMemory(mem.Bytes(), verbs.LocalWrite|verbs.RemoteWrite)
	check(err)
	fmt.Println(dev.Name(), mr.Len())
}
