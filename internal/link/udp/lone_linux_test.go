//go:build linux && !softrdma_portable

package udp

import (
	"bytes"
	"net/netip"
	"testing"

	"softrdma/internal/frame/rocev2"
	"softrdma/internal/link"
)

// A loneRig sends packets one at a time, each when the one before was received.
type loneRig struct {
	*testing.T
	from, to *Link
	flow     *rocev2.Flow
	rx       link.Rx
}

func newLoneRig(t *testing.T, host string) *loneRig {
	a, b := pair(t, host, Config{})
	return &loneRig{T: t, from: a, to: b, flow: openFlow(t, a, b.Local(), 7), rx: link.Rx{Sparse: true}}
}

const capable = 0x2a // of congestion marks, with a DSCP

func (r *loneRig) send(p []byte, size int, tos uint8) {
	r.Helper()
	send(r, r.from, &link.Tx{Flow: &r.flow.Flow, Pieces: [][]byte{p}, Bytes: len(p), Size: size, TOS: tos, HopLimit: 7})
}

// one sends a packet, receives it and looks for another one.
func (r *loneRig) one(tos uint8) {
	r.Helper()
	p := pattern(64)
	r.send(p, len(p), tos)
	receive(r, r.to, &r.rx)
	if !bytes.Equal(r.rx.Data, p) || r.rx.Size != len(p) || r.rx.Src != r.flow.Src || r.rx.Dst != r.to.Local() {
		r.Fatalf("received %d bytes in packets of %d from %v to %v", len(r.rx.Data), r.rx.Size, r.rx.Src, r.rx.Dst)
	}
	r.nothing()
}

func (r *loneRig) nothing() {
	r.Helper()
	rx := link.Rx{Sparse: r.rx.Sparse}
	if ok, err := r.to.Receive(&rx); ok || err != nil {
		r.Fatalf("received %d bytes more, %v", len(rx.Data), err)
	}
}

func (r *loneRig) expects(lone bool) {
	r.Helper()
	if got := r.to.in.lone.on; got != lone {
		r.Fatalf("lone packets expected: %v, want %v", got, lone)
	}
}

// settle sends until lone packets are expected.
func (r *loneRig) settle() {
	r.Helper()
	for range loneAfter {
		r.expects(false)
		r.one(capable)
		if r.rx.TOS != capable || r.rx.HopLimit != 7 {
			r.Fatalf("TOS %#x, hop limit %d", r.rx.TOS, r.rx.HopLimit)
		}
	}
	r.expects(true)
}

func TestLonePacketsAreReceivedWithoutHeaders(t *testing.T) {
	for _, host := range loopbacks(t) {
		t.Run(host, func(t *testing.T) {
			r := newLoneRig(t, host)
			r.settle()
			told := 0
			for range 10 * loneLook {
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

func TestBatchEndsLonePackets(t *testing.T) {
	for _, host := range loopbacks(t) {
		t.Run(host, func(t *testing.T) {
			r := newLoneRig(t, host)
			r.settle()
			const size = loneSize + 1
			data := pattern(10*size + 100)
			r.send(data, size, capable)
			var got []byte
			for len(got) < len(data) {
				receive(t, r.to, &r.rx)
				if r.rx.Size != min(size, len(data)-len(got)) || len(r.rx.Data) != r.rx.Size {
					t.Fatalf("received %d bytes in packets of %d behind %d, want each packet by itself", len(r.rx.Data), r.rx.Size, len(got))
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

// A batch that comes just before the change is what it was.
func TestBatchQueuedBeforeLonePackets(t *testing.T) {
	r := newLoneRig(t, "127.0.0.1")
	data := pattern(5 * 64)
	r.send(data, 64, capable)
	r.to.in.part(r.to.rx.fd)
	r.expects(false)
	if receive(t, r.to, &r.rx); !bytes.Equal(r.rx.Data, data) || r.rx.Size != 64 {
		t.Fatalf("received %d bytes in packets of %d, want the batch", len(r.rx.Data), r.rx.Size)
	}
	r.nothing()
	r.settle()
}

func TestPacketsWithoutPauseEndLonePackets(t *testing.T) {
	l := lone{on: true, run: loneAfter}
	short := link.Rx{Data: pattern(64), Size: 64}
	for range 3 {
		for range loneBurst {
			if l.count(true, &short); l.run == 0 {
				t.Fatalf("ended behind %d packets", l.burst)
			}
		}
		l.count(false, &short)
	}
	for range loneBurst + 1 {
		l.count(true, &short)
	}
	if l.run != 0 {
		t.Errorf("%d packets in a row, and more lone ones are expected", l.burst)
	}
}

// A path that marks its packets is noticed, and each marked packet from then on.
func TestMarksEndLonePackets(t *testing.T) {
	r := newLoneRig(t, "127.0.0.1")
	r.settle()
	for i := 0; r.to.in.lone.on; i++ {
		if r.one(congested); i > loneLook {
			t.Fatalf("%d marked packets", i)
		}
	}
	for range 2 * loneAfter {
		r.one(congested)
		if r.rx.TOS != congested {
			t.Fatalf("TOS %#x", r.rx.TOS)
		}
	}
	r.settle()
}

func TestEveryHeaderIsToldWhereWanted(t *testing.T) {
	r := newLoneRig(t, "127.0.0.1")
	r.settle()
	r.rx.Sparse = false
	for range 2 * loneAfter {
		r.one(capable)
		if r.expects(false); r.rx.TOS != capable || r.rx.HopLimit != 7 {
			t.Fatalf("TOS %#x, hop limit %d", r.rx.TOS, r.rx.HopLimit)
		}
	}
	r.rx.Sparse = true // they were alone all the time
	r.one(capable)
	r.expects(true)
}

// A link that is a member of a group has datagrams, whose headers are wanted.
func TestGroupsMemberReceivesBatchesAgain(t *testing.T) {
	r := newLoneRig(t, "127.0.0.1")
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
