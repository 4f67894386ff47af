//go:build linux && !softrdma_portable

package udp

import (
	"bytes"
	"net/netip"
	"testing"

	"softrdma/internal/link"
)

// A singleRig sends packets one at a time, each after the previous one was received.
type singleRig struct {
	*testing.T
	from, to *Link
	flow     *link.DatagramFlow
	rx       link.Rx
}

func newSingleRig(t *testing.T, host string) *singleRig {
	a, b := pair(t, host, Config{})
	return &singleRig{T: t, from: a, to: b, flow: openFlow(t, a, b.Local(), 7), rx: link.Rx{Sparse: true}}
}

const capable = 0x2a // of congestion marks, with a DSCP

func (r *singleRig) send(p []byte, size int, tos uint8) {
	r.Helper()
	send(r, r.from, &link.Tx{Flow: &r.flow.Flow, Pieces: [][]byte{p}, Bytes: len(p), Size: size, TOS: tos, HopLimit: 7})
}

// one sends a packet, receives it and checks that there is no other one.
func (r *singleRig) one(tos uint8) {
	r.Helper()
	p := pattern(64)
	r.send(p, len(p), tos)
	receive(r, r.to, &r.rx)
	if !bytes.Equal(r.rx.Data, p) || r.rx.Size != len(p) || r.rx.Src != r.flow.Src || r.rx.Dst != r.to.Local() {
		r.Fatalf("received %d bytes in packets of %d from %v to %v", len(r.rx.Data), r.rx.Size, r.rx.Src, r.rx.Dst)
	}
	r.nothing()
}

func (r *singleRig) nothing() {
	r.Helper()
	rx := link.Rx{Sparse: r.rx.Sparse}
	if ok, err := r.to.Receive(&rx); ok || err != nil {
		r.Fatalf("received %d bytes more, %v", len(rx.Data), err)
	}
}

func (r *singleRig) expects(single bool) {
	r.Helper()
	if got := r.to.in.single.on; got != single {
		r.Fatalf("single-packet mode: %v, want %v", got, single)
	}
}

// settle sends until the receiver is in single-packet mode.
func (r *singleRig) settle() {
	r.Helper()
	for range singleAfter {
		r.expects(false)
		r.one(capable)
		if r.rx.TOS != capable || r.rx.HopLimit != 7 {
			r.Fatalf("TOS %#x, hop limit %d", r.rx.TOS, r.rx.HopLimit)
		}
	}
	r.expects(true)
}

func TestSinglePacketModeSamplesHeaders(t *testing.T) {
	for _, host := range loopbacks(t) {
		t.Run(host, func(t *testing.T) {
			r := newSingleRig(t, host)
			r.settle()
			told := 0
			for range 10 * singleSample {
				switch r.one(capable); r.rx.TOS {
				case capable:
					told++
				case 0:
				default:
					t.Fatalf("TOS %#x", r.rx.TOS)
				}
			}
			r.expects(true)
			if told != 10 {
				t.Errorf("%d packets came with TOS, want 10", told)
			}
		})
	}
}

func TestBatchEndsSinglePacketMode(t *testing.T) {
	for _, host := range loopbacks(t) {
		t.Run(host, func(t *testing.T) {
			r := newSingleRig(t, host)
			r.settle()
			const size = singleSize + 1
			data := pattern(10*size + 100)
			r.send(data, size, capable)
			var got []byte
			for len(got) < len(data) {
				receive(t, r.to, &r.rx)
				if r.rx.Size != min(size, len(data)-len(got)) {
					t.Fatalf("received %d bytes in packets of %d behind %d, want packets as they were sent", len(r.rx.Data), r.rx.Size, len(got))
				}
				got = append(got, r.rx.Data...)
			}
			if !bytes.Equal(got, data) {
				t.Fatal("received other bytes than were sent")
			}
			r.expects(false)
			r.nothing()
			r.send(data, size, capable)
			if receive(t, r.to, &r.rx); !bytes.Equal(r.rx.Data, data) || r.rx.Size != size {
				t.Fatalf("received %d bytes in packets of %d, want a batch", len(r.rx.Data), r.rx.Size)
			}
			r.nothing()
			r.settle() // once more
		})
	}
}

