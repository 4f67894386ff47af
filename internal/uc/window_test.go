package uc

import (
	"testing"

	"softrdma/internal/machine/machinetest"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

func TestBindAndInvalidateKeepTheirPlace(t *testing.T) {
	a, b := pair(t)
	key, err := b.Memory.AllocWindow(machinetest.PD, 2)
	if err != nil {
		t.Fatal(err)
	}
	bound := key ^ 0x55
	b.PostSend(op(queue.Send, 1), machinetest.SGE(b.src, 0, 8))
	b.PostSend(func(w *queue.SendWQE) {
		w.Op, w.WRID = queue.BindMW, 2
		*w.MW() = queue.MW{Addr: b.target.Base + 100, Length: 50, MRLKey: b.target.Key, MWRKey: key, RKey: bound, Access: uint32(qp.RemoteWrite)}
	})
	machinetest.Drain(b.m, 0)
	b.m.Sent()
	if l := b.Sent.Take(); len(l) != 2 || l[1].Op != queue.WCBindMW || l[1].Status != queue.Success {
		t.Fatalf("found %+v", l)
	}
	a.PostSend(write(queue.Write, 1, b.target.Base+100, bound), machinetest.SGE(a.src, 1, 50))
	send(b, machinetest.Drain(a.m, 0)...)
	if b.tgtB[100] != a.srcB[1] || b.tgtB[149] != a.srcB[50] {
		t.Error("the window does not work")
	}
	b.PostSend(func(w *queue.SendWQE) { w.Op, w.WRID, w.ImmInv = queue.LocalInv, 3, bound })
	machinetest.Drain(b.m, 0)
	b.m.Sent()
	if l := b.Sent.Take(); len(l) != 1 || l[0].Op != queue.WCLocalInv || l[0].Status != queue.Success {
		t.Fatalf("found %+v", l)
	}
	a.PostSend(write(queue.Write, 2, b.target.Base+100, bound), machinetest.SGE(a.src, 60, 50))
	send(b, machinetest.Drain(a.m, 0)...)
	wantReasons(t, b, reason.KeyInvalid)
}
