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

// FuzzOwnRings is FuzzRings with the rings that programs of this module's have on
// an iWARP device, which are the adapter's.
func FuzzOwnRings(f *testing.F) {
	f.Add([]byte{0, 0, 0x80, 1})                                              // the send queue's producer index
	f.Add([]byte{1, 0, 0x80, 5, 0, 1, 0x80, 1})                               // receives that nobody posted
	f.Add([]byte{2, 1, 0, 0xff, 0, 1, 0x8c, 2, 0, 0, 0x80, 1})                // the consumer index of completions; a SEND
	f.Add([]byte{0, 2, 0x48, 0xff, 0, 1, 0x8c, 9, 0, 0, 0x80, 4, 1, 0, 8, 1}) // many entries
	f.Add([]byte{0, 1, 0x8c, 6, 0, 0, 0x80, 1})                               // an atomic
	pid := os.Getpid()                                                        // several processes fuzz at a time
	s := newServer(f, fmt.Sprintf("iwarp:127.16.%d.%d", pid>>8&0xff, 128+pid&0x7f))
	at := s.cfg.Devices[0].Addr().Addr()
	open := func(c *testClient) (a, b *side, files []*devFile) {
		file, cm := c.open("uverbs0"), c.open("rdma_cm")
		_, _, fds := file.command(uapi.CmdGetContext, uapi.Bytes(&uapi.Response{}), uapi.Bytes(&uapi.OwnContext{}), 8+uapi.Size[uapi.OwnContextResp]())
		c.t.Cleanup(func() { unix.Close(fds[0]) })
		a, b = newSide(file, 0x1000), newSide(file, 0x2000)
		connectIWARP(cmFile{cm}, at, file, [2]uint32{a.handle, b.handle}, [2]uint32{a.qpn, b.qpn})
		return a, b, []*devFile{file, cm}
	}
	c := newTestClient(f, s)
	x, y, _ := open(c)
	before, held := s.Count().Objects, c.used
	f.Fuzz(func(t *testing.T, b []byte) {
		p, q, files := open(newTestClient(t, s))
		for _, e := range []*side{p, q} {
			e.receive(e.sge(0, 100))
			for c := b; len(c) >= 4; c = c[4:] {
				r := [3][]byte{e.sq.b, e.rq.b, e.events.b}[int(c[0])%3]
				at := (int(c[1])<<8 | int(c[2])) % (len(r) - 4)
				for i := range 4 {
					r[at+i] = c[3] * byte(i&1^1) // every other byte: indices stay small
				}
			}
			_, _, _ = files[0].command(uapi.CmdPostSend, uapi.Bytes(&uapi.PostSend{QPHandle: e.handle}), nil, 4)
			_, _, _ = files[0].command(uapi.CmdReqNotifyCQ, uapi.Bytes(&uapi.ReqNotifyCQ{CQHandle: e.cq}), nil, 0)
		}
		c.t, c.used = t, held
		copy(x.buf, b)
		x.post(queue.Write, func(w *queue.SendWQE) { *w.RDMA() = queue.RDMA{Addr: addrOf(y.buf), RKey: y.key} }, x.sge(0, 8))
		x.completion()
		for _, f := range files {
			unix.Close(f.fd)
			f.fd = -1
		}
		eventually(t, "all of the program gone", func() bool { return s.Count().Objects == before })
	})
}
