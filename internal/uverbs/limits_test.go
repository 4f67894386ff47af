//go:build linux

package uverbs

import (
	"syscall"
	"testing"

	"softrdma/internal/qp"
	"softrdma/internal/uverbs/device"
	"softrdma/internal/wire/uapi"
)

// A queue pair with an SRQ has no receive queue, so what the program asks of it does not
// matter.
func TestQueuePairWithSRQIgnoresReceiveCapacities(t *testing.T) {
	f := newEngineClient(t, "127.14.15.40").open("uverbs0")
	pd, _, _ := do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	cq, _, _ := do[uapi.CreateCQResp](f, uapi.CmdCreateCQ, uapi.Bytes(&uapi.CreateCQ{CQE: 1, CompChannel: -1}), 24)
	srq, _, _ := do[uapi.CreateSRQResp](f, uapi.CmdCreateSRQ, uapi.Bytes(&uapi.CreateSRQ{PDHandle: pd.Handle, MaxWR: 1, MaxSGE: 1, SRQLimit: 2}), 24)
	for _, cap := range [][2]uint32{{0, 0}, {device.MaxQPWR + 1, 1}, {1 << 31, 1}, {1, device.MaxSGE + 1}} {
		base := uapi.ExCreateQPBase{
			PDHandle: pd.Handle, SendCQ: cq.CQHandle, RecvCQ: cq.CQHandle, Type: uint8(qp.RC), MaxSendWR: 1, MaxSendSGE: 1,
			IsSRQ: 1, SRQ: srq.SRQHandle, MaxRecvWR: cap[0], MaxRecvSGE: cap[1],
		}
		if no, _, _ := f.command(uapi.CmdCreateQP, uapi.Bytes(&uapi.CreateQP{ExCreateQPBase: base}), nil, 64); no != 0 {
			t.Errorf("%d receives of %d entries: %v", cap[0], cap[1], no)
		}
		base.IsSRQ = 0
		no, _, _ := f.command(uapi.CmdCreateQP, uapi.Bytes(&uapi.CreateQP{ExCreateQPBase: base}), nil, 64)
		if want := cap[0] > device.MaxQPWR || cap[1] > device.MaxSGE; want != (no == syscall.EINVAL) {
			t.Errorf("%d receives of %d entries without an SRQ: %v", cap[0], cap[1], no)
		}
	}
}

func TestModifyTakesTheLow24BitsOfPSNs(t *testing.T) {
	f := newEngineClient(t, "127.14.15.41").open("uverbs0")
	s := newSide(f, 0x1000)
	s.connect(s.qpn, [16]byte{10: 0xff, 11: 0xff, 12: 127, 13: 14, 14: 15, 15: 41})
	q, _, _ := do[uapi.QueryQPResp](f, uapi.CmdQueryQP, uapi.Bytes(&uapi.QueryQP{QPHandle: s.handle}), uapi.Size[uapi.QueryQPResp]())
	if q.RQPSN != highPSN&0xffffff || q.SQPSN != highPSN&0xffffff {
		t.Errorf("found receive PSN %#x and send PSN %#x, expected %#x", q.RQPSN, q.SQPSN, highPSN&0xffffff)
	}
}
