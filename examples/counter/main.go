// Counter increments one word concurrently from goroutines, other processes and the CPU
// of the word's own machine. No increment is lost, because RDMA atomics are atomic with
// the CPU's.
//
//	counter -join 127.8.0.1 -device eth0  # counts in another process's word
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
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"softrdma/verbs"
)

var (
	join       = flag.String("join", "", "count in the word that is there")
	device     = flag.String("device", "127.8.0.2", "device to count from")
	processes  = flag.Int("processes", 2, "to start that count as well")
	goroutines = flag.Int("goroutines", 4, "that count in each process")
	adds       = flag.Int("n", 500, "additions of each goroutine")
)

type word struct { // information that a counting process needs
	At     verbs.Endpoint
	Memory verbs.RemoteMemory
}

func main() {
	flag.Parse()
	if *join != "" {
		count()
		return
	}
	*join = "127.8.0.1"
	counter := serve(*join)
	var all sync.WaitGroup
	all.Go(count)
	for i := range *processes {
		c := exec.Command(must(os.Executable()), slices.Concat(os.Args[1:], []string{"-join", *join, "-device", fmt.Sprintf("127.8.0.%d", 3+i)})...)
		c.Stderr = os.Stderr
		all.Go(func() { check(c.Run()) })
	}
	for range *adds {
		atomic.AddUint64(counter, 1) // the machine's own CPU
	}
	all.Wait()
	got, want := atomic.LoadUint64(counter), uint64(*adds*(1+*goroutines*(1+*processes)))
	if got != want {
		log.Fatalf("counted to %d, expected %d", got, want)
	}
	fmt.Printf("counted to %d\n", got)
}

// serve offers a word of memory and connects a queue pair for each client. The device
// executes the atomics without calling this program.
func serve(addr string) *uint64 {
	dev := must(verbs.Open(addr, verbs.Config{}))
	pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(verbs.CQConfig{}))
	mem := must(verbs.AllocMemory(8, verbs.AllocConfig{})).Bytes()
	mr := must(pd.RegisterMemory(mem, verbs.LocalWrite|verbs.RemoteAtomic))
	l := must(net.Listen("tcp", net.JoinHostPort(addr, "18514")))
	go func() {
		for {
			conn, peer := must(l.Accept()), verbs.Endpoint{}
			check(json.NewDecoder(conn).Decode(&peer))
			qp := must(pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq}))
			at := qp.Endpoint()
			check(qp.Connect(at, peer, verbs.ConnectConfig{}))
			check(json.NewEncoder(conn).Encode(word{at, mr.Remote()}))
		}
	}()
	return (*uint64)(unsafe.Pointer(&mem[0]))
}

// count increments the word from several goroutines with a queue pair each.
func count() {
	dev := must(verbs.Open(*device, verbs.Config{}))
	defer dev.Close()
	var all sync.WaitGroup
	for range *goroutines {
		all.Go(func() {
			pd, cq := must(dev.AllocPD()), must(dev.CreateCQ(verbs.CQConfig{}))
			before := must(pd.RegisterMemory(make([]byte, 8), verbs.LocalWrite))
			qp := must(pd.CreateQP(verbs.QPConfig{Type: verbs.RC, SendCQ: cq}))
			conn, at, w := must(net.Dial("tcp", net.JoinHostPort(*join, "18514"))), qp.Endpoint(), word{}
			check(json.NewEncoder(conn).Encode(at))
			check(json.NewDecoder(conn).Decode(&w))
			check(qp.Connect(at, w.At, verbs.ConnectConfig{}))
			for range *adds {
				check(qp.PostSend(verbs.SendWR{Op: verbs.OpFetchAdd, Add: 1, Flags: verbs.Signaled,
					SGL: []verbs.SGE{before.SGE(0, 8)}, RemoteAddr: w.Memory.Addr, RKey: w.Memory.RKey}))
				must(cq.WaitOne(context.Background()))
			}
		})
	}
	all.Wait()
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
