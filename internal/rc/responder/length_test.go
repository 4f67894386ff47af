package responder

import (
	"testing"

	"softrdma/internal/machine"
	"softrdma/internal/machine/machinetest"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/rc/conn"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// IBTA 9.4.3: no message is longer than 2^31 bytes, however long the receive is. The length
// in a completion has 32 bits.
func TestSendOverTheLongestMessageIsRefused(t *testing.T) {
	for _, x := range []struct {
		op     ib.Opcode
		before uint64 // bytes of the message that have come
		n      int
		fits   bool
	}{
		{ib.RCSendMiddle, machine.MaxMessage - 512, 256, true},
		{ib.RCSendMiddle, machine.MaxMessage, 256, false},
		{ib.RCSendLast, machine.MaxMessage - 256, 256, true},
		{ib.RCSendLast, machine.MaxMessage - 256 + 4, 256, false},
		{ib.RCSendLast, 1<<32 - 256, 256, false},
	} {
		p := machinetest.New(qp.RC, 5, 4)
		p.Attr.State = qp.RTS
		c := &conn.Conn{Port: &p.Port, Done: machine.NewCompletions(&p.Port), Stop: func() {}}
		var r Responder
		r.Init(c, nil)
		r.Start()
		r.message, r.opcode, r.taken = ib.KindSend, ib.RCSendMiddle, true
		r.received, r.recv = x.before, machine.Receive{WRID: 1, Length: 1 << 33}
		in := &machine.In{}
		in.Opcode, in.PSN, in.Payload = x.op, r.Expected(), make([]byte, x.n)
		info := in.Opcode.Info()
		if x.op == ib.RCSendMiddle && r.awaits(in, info) != x.fits {
			t.Errorf("%v behind %d bytes: the fast path takes it: expected %v, found %v", x.op, x.before, x.fits, !x.fits)
		}
		if r.checkLength(in, info) != x.fits {
			t.Errorf("%v behind %d bytes: fits: expected %v, found %v", x.op, x.before, x.fits, !x.fits)
		}
		if x.fits {
			continue
		}
		if got := p.Reasons(); len(got) != 1 || got[0] != reason.LengthLimit || p.Attr.State != qp.Err {
			t.Errorf("%v behind %d bytes: reasons %v, state %v", x.op, x.before, got, p.Attr.State)
		}
		if l := p.Received.List; len(l) != 1 || l[0].Status != queue.RemInvReqErr || l[0].WRID != 1 {
			t.Errorf("%v behind %d bytes: completions %+v", x.op, x.before, l)
		}
	}
}
