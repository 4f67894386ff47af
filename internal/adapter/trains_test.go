package adapter

import (
	"bytes"
	"testing"

	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

// A train must carry the same packets that a trace listener sees one by one.
func TestTrainMatchesItsPackets(t *testing.T) {
	for _, mtu := range []int{256, 1024, 4096} {
		for _, size := range []int{0, 1, mtu, 2 * mtu, 3*mtu - 2, 40 * mtu, 100*mtu + 3} {
			for _, op := range []queue.Op{queue.Write, queue.WriteImm, queue.Send, queue.Read} {
				trains, packets := sentBy(t, mtu, size, op, false), sentBy(t, mtu, size, op, true)
				if len(trains) != len(packets) || !bytes.Equal(bytes.Join(trains, nil), bytes.Join(packets, nil)) {
					t.Fatalf("%v of %d bytes at MTU %d: batches of %d bytes, and of %d for packets", op, size, mtu, lengths(trains), lengths(packets))
				}
				if n := len(bytes.Join(packets, nil)); n < min(size, 100<<10) { // the window may hold less
					t.Fatalf("%v of %d bytes at MTU %d: %d bytes sent", op, size, mtu, n)
				}
			}
		}
	}
}

func lengths(batches [][]byte) (n []int) {
	for _, b := range batches {
		n = append(n, len(b))
	}
	return n
}

// sentBy returns the batches in which a message leaves, or the response to a READ.
func sentBy(t *testing.T, mtu, size int, op queue.Op, traced bool) [][]byte {
	e := newEnd(t, "192.0.2.1:4791", Config{Manual: true}, qp.RC, 16)
	q := e.qp
	q.Attr.PathMTU, q.Attr.Access = mtu, qp.RemoteRead
	if traced {
		e.dev.Trace.Attach(silent{})
	}
	mem := page(size + 8)
	mr, err := e.pd.Register(mem, 0, qp.LocalWrite|qp.RemoteRead)
	e.check(err)
	if op == queue.Read {
		k := &counted{end: e, mr: mr}
		ask := testPacket{src: midPeer}
		ask.Opcode, ask.PSN, ask.RETH.Length = ib.RCReadRequest, q.Attr.RQPSN, uint32(size)
		k.take([]testPacket{ask}, 1)
		return e.link.sent
	}
	for _, cut := range []int{size, size / 3} { // one entry, and two
		e.write(op, memory.SGE{Length: uint32(cut), LKey: mr.Key}, memory.SGE{Addr: uint64(cut), Length: uint32(size - cut), LKey: mr.Key})
	}
	return e.link.sent
}

type silent struct{}

func (silent) Trace(*trace.Event) {}

// write posts a message with a list of entries.
func (e *end) write(op queue.Op, list ...memory.SGE) {
	i := e.qp.SQ.Producer()
	w := e.qp.SQ.At(i)
	*w = queue.SendWQE{Op: op, ImmInv: 3, NumSGE: uint32(len(list))}
	*w.RDMA() = queue.RDMA{Addr: 1, RKey: 2}
	for _, s := range list {
		w.Length += s.Length
	}
	copy(e.qp.SQ.SGERoom(i), list)
	e.qp.SQ.Publish(e.qp.SQ.Next(i))
	e.qp.Doorbell()
}
