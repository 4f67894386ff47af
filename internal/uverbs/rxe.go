//go:build linux

package uverbs

import "softrdma/internal/queue"

// rxe is the provider of RoCE devices: Linux's Soft RoCE's, which drives the
// rings that the adapter has (rdma_user_rxe.h).
type rxe struct{}

func (rxe) driver() (string, uint32)  { return "rxe", 14 }
func (rxe) limits() (sge, inline int) { return maxSGE, maxInline }
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

func (rxe) context() []byte                       { return nil }
func (rxe) cq(_ *cq, at mmInfo) []byte            { return bytesOf(&at) }
func (rxe) qp(_ *queuePair, sq, rq mmInfo) []byte { return bytesOf(&rxeQP{RQ: rq, SQ: sq}) }
func (rxe) srq(q *srq, at mmInfo) []byte          { return bytesOf(&rxeSRQ{MI: at, SRQNum: q.handle}) }
func (rxe) mr(uint32) []byte                      { return nil }
