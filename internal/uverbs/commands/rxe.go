//go:build linux

package commands

import (
	"softrdma/internal/queue"
	"softrdma/internal/uverbs/device"
	"softrdma/internal/wire/uapi"
)

// rxe is the provider of Linux's Soft RoCE, which RoCE devices use. Its queues are the
// adapter's own rings (rdma_user_rxe.h).
type rxe struct{}

func (rxe) limits() (sge, inline int) { return device.MaxSGE, device.MaxInline }
func (rxe) resizes() bool             { return true }

func (rxe) completions(depth int) mapped[queue.CompletionRing] {
	depth = queue.RingDepth(depth)
	return mapped[queue.CompletionRing]{queue.CompletionRingLen(depth), depth, func(mem []byte) *queue.CompletionRing {
		return queue.CompletionRingOn(mem, depth)
	}}
}

func (rxe) sends(depth, sge, inline int) mapped[queue.SendRing] {
	depth = queue.RingDepth(depth)
	return mapped[queue.SendRing]{queue.SendRingLen(depth, sge, inline), depth, func(mem []byte) *queue.SendRing {
		return queue.SendRingOn(mem, depth, sge, inline)
	}}
}

func (rxe) receives(depth, sge int) mapped[queue.RecvRing] {
	depth = queue.RingDepth(depth)
	return mapped[queue.RecvRing]{queue.RecvRingLen(depth, sge), depth, func(mem []byte) *queue.RecvRing {
		return queue.RecvRingOn(mem, depth, sge)
	}}
}

func (rxe) context() []byte                 { return nil }
func (rxe) cq(_ *cq, at uapi.MmInfo) []byte { return uapi.Bytes(&at) }
func (rxe) qp(_ *queuePair, sq, rq uapi.MmInfo) []byte {
	return uapi.Bytes(&uapi.RxeQP{RQ: rq, SQ: sq})
}
func (rxe) srq(q *srq, at uapi.MmInfo) []byte {
	return uapi.Bytes(&uapi.CreateSRQDriver{MI: at, SRQNum: q.handle})
}
func (rxe) mr(uint32) []byte { return nil }
