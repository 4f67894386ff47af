package rc

import (
	"bytes"
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/wire/ib"
)

func TestTrainIsOneMessageInOnePacket(t *testing.T) {
	for _, op := range []queue.Op{queue.Write, queue.WriteImm, queue.Send, queue.SendImm, queue.Read} {
		w := newPair(t, nil)
		w.longest = func() int { return 64 }
		a, b := w.n[0], w.n[1]
		const n = 20*testMTU + 5
		fill(a.mem, 3)
		fill(b.mem[:n], 5)
		b.postRecv(1, b.sge(0, n))
		a.post(wqe{op: op, list: []memory.SGE{a.sge(0, n)}, remote: b.target(0)})
		w.settle()
		w.wantStatuses(&a.send, queue.Success)
		if !bytes.Equal(a.mem[:n], b.mem[:n]) {
			t.Errorf("%v: memory differs", op)
		}
		data := w.sent[1]
		if op == queue.Read {
			data = w.sent[0]
		}
		if len(data) != 1 || len(data[0].Payload) != n || !data[0].Opcode.Info().First || !data[0].Opcode.Info().Last {
			t.Errorf("%v: found %d packets, expected one with %d bytes", op, len(data), n)
		}
	}
}

// A train must split into the packets that would be sent without it.
func TestTrainSplitsIntoItsPackets(t *testing.T) {
	for _, op := range []queue.Op{queue.Write, queue.WriteImm, queue.Send, queue.SendImm, queue.SendInv} {
		const n = 5*testMTU + 5
		sent := func(longest int) (list []ib.Packet) {
			w := newPair(t, nil)
			a, b := w.n[0], w.n[1]
			fill(a.mem, 3)
			a.post(wqe{op: op, imm: 7, flags: queue.Solicited, list: []memory.SGE{a.sge(0, 300), a.sge(300, n-300)}, remote: queue.RDMA{Addr: b.mr.Base, RKey: 1}})
			out, part := machine.Out{Longest: longest}, machine.Out{}
			for a.q.Next(0, &out) {
				for i := range out.PSNs() {
					out.Part(i, testMTU, &part)
					p := part.Packet
					p.Payload = bytes.Join(part.Pieces, nil)
					if len(p.Payload) != part.Len {
						t.Fatalf("%v: Len is %d, pieces have %d bytes", op, part.Len, len(p.Payload))
					}
					list = append(list, p)
				}
			}
			return list
		}
		want, got := sent(0), sent(4)
		if len(want) != 6 || len(got) != len(want) {
			t.Fatalf("%v: %d packets of trains, %d without, expected 6", op, len(got), len(want))
		}
		for i := range want {
			head := func(p ib.Packet) []byte {
				if !p.Opcode.Info().First {
					p.RETH = ib.RETH{}
				}
				return p.Append(nil)
			}
			if !bytes.Equal(head(got[i]), head(want[i])) {
				t.Errorf("%v, packet %d: found %v, expected %v", op, i, got[i].BTH, want[i].BTH)
			}
		}
	}
}