// A batch that comes just before the change keeps its packet size.
func TestBatchQueuedBeforeSinglePacketMode(t *testing.T) {
	r := newSingleRig(t, "127.0.0.1")
	data := pattern(5 * 64)
	r.send(data, 64, capable)
	r.to.in.enterSingle(r.to.rx.fd)
	r.expects(false)
	if receive(t, r.to, &r.rx); !bytes.Equal(r.rx.Data, data) || r.rx.Size != 64 {
		t.Fatalf("received %d bytes in packets of %d, want the batch", len(r.rx.Data), r.rx.Size)
	}
	r.nothing()
	r.settle()
}

func TestBurstEndsSinglePacketMode(t *testing.T) {
	l := singleMode{on: true, run: singleAfter}
	short := link.Rx{Data: pattern(64), Size: 64}
	for range 3 {
		for range singleBurst {
			if l.count(true, &short); l.run == 0 {
				t.Fatalf("ended behind %d packets", l.burst)
			}
		}
		l.count(false, &short)
	}
	for range singleBurst + 1 {
		l.count(true, &short)
	}
	if l.run != 0 {
		t.Errorf("%d packets in a row, still in single-packet mode", l.burst)
	}
}

// Packets that arrive in pairs are received as pairs. A ping-pong in which the acknowledge
// comes with one message of many stays in single-packet mode.
func TestPairsEndSinglePacketMode(t *testing.T) {
	short := link.Rx{Data: pattern(64), Size: 64}
	for _, c := range []struct {
		singles int // packets before each pair
		ends    bool
	}{{0, true}, {1, true}, {6, false}, {13, false}} {
		l := singleMode{on: true, run: singleAfter}
		rounds := 0
		for ; rounds < 1000 && l.run > 0; rounds++ {
			for range c.singles {
				l.count(true, &short)
				l.count(false, &short)
			}
			l.count(true, &short)
			l.count(true, &short)
			l.count(false, &short)
		}
		if ended := l.run == 0; ended != c.ends || ended && rounds > 5 {
			t.Errorf("%d packets alone before each pair: ended %v in %d rounds, expected %v", c.singles, ended, rounds, c.ends)
		}
	}
}

// Once a path marks packets, the mark of each one is received.
func TestMarksEndSinglePacketMode(t *testing.T) {
	r := newSingleRig(t, "127.0.0.1")
	r.settle()
	for i := 0; r.to.in.single.on; i++ {
		if r.one(congested); i > singleSample {
			t.Fatalf("%d marked packets", i)
		}
	}
	for range 2 * singleAfter {
		r.one(congested)
		if r.rx.TOS != congested {
			t.Fatalf("TOS %#x", r.rx.TOS)
		}
	}
	r.settle()
}

func TestEveryHeaderIsReceivedUnlessSparse(t *testing.T) {
	r := newSingleRig(t, "127.0.0.1")
	r.settle()
	r.rx.Sparse = false
	for range 2 * singleAfter {
		r.one(capable)
		if r.expects(false); r.rx.TOS != capable || r.rx.HopLimit != 7 {
			t.Fatalf("TOS %#x, hop limit %d", r.rx.TOS, r.rx.HopLimit)
		}
	}
	r.rx.Sparse = true // they were single packets all the time
	r.one(capable)
	r.expects(true)
}

// A link that is a member of a group receives datagrams, whose headers are wanted.
func TestGroupsMemberReceivesBatchesAgain(t *testing.T) {
	r := newSingleRig(t, "127.0.0.1")
	r.settle()
	if err := r.to.Join(netip.MustParseAddr("239.17.18.24")); err != nil {
		t.Fatal(err)
	}
	r.rx.Sparse = false
	r.one(capable)
	data := pattern(5 * 64)
	r.send(data, 64, capable)
	if receive(t, r.to, &r.rx); !bytes.Equal(r.rx.Data, data) || r.rx.Size != 64 || r.rx.TOS != capable {
		t.Fatalf("received %d bytes in packets of %d, TOS %#x; want the batch", len(r.rx.Data), r.rx.Size, r.rx.TOS)
	}
}
