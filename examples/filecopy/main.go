// Filecopy copies a file into another process by RDMA WRITE. Each part carries its
// number as immediate data, which wakes the sleeping receiver.
//
//	filecopy -from file -device eth0               # offers it to one receiver
//	filecopy -get 192.0.2.1 -to copy -device eth0  # receives it
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"time"

	"softrdma/verbs"
)

var (
	device = flag.String("device", "127.8.0.10", "RDMA device, by interface or address")
	from   = flag.String("from", "", "file to offer; this program's own when empty, to a process that it starts")
	get    = flag.String("get", "", "device of who offers")
	to     = flag.String("to", os.DevNull, "file to write")
)

const part = 1 << 20 // bytes of a WRITE

type end struct { // information that one side sends to the other
	At     verbs.Endpoint
	Size   int                // of the file
	Memory verbs.RemoteMemory // of the receiver
}

func parts(size int) int { return max((size+part-1)/part, 1) }

// open allocates memory for the file and creates a queue pair.
func open(dev *verbs.Device, size int) (*verbs.MR, *verbs.CQ, *verbs.QP) {
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(verbs.CQConfig{Depth: parts(size)}))
	mr := must(pd.RegisterMemory(must(verbs.AllocMemory(max(size, 1), verbs.AllocConfig{})).Bytes(), verbs.LocalWrite|verbs.RemoteWrite))
	return mr, cq, must(pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq, MaxSend: parts(size), MaxRecv: parts(size)}))
}

func receive(dev *verbs.Device) {
	conn, peer, out := must(net.Dial("tcp", net.JoinHostPort(*get, "18515"))), end{}, must(os.Create(*to))
	check(json.NewDecoder(conn).Decode(&peer))
	mr, cq, qp := open(dev, peer.Size)
	at := qp.Endpoint()
	check(qp.Connect(at, peer.At, verbs.ConnectConfig{}))
	check(qp.PostRecv(make([]verbs.RecvWR, parts(peer.Size))...)) // for immediate data only
	check(json.NewEncoder(conn).Encode(end{At: at, Memory: mr.Remote()}))
	for range parts(peer.Size) {
		wc := must(cq.WaitOne(context.Background()))
		b := mr.Bytes()[:peer.Size][int(wc.Imm)*part:]
		must(out.WriteAt(b[:min(part, len(b))], int64(wc.Imm)*part))
	}
	check(out.Close())
}

func send(dev *verbs.Device, in *os.File, l net.Listener) {
	size := int(must(in.Stat()).Size())
	mr, cq, qp := open(dev, size)
	must(io.ReadFull(in, mr.Bytes()[:size]))
	conn, at, peer := must(l.Accept()), qp.Endpoint(), end{}
	check(json.NewEncoder(conn).Encode(end{At: at, Size: size}))
	check(json.NewDecoder(conn).Decode(&peer))
	check(qp.Connect(at, peer.At, verbs.ConnectConfig{}))
	start := time.Now()
	for i := range parts(size) {
		check(qp.PostSend(verbs.SendWR{Op: verbs.OpWriteImm, Imm: uint32(i), Flags: verbs.Signaled,
			SGL: []verbs.SGE{mr.SGE(i*part, min(part, size-i*part))}, RemoteAddr: peer.Memory.Addr + uint64(i*part), RKey: peer.Memory.RKey}))
	}
	for range parts(size) {
		must(cq.WaitOne(context.Background()))
	}
	fmt.Printf("%d bytes in %v\n", size, time.Since(start).Round(time.Microsecond))
}

func main() {
	flag.Parse()
	dev := must(verbs.Open(*device, verbs.Config{}))
	defer dev.Close()
	if *get != "" {
		receive(dev)
		return
	}
	l := must(net.Listen("tcp", net.JoinHostPort(dev.Addr().Addr().String(), "18515")))
	if *from == "" {
		*from = must(os.Executable())
		c := exec.Command(*from, "-get", *device, "-to", *to, "-device", "127.8.0.11")
		c.Stderr = os.Stderr
		check(c.Start())
		defer func() { check(c.Wait()) }()
	}
	send(dev, must(os.Open(*from)), l)
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
