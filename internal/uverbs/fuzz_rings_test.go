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

// FuzzRings has a program write anything to its rings, indices and all, and
// ring the doorbell: nothing but its own queue pairs suffers, and all of it goes
// with its file. Each four bytes put the fourth, repeated, at an offset in a ring.
func FuzzRings(f *testing.F) {
	f.Add([]byte{0, 0, 0x80, 1})                                              // the send queue's producer index
	f.Add([]byte{1, 0, 0x80, 5, 0, 1, 0x80, 1})                               // receives that nobody posted
	f.Add([]byte{2, 1, 0, 0xff, 0, 1, 0x8c, 2, 0, 0, 0x80, 1})                // the consumer index of completions; a SEND
	f.Add([]byte{0, 2, 0x48, 0xff, 0, 1, 0x8c, 9, 0, 0, 0x80, 4, 1, 0, 8, 1}) // many entries
	pid := os.Getpid()                                                        // several processes fuzz at a time
	s := newServer(f, fmt.Sprintf("127.15.%d.%d", pid>>8&0xff, 128+pid&0x7f))
	gid := s.cfg.Devices[0].GID()
	bystander := newTestClient(f, s).open("uverbs0")
	x, y := newSide(bystander, 0x5000), newSide(bystander, 0x6000)
	x.connect(y.qpn, gid)
	y.connect(x.qpn, gid)
	before, held := s.Count().Objects, bystander.used
	f.Fuzz(func(t *testing.T, b []byte) {
		file := newTestClient(t, s).open("uverbs0")
		_, _, fds := do[uapi.GetContextResp](file, uapi.CmdGetContext, uapi.Bytes(&uapi.Response{}), 8)
		defer unix.Close(fds[0])
		p, q, u := newSide(file, 0x1000), newSide(file, 0x2000), newDatagrams(file, 0x3000)
		p.connect(q.qpn, gid)
		q.connect(p.qpn, gid)
		for _, e := range []*side{p, q, &u.side} {
			e.receive(e.sge(0, 100))
			for c := b; len(c) >= 4; c = c[4:] {
				r := [3][]byte{e.sq.b, e.rq.b, e.events.b}[int(c[0])%3]
				at := (int(c[1])<<8 | int(c[2])) % (len(r) - 4)
				for i := range 4 {
					r[at+i] = c[3] * byte(i&1^1) // every other byte: indices stay small
				}
			}
			file.command(uapi.CmdPostSend, uapi.Bytes(&uapi.PostSend{QPHandle: e.handle}), nil, 4)
			file.command(uapi.CmdReqNotifyCQ, uapi.Bytes(&uapi.ReqNotifyCQ{CQHandle: e.cq}), nil, 0)
		}
		bystander.t, bystander.used = t, held
		copy(x.buf, b)
		x.post(queue.Write, func(w *queue.SendWQE) { *w.RDMA() = queue.RDMA{Addr: addrOf(y.buf), RKey: y.key} }, x.sge(0, 8))
		x.completion()
		unix.Close(file.fd)
		file.fd = -1
		eventually(t, "all of the program gone", func() bool { return s.Count().Objects == before })
	})
}
