//go:build linux

package uverbs

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/queue"
	"softrdma/internal/uverbs/uapi"
)

// FuzzSIWQueues is FuzzRings with the queues of siw's provider: flags, operations
// and counts are the program's to write, and so is the word that asks for events.
func FuzzSIWQueues(f *testing.F) {
	f.Add([]byte{0, 0, 8, 1})                                             // a WRITE without entries
	f.Add([]byte{0, 0, 11, 3, 0, 0, 10, 200, 0, 0, 8, 1})                 // a SEND of many entries
	f.Add([]byte{0, 0, 11, 9, 0, 0, 8, 7, 0, 0, 24 + 8, 0xff})            // of an operation that there is none of, inline
	f.Add([]byte{1, 0, 8, 1, 1, 0, 10, 0xff, 2, 0, 8, 1, 2, 0x10, 0, 3})  // receives; a completion that was not taken; armed
	f.Add([]byte{0, 0, 11, 1, 0, 0, 10, 6, 0, 0, 8, 1, 0, 0, 24 + 8, 99}) // a READ
	pid := os.Getpid()                                                    // several processes fuzz at a time
	s := newServer(f, fmt.Sprintf("iwarp:127.16.%d.%d", pid>>8&0xff, 1+pid&0x7f))
	at := s.cfg.Devices[0].Addr().Addr()
	c := newTestClient(f, s)
	file, cm := c.open("uverbs0"), cmFile{c.open("rdma_cm")}
	x, y := newSIW(file, 0x5000), newSIW(file, 0x6000)
	connectSIW(cm, at, x, y)
	before, held := s.Count().Objects, c.used
	f.Fuzz(func(t *testing.T, b []byte) {
		hostile := newTestClient(t, s)
		file, cm := hostile.open("uverbs0"), cmFile{hostile.open("rdma_cm")}
		_, _, fds := do[uapi.GetContextResp](file, uapi.CmdGetContext, uapi.Bytes(&uapi.Response{}), 16)
		defer unix.Close(fds[0])
		p, q := newSIW(file, 0x1000), newSIW(file, 0x2000)
		connectSIW(cm, at, p, q)
		for _, e := range []*siwSide{p, q} {
			e.receive(e.sge(0, 100))
			for c := b; len(c) >= 4; c = c[4:] {
				r := [3][]byte{e.sq, e.rq, e.events}[int(c[0])%3]
				r[(int(c[1])<<8|int(c[2]))%len(r)] = c[3]
			}
			_ = e.bell() // refused where the connection has ended
		}
		c.t, c.used = t, held
		copy(x.buf, b)
		x.post(siwOpWrite, queue.RDMA{Addr: addrOf(y.buf), RKey: y.key}, x.sge(0, 8))
		x.success()
		for _, f := range []*devFile{file, cm.devFile} {
			unix.Close(f.fd)
			f.fd = -1
		}
		eventually(t, "all of the program gone", func() bool { return s.Count().Objects == before })
	})
}
