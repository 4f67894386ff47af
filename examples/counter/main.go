// Counter counts in one word of memory from many places at once: goroutines of
// this process, other processes, and the CPU of the machine that has the word.
// RDMA atomics make each addition count once.
//
//	counter                               # has the word, and counts
//	counter -join 127.8.0.1 -device eth0  # counts in that of another process
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
	"sync"
	"sync/atomic"
	"unsafe"

	"softrdma/verbs"
)

var (
	join       = flag.String("join", "", "count in the word that is there")
	device     = flag.String("device", "127.8.0.2", "device to count from")
	goroutines = flag.Int("goroutines", 4, "that count in each process")
	processes  = flag.Int("processes", 2, "to start that count as well")
	adds       = flag.Int("n", 500, "additions of each goroutine")
)

const port = "18514" // TCP, where ends are exchanged

type word struct { // what a counter must know
	At   verbs.Endpoint
	Addr uint64
	RKey uint32
}

func main() {
	flag.Parse()
	if *join != "" {
		countAll()
		return
	}
	*join = "127.8.0.1"
	counter := serve(*join)
	var all sync.WaitGroup
	all.Go(countAll)
	for i := range *processes {
		c := exec.Command(must(os.Executable()), "-join", *join, "-device", fmt.Sprintf("127.8.0.%d", 3+i),
			"-n", fmt.Sprint(*adds), "-goroutines", fmt.Sprint(*goroutines))
		c.Stderr = os.Stderr
		all.Go(func() { check(c.Run()) })
	}
	for range *adds {
		atomic.AddUint64(counter, 1) // the machine's own CPU
	}
	all.Wait()
	got, want := atomic.LoadUint64(counter), uint64(*adds*(1+*goroutines*(1+*processes)))
	fmt.Printf("counted to %d, expected %d\n", got, want)
	if got != want {
		os.Exit(1)
	}
}

// serve offers a word of memory and connects a queue pair for each who asks.
// The device does the rest: nothing here is called while others count.
func serve(addr string) *uint64 {
	dev := must(verbs.Open(addr, verbs.Config{}))
	pd := must(dev.AllocPD())
	mem := must(verbs.AllocMemory(8, verbs.AllocConfig{})).Bytes()
	mr := must(pd.RegisterMemory(mem, verbs.LocalWrite|verbs.RemoteAtomic))
	cq := must(dev.CreateCQ(verbs.CQConfig{}))
	l := must(net.Listen("tcp", net.JoinHostPort(dev.Addr().Addr().String(), port)))
	go func() {
		for {
			conn := must(l.Accept())
			var peer verbs.Endpoint
			check(json.NewDecoder(conn).Decode(&peer))
			qp := must(pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq}))
			at := qp.Endpoint()
			check(qp.Connect(at, peer, verbs.ConnectConfig{}))
			check(json.NewEncoder(conn).Encode(word{at, mr.Addr(), mr.RKey()}))
		}
	}()
	return (*uint64)(unsafe.Pointer(&mem[0]))
}

func countAll() {
	dev := must(verbs.Open(*device, verbs.Config{}))
	defer dev.Close()
	var all sync.WaitGroup
	for range *goroutines {
		all.Go(func() { count(dev) })
	}
	all.Wait()
}

// count adds 1 again and again, on a queue pair of its own.
func count(dev *verbs.Device) {
	pd := must(dev.AllocPD())
	mr := must(pd.RegisterMemory(make([]byte, 8), verbs.LocalWrite)) // takes the value before
	cq := must(dev.CreateCQ(verbs.CQConfig{}))
	qp := must(pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq}))
	conn := must(net.Dial("tcp", net.JoinHostPort(*join, port)))
	at, w := qp.Endpoint(), word{}
	check(json.NewEncoder(conn).Encode(at))
	check(json.NewDecoder(conn).Decode(&w))
	check(qp.Connect(at, w.At, verbs.ConnectConfig{}))
	add := verbs.SendWR{Op: verbs.OpFetchAdd, Add: 1, Flags: verbs.Signaled, SGL: []verbs.SGE{mr.SGE(0, 8)}, RemoteAddr: w.Addr, RKey: w.RKey}
	wc := make([]verbs.WC, 1)
	for range *adds {
		check(qp.PostSend(add))
		check(cq.Wait(context.Background()))
		must(cq.Poll(wc))
		check(wc[0].Err())
	}
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
