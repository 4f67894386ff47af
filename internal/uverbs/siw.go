//go:build linux

package uverbs

import "softrdma/internal/queue"

// siw is the provider of iWARP devices: Linux's soft iWARP's, whose queues have a
// layout of their own (siw-abi.h, queue.SIWSendRingOn).
type siw struct{}

func (siw) driver() (string, uint32)  { return "siw", 18 }
func (siw) limits() (sge, inline int) { return queue.SIWMaxSGE, queue.SIWMaxInline }
func (siw) resizes() bool             { return false }

func (siw) completions(depth int) mapped[queue.CompletionRing] {
	return mapped[queue.CompletionRing]{queue.SIWCompletionLen(depth), queue.SIWDepth(depth), func(mem []byte) *queue.CompletionRing {
		return queue.SIWCompletionRingOn(mem, depth)
	}}
}

// A request has room for all entries, however many were asked for.
func (siw) sends(depth, _, _ int) mapped[queue.SendRing] {
	return mapped[queue.SendRing]{queue.SIWSendLen(depth), queue.SIWDepth(depth), func(mem []byte) *queue.SendRing {
		return queue.SIWSendRingOn(mem, depth)
	}}
}

func (siw) receives(depth, _ int) mapped[queue.RecvRing] {
	return mapped[queue.RecvRing]{queue.SIWRecvLen(depth), queue.SIWDepth(depth), func(mem []byte) *queue.RecvRing {
		return queue.SIWRecvRingOn(mem, depth)
	}}
}

// siwContext is siw_uresp_alloc_ctx.
type siwContext struct{ DevID, _ uint32 }

// siwCQ is siw_uresp_create_cq.
type siwCQ struct {
	ID, Entries uint32
	Key         uint64 // where to map it
}

// siwQP is siw_uresp_create_qp.
type siwQP struct {
	ID, Sends, Receives, _ uint32
	SQKey, RQKey           uint64
}

// siwSRQ is siw_uresp_create_srq.
type siwSRQ struct {
	Entries, _ uint32
	Key        uint64
}

// siwMR is siw_uresp_reg_mr.
type siwMR struct{ STag, _ uint32 }

func (siw) context() []byte { return bytesOf(&siwContext{}) }

func (siw) cq(q *cq, at mmInfo) []byte {
	return bytesOf(&siwCQ{ID: q.handle, Entries: uint32(q.depth), Key: at.Offset})
}

func (siw) qp(q *queuePair, sq, rq mmInfo) []byte {
	return bytesOf(&siwQP{ID: q.a.QPN, Sends: q.caps.MaxSendWR, Receives: q.caps.MaxRecvWR, SQKey: sq.Offset, RQKey: rq.Offset})
}

func (siw) srq(q *srq, at mmInfo) []byte {
	return bytesOf(&siwSRQ{Entries: uint32(q.depth), Key: at.Offset})
}

func (siw) mr(key uint32) []byte { return bytesOf(&siwMR{STag: key}) }
