//go:build linux

package uverbs

import (
	"fmt"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/queue"
	"softrdma/internal/wire/uapi"
)

// A fuzzedEnd is a queue pair with its rings, which its program writes to at any
// place.
type fuzzedEnd interface {
	// scribble writes a byte to a place of the send ring, the receive ring or the
	// completion ring.
	scribble(ring, at int, b byte)
	// ring rings the doorbell and arms the completion queue. Either may be refused.
	ring()
	// transfer writes data to the peer and waits for the completion.
	transfer(data []byte, to fuzzedEnd)
}

// ringKinds are the kinds of programs, each with how one of them opens connected
// queue pairs: with rxe's provider and with siw's.
var ringKinds = []func(c *testClient, s *Server) (ends []fuzzedEnd, files []*devFile){openRxeEnds, openSIWEnds}

// FuzzRings has a program write any bytes to its rings and ring the doorbell. Only its
// own queue pairs may fail, and closing its files destroys everything. Every four bytes
// of the input are a ring, an offset in it and a value.
func FuzzRings(f *testing.F) {
	for kind := range uint8(2) {
		f.Add(kind, []byte{0, 0, 0x80, 1})                                              // the send queue's producer index
		f.Add(kind, []byte{1, 0, 0x80, 5, 0, 1, 0x80, 1})                               // receives that were not posted
		f.Add(kind, []byte{2, 1, 0, 0xff, 0, 1, 0x8c, 2, 0, 0, 0x80, 1})                // the consumer index of completions; a SEND
		f.Add(kind, []byte{0, 2, 0x48, 0xff, 0, 1, 0x8c, 9, 0, 0, 0x80, 4, 1, 0, 8, 1}) // many entries
		f.Add(kind, []byte{0, 1, 0x8c, 6, 0, 0, 0x80, 1})                               // an atomic
	}
	const siw = 2
	f.Add(uint8(siw), []byte{0, 0, 8, 1})                                             // a WRITE without entries
	f.Add(uint8(siw), []byte{0, 0, 11, 3, 0, 0, 10, 200, 0, 0, 8, 1})                 // a SEND of many entries
	f.Add(uint8(siw), []byte{0, 0, 11, 9, 0, 0, 8, 7, 0, 0, 24 + 8, 0xff})            // an unknown operation, inline
	f.Add(uint8(siw), []byte{1, 0, 8, 1, 1, 0, 10, 0xff, 2, 0, 8, 1, 2, 0x10, 0, 3})  // receives; a completion that was not taken; armed
	f.Add(uint8(siw), []byte{0, 0, 11, 1, 0, 0, 10, 6, 0, 0, 8, 1, 0, 0, 24 + 8, 99}) // a READ
	pid := os.Getpid()                                                                // several processes fuzz at a time
	host := fmt.Sprintf("%d.%d", pid>>8&0xff, 1+pid&0x7f)
	s := newServer(f, "127.15."+host+" iwarp:127.16."+host)
	var bystanders []*testClient
	var untouched [][]fuzzedEnd
	for _, open := range ringKinds {
		c := newTestClient(f, s)
		ends, _ := open(c, s)
		bystanders, untouched = append(bystanders, c), append(untouched, ends)
	}
	before := s.Count().Objects
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		kind %= uint8(len(ringKinds))
		ends, files := ringKinds[kind](newTestClient(t, s), s)
		for _, e := range ends {
			for c := b; len(c) >= 4; c = c[4:] {
				e.scribble(int(c[0])%3, int(c[1])<<8|int(c[2]), c[3])
			}
			e.ring()
		}
		c, pair := bystanders[kind], untouched[kind]
		held := c.used
		c.t = t
		pair[0].transfer(b, pair[1])
		c.used = held
		for _, f := range files {
			unix.Close(f.fd)
			f.fd = -1
		}
		eventually(t, "all of the program gone", func() bool { return s.Count().Objects == before })
	})
}

// A rxeEnd has the adapter's rings.
type rxeEnd struct{ *side }

func (e rxeEnd) scribble(ring, at int, b byte) {
	r := [3][]byte{e.sq.b, e.rq.b, e.events.b}[ring]
	at %= len(r) - 4
	for i := range 4 {
		r[at+i] = b * byte(i&1^1) // every other byte: indices stay small
	}
}

func (e rxeEnd) ring() {
	_, _, _ = e.f.command(uapi.CmdPostSend, uapi.Bytes(&uapi.PostSend{QPHandle: e.handle}), nil, 4)
	_, _, _ = e.f.command(uapi.CmdReqNotifyCQ, uapi.Bytes(&uapi.ReqNotifyCQ{CQHandle: e.cq}), nil, 0)
}

func (e rxeEnd) transfer(data []byte, to fuzzedEnd) {
	y := to.(rxeEnd)
	copy(e.buf, data)
	e.post(queue.Write, func(w *queue.SendWQE) { *w.RDMA() = queue.RDMA{Addr: addrOf(y.buf), RKey: y.key} }, e.sge(0, 8))
	e.completion()
}

// openRxeEnds opens two connected queue pairs and one of datagrams on the RoCE device.
func openRxeEnds(c *testClient, s *Server) ([]fuzzedEnd, []*devFile) {
	file := c.open("uverbs0")
	_, _, fds := do[uapi.GetContextResp](file, uapi.CmdGetContext, uapi.Bytes(&uapi.Response{}), 8)
	c.t.Cleanup(func() { unix.Close(fds[0]) })
	p, q, u := newSide(file, 0x1000), newSide(file, 0x2000), newDatagrams(file, 0x3000)
	gid := s.cfg.Devices[0].GID()
	p.connect(q.qpn, gid)
	q.connect(p.qpn, gid)
	return postOne(p, q, &u.side), []*devFile{file}
}

func postOne(sides ...*side) (ends []fuzzedEnd) {
	for _, e := range sides {
		e.receive(e.sge(0, 100))
		ends = append(ends, rxeEnd{e})
	}
	return ends
}

// A siwEnd has the queues of siw's provider.
type siwEnd struct{ *siwSide }

func (e siwEnd) scribble(ring, at int, b byte) {
	r := [3][]byte{e.sq, e.rq, e.events}[ring]
	r[at%len(r)] = b
}

func (e siwEnd) ring() { _ = e.bell() }

func (e siwEnd) transfer(data []byte, to fuzzedEnd) {
	y := to.(siwEnd)
	copy(e.buf, data)
	e.post(siwOpWrite, queue.RDMA{Addr: addrOf(y.buf), RKey: y.key}, e.sge(0, 8))
	e.success()
}

// openSIWEnds opens two connected queue pairs on the iWARP device.
func openSIWEnds(c *testClient, s *Server) ([]fuzzedEnd, []*devFile) {
	file, cm := c.open("uverbs1"), c.open("rdma_cm")
	_, _, fds := do[uapi.GetContextResp](file, uapi.CmdGetContext, uapi.Bytes(&uapi.Response{}), 16)
	c.t.Cleanup(func() { unix.Close(fds[0]) })
	p, q := newSIW(file, 0x1000), newSIW(file, 0x2000)
	connectSIW(cmFile{cm}, iwarpAddr(s), p, q)
	var ends []fuzzedEnd
	for _, e := range []*siwSide{p, q} {
		e.receive(e.sge(0, 100))
		ends = append(ends, siwEnd{e})
	}
	return ends, []*devFile{file, cm}
}

// iwarpAddr returns the address of the iWARP device, which is the second one.
func iwarpAddr(s *Server) netip.Addr { return s.cfg.Devices[1].Addr().Addr() }
