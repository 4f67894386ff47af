package adapter

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"softrdma/internal/adapter/partition"
	"softrdma/internal/link"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/wire/ib"
)

// BenchmarkReceiveWrite measures receiving the packets of a long WRITE in batches that were just
// copied into the receive buffer.
func BenchmarkReceiveWrite(b *testing.B) {
	const size = 1 << 20
	for _, mtu := range []int{1024, 4096} {
		b.Run(fmt.Sprint(mtu), func(b *testing.B) {
			e := newEnd(b, "192.0.2.1:4791", Config{Manual: true}, qp.RC, 16)
			mem := make([]byte, size)
			mr, err := e.pd.Register(mem, memory.Addr(mem), qp.LocalWrite|qp.RemoteWrite)
			e.check(err)
			q := e.qp
			q.Attr.PathMTU, q.Attr.Access = mtu, qp.RemoteWrite
			w := writer{q: q, key: mr.Key, addr: mr.Base, data: page(size), psn: q.Attr.RQPSN}
			w.head = ib.NewPseudoHeader(q.Attr.Path.Dst, e.link.local)
			l := q.packets
			rx := link.Rx{Src: q.Attr.Path.Dst, Dst: e.link.local}
			buffer := make([]byte, 1<<16)
			var took time.Duration
			b.SetBytes(size)
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				w.write()
				b.StartTimer()
				for i, data := range w.batches {
					rx.Data, rx.Size = buffer[:copy(buffer, data)], w.stride
					if i == 0 {
						rx.Size = len(data) // has a RETH
					}
					now := time.Now()
					l.receive(0, &rx)
					took += time.Since(now)
				}
				l.network.N = 0
			}
			if !bytes.Equal(mem, w.data) {
				b.Fatal("wrong bytes")
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N)/float64(size/mtu), "ns/packet")
		})
	}
}

// page returns n bytes of a pattern.
func page(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return b
}

// A writer makes the packets of WRITEs.
type writer struct {
	q       *QP
	head    ib.Prefix
	key     uint32
	addr    uint64
	psn     psn.PSN
	data    []byte
	stride  int // of packets in a batch
	batches [][]byte
}

func (w *writer) write() {
	mtu := w.q.Attr.PathMTU
	w.batches, w.stride = w.batches[:0], mtu+ib.BTHLen+ib.ICRCLen
	p := ib.Packet{BTH: ib.BTH{DestQPN: w.q.QPN, PKey: partition.Default}}
	var batch []byte
	id := uint16(0) // counts the packets of a batch
	for at := 0; at < len(w.data); at += mtu {
		p.Opcode = ib.RCWriteOnly.Segment(at == 0, at+mtu == len(w.data))
		p.Payload = w.data[at : at+mtu]
		p.RETH = ib.RETH{Addr: w.addr, RKey: w.key, Length: uint32(len(w.data))}
		p.PSN, w.psn = w.psn, w.psn.Next()
		start := len(batch)
		batch = append(p.Append(batch), 0, 0, 0, 0)
		one := batch[start:]
		ib.PutICRC(one[len(one)-ib.ICRCLen:], w.head.Sum(id, one))
		id++
		if len(batch)+w.stride > link.MaxBatch || at == 0 || at+mtu == len(w.data) {
			w.batches, batch, id = append(w.batches, batch), nil, 0
		}
	}
}

// BenchmarkSendWrite measures sending a long WRITE to a link that does nothing.
func BenchmarkSendWrite(b *testing.B) {
	const size = 64 << 10
	for _, mtu := range []int{1024, 4096} {
		b.Run(fmt.Sprint(mtu), func(b *testing.B) {
			e := newEnd(b, "192.0.2.1:4791", Config{Manual: true, Window: 4 * size}, qp.RC, 16)
			e.qp.Attr.PathMTU = mtu
			e.link.forget = true
			mem := page(size)
			mr, err := e.pd.Register(mem, memory.Addr(mem), qp.LocalWrite)
			e.check(err)
			k := &counted{end: e, mr: mr}
			ack := testPacket{src: midPeer}
			ack.Opcode, ack.PSN, ack.AETH.Syndrome = ib.RCAcknowledge, e.qp.Attr.SQPSN.Add(-1), ib.ACKNoCredits
			var took time.Duration
			b.SetBytes(size)
			for b.Loop() {
				now := time.Now()
				e.write(queue.Write, memory.SGE{Addr: mr.Base, Length: size, LKey: mr.Key})
				took += time.Since(now)
				ack.PSN = ack.PSN.Add(size / mtu)
				k.take([]testPacket{ack}, 1)
			}
			if n := e.qp.SQ.Len(); n != 0 {
				b.Fatalf("%d messages not acknowledged", n)
			}
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N)/float64(size/mtu), "ns/packet")
		})
	}
}
