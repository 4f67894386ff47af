package sanitize

import (
	"encoding/binary"
	"testing"

	"softrdma/internal/qp"
	"softrdma/internal/queue"
)

func TestSanitizerKeysInMessages(t *testing.T) {
	const local, remote = qp.LocalWrite, qp.LocalWrite | qp.RemoteWrite
	for _, c := range []struct {
		name    string
		access  qp.Access
		ended   bool
		order   binary.ByteOrder
		key, at int // offsets of the key and the address in the message
		flags   queue.Flags
		found   bool
	}{
		{"address and key of a peer's region", remote, false, binary.BigEndian, 16, 8, 0, false},
		{"without a remote right", local, false, binary.BigEndian, 16, 8, 0, true},
		{"in the other order", local, false, binary.LittleEndian, 4, 8, 0, true},
		{"in inline data", local, false, binary.LittleEndian, 4, 8, queue.Inline, true},
		{"of a deregistered region", remote, true, binary.LittleEndian, 0, 16, 0, true},
		{"far from each other", local, false, binary.LittleEndian, 0, 20, 0, false},
		{"not aligned", local, false, binary.LittleEndian, 1, 8, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, "KEY_SENT")
			r.sq = queue.NewSendRing(7, 1, 64)
			r.CreatedPair(pairKey, &Pair{QPN: 0x11, Type: qp.RC, PD: 1, RecvPD: 1, SQ: r.sq, State: func() qp.State { return qp.RTS }})
			x := r.register(t, 1, c.access)
			if c.ended {
				r.deregister(x)
			}
			message := r.buffer[:64]
			if c.flags != 0 {
				message = r.sq.InlineRoom(r.sq.Producer())
			}
			clear(message)
			c.order.PutUint64(message[c.at:], 0x1000+100)
			c.order.PutUint32(message[c.key:], x.Key)
			i := r.sq.Producer()
			*r.sq.At(i) = queue.SendWQE{Op: queue.Send, Flags: c.flags, Length: 64}
			if c.flags == 0 {
				r.sq.At(i).NumSGE = 1
				r.sq.SGERoom(i)[0].Addr, r.sq.SGERoom(i)[0].Length, r.sq.SGERoom(i)[0].LKey = 0x1000, 64, r.mr.Key
			}
			r.sq.Publish(r.sq.Next(i))
			r.Posted(pairKey)
			if len(r.found) > 1 || (len(r.found) == 1) != c.found {
				t.Errorf("found %v", r.found)
			}
		})
	}
}
