package batch

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"

	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/wire/ib"
)

var (
	from, to = netip.MustParseAddrPort("10.0.0.1:50000"), netip.MustParseAddrPort("10.0.0.2:4791")
	class    = frame.Class{HopLimit: 64}
)

func newFlow() *frame.Flow { return &frame.Flow{CRC: ib.NewPseudoHeader(from, to)} }

func newBuilder() *Builder {
	b := new(Builder)
	b.Init(link.Capabilities{Packets: link.MaxPackets, Bytes: link.MaxBatch})
	return b
}

// packets takes a batch apart, and checks the ICRC of each packet.
func packets(t *testing.T, b *Builder, f *frame.Flow) (list []ib.Packet) {
	t.Helper()
	all := bytes.Join(b.Tx.Pieces, nil)
	if len(all) != b.Tx.Bytes {
		t.Fatalf("%d bytes in the pieces, expected %d", len(all), b.Tx.Bytes)
	}
	for len(all) > 0 {
		packet := all[:min(b.Tx.Size, len(all))]
		all = all[len(packet):]
		var p ib.Packet
		if fault := p.Parse(packet); fault != ib.OK {
			t.Fatalf("packet %d: %v", len(list), fault)
		}
		if found, want := ib.ICRC(packet), f.CRC.Sum(0, packet); found != want {
			t.Errorf("packet %d: ICRC %#x, expected %#x", len(list), found, want)
		}
		list = append(list, p)
	}
	return list
}

func send(op ib.Opcode, n uint32, payload ...[]byte) (*machine.Out, int) {
	o := &machine.Out{Pieces: payload}
	o.Opcode, o.DestQPN, o.PSN = op, 0x123456, psn.PSN(n)
	for _, p := range payload {
		o.Len += len(p)
	}
	o.Pad = ib.PadLen(o.Len)
	return o, o.HeaderLen() + o.Len + int(o.Pad) + ib.ICRCLen
}

// Payloads of any length and number of pieces arrive as they were, short ones copied and
// long ones where they lie.
func TestPacketsOfABatchAreWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		b, f := newBuilder(), newFlow()
		var want [][]byte
		size := 0
		for i := range uint32(1 + r.IntN(10)) {
			var pieces [][]byte
			for range 1 + r.IntN(3) {
				piece := make([]byte, r.IntN(1500))
				for i := range piece {
					piece[i] = byte(r.Uint32())
				}
				pieces = append(pieces, piece)
			}
			o, n := send(ib.RCSendOnly, i, pieces...)
			if b.N == 0 {
				size = n
				b.Begin(f, n, class)
			} else if fits := b.Accepts(f, n, class); fits != (n <= size) {
				t.Fatalf("accepts %v for %d bytes in a batch of %d", fits, n, size)
			} else if !fits {
				continue
			}
			b.Append(o, n)
			want = append(want, bytes.Join(pieces, nil))
			if n < size {
				break
			}
		}
		list := packets(t, b, f)
		if len(list) != len(want) || b.N != len(want) {
			t.Fatalf("%d packets, N %d, expected %d", len(list), b.N, len(want))
		}
		for i, p := range list {
			if !bytes.Equal(p.Payload, want[i]) {
				t.Fatalf("packet %d: another payload than was sent", i)
			}
		}
	}
}

// A shorter packet ends a batch; another flow or class needs another one.
func TestBatchAcceptsOnlyWhatFits(t *testing.T) {
	b, f := newBuilder(), newFlow()
	o, n := send(ib.RCSendOnly, 0, make([]byte, 100))
	b.Begin(f, n, class)
	b.Append(o, n)
	if !b.Accepts(f, n, class) || !b.Accepts(f, n-4, class) {
		t.Error("refuses a packet of the same size, or a shorter one")
	}
	if b.Accepts(f, n+4, class) || b.Accepts(newFlow(), n, class) || b.Accepts(f, n, frame.Class{HopLimit: 1}) {
		t.Error("accepts a longer packet, another flow or another class")
	}
	short, m := send(ib.RCSendOnly, 1, make([]byte, 8))
	b.Append(short, m)
	if b.Accepts(f, m, class) {
		t.Error("accepts a packet behind a shorter one")
	}
	b.Reset()
	if b.N != 0 || b.Tx.Bytes != 0 || len(b.Tx.Pieces) != 0 || !b.Accepts(f, n+400, class) {
		t.Error("something is left of a batch that was sent")
	}
	for b.Begin(f, n, class); b.Accepts(f, n, class); b.Append(o, n) {
	}
	if b.N != link.MaxPackets {
		t.Errorf("%d packets in a full batch, expected %d", b.N, link.MaxPackets)
	}
}

// The packets in the middle of a train are made from the one before.
func TestMiddleOfATrainFollowsTheFirst(t *testing.T) {
	const mtu, count = 1024, 5
	data := make([]byte, count*mtu)
	for i := range data {
		data[i] = byte(i / 7)
	}
	b, f := newBuilder(), newFlow()
	train, _ := send(ib.RCSendMiddle, 7, data)
	first, n := send(ib.RCSendMiddle, 7, data[:mtu])
	b.Begin(f, n, class)
	b.Append(first, n)
	b.Follow()
	for i := 1; i < count; i++ {
		if !b.Next(train, i, mtu) {
			t.Fatalf("packet %d does not fit", i)
		}
	}
	for i, p := range packets(t, b, f) {
		if p.PSN != psn.PSN(7+i) || !bytes.Equal(p.Payload, data[i*mtu:(i+1)*mtu]) {
			t.Errorf("packet %d: PSN %d, or another payload", i, p.PSN)
		}
	}
	if train.Pieces = append(train.Pieces, nil); b.Next(train, 1, mtu) {
		t.Error("a train in two pieces is sent from one")
	}
}
