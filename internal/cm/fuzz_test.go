package cm

import (
	"encoding/binary"
	"testing"
	"time"

	"softrdma/internal/qp"
	"softrdma/internal/wire/mad"
)

// FuzzReceive feeds almost valid datagrams to a manager that has connections in every state. The
// first byte chooses the connection whose IDs are inserted, the second the message; the rest
// overwrites a valid message. The manager must neither panic nor miscount, and must be empty after
// all connections are destroyed.
func FuzzReceive(f *testing.F) {
	for attr := range byte(11) {
		f.Add([]byte{attr, attr, 0, 0, 0, 0})
		f.Add([]byte{attr + 3, attr, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		w, a, b, l := pair(t)
		if len(script)%2 != 0 {
			w, a, b, l = fabricPair(t)
		}
		l.Backlog = 4
		conns := everyState(t, w, a, b)
		b.user = func(e seen) {
			if e.Inquiry != nil {
				e.Inquiry.Destroy(w.now)
			}
			if e.Kind == EventReqReceived {
				conns = append(conns, e.Conn)
			}
		}
		for steps := 0; len(script) >= 3 && steps < 40; steps++ {
			n := min(len(script), 3+int(script[2]%32))
			b.m.Receive(w.now, back(a.origin(), 0), almost(a, b, conns, script[:n]))
			script = script[n:]
			w.work()
			w.pass(time.Millisecond)
		}
		for _, c := range conns {
			c.Destroy(w.now)
		}
		w.settle(24 * 365 * time.Hour) // an MRA, or a REQ's response timeout, may ask for hours
		b.empty()
	})
}

// everyState makes a connection of b in each lasting state.
func everyState(t testing.TB, w *world, a, b *host) (all []*Conn) {
	w.lose = func(h *host, _ *mad.Header) bool { return h == b }
	for i := range 6 {
		q := asks(a, b)
		q.LocalID, q.QPN = uint32(1000+i), uint32(1000+i)
		b.m.Receive(w.now, back(a.origin(), 0), craft(mad.AttrREQ, &q))
		w.work()
		c := b.events[len(b.events)-1].Conn
		p := accepting
		p.QPN = uint32(2000 + i)
		switch i {
		case 0:
		case 1:
			w.must(c.Delay(w.now, 10, nil))
		default:
			w.must(c.Accept(w.now, &p))
		}
		if i > 2 {
			w.must(c.Establish(w.now))
		}
		if i == 4 {
			w.must(c.Disconnect(w.now, nil))
		}
		all = append(all, c)
	}
	for i := range 2 {
		p := b.quick(a)
		p.QPN, p.PeerToPeer = uint32(3000+i), i == 1
		c, err := b.m.Connect(w.now, p)
		w.must(err)
		all = append(all, c)
	}
	_, err := b.m.Resolve(w.now, &SIDRParams{Service: service, Path: qp.Path{Dst: a.addr}, Timeout: time.Millisecond})
	w.must(err)
	return all
}

func almost(a, b *host, conns []*Conn, script []byte) []byte {
	c := conns[int(script[0])%len(conns)]
	attr := mad.AttrREQ + mad.AttributeID(script[1]%11)
	var d [mad.Len]byte
	h := mad.NewHeader(attr, 1)
	h.Put(&d)
	if attr == mad.AttrREQ {
		q := asks(a, b)
		q.LocalID = c.RemoteID()
		q.Put(&d)
	} else {
		binary.BigEndian.PutUint32(d[mad.HeaderLen:], c.RemoteID())
		binary.BigEndian.PutUint32(d[mad.HeaderLen+4:], c.LocalID())
		if attr == mad.AttrDREQ {
			binary.BigEndian.PutUint32(d[mad.HeaderLen+8:], c.LocalQPN()<<8)
		}
	}
	for i, x := range script[3:] {
		d[mad.HeaderLen+(i*7+int(script[2]))%(mad.Len-mad.HeaderLen)] ^= x
	}
	return d[:]
}
