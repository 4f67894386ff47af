//go:build linux

package commands

import (
	"softrdma/internal/queue"
	"softrdma/internal/wire/uapi"
)

// siw is the provider of Linux's soft iWARP, which iWARP devices use. Its queues have
// a layout of their own (siw-abi.h, queue.SIWSendRingOn).
type siw struct{}

func (siw) limits() (sge, inline int) { return queue.SIWMaxSGE, queue.SIWMaxInline }
func (siw) resizes() bool             { return false }

func (siw) completions(depth int) mapped[queue.CompletionRing] {
	return mapped[queue.CompletionRing]{queue.SIWCompletionLen(depth), queue.SIWDepth(depth), func(mem []byte) *queue.CompletionRing {
		return queue.SIWCompletionRingOn(mem, depth)
	}}
}

// A request always has room for all entries.
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

func (siw) context() []byte { return uapi.Bytes(&uapi.SIWContext{}) }

func (siw) cq(q *cq, at uapi.MmInfo) []byte {
	return uapi.Bytes(&uapi.SIWCQ{ID: q.handle, Entries: uint32(q.depth), Key: at.Offset})
}

func (siw) qp(q *queuePair, sq, rq uapi.MmInfo) []byte {
	return uapi.Bytes(&uapi.SIWQP{ID: q.a.QPN, Sends: q.caps.MaxSendWR, Receives: q.caps.MaxRecvWR, SQKey: sq.Offset, RQKey: rq.Offset})
}

func (siw) srq(q *srq, at uapi.MmInfo) []byte {
	return uapi.Bytes(&uapi.SIWSRQ{Entries: uint32(q.depth), Key: at.Offset})
}

func (siw) mr(key uint32) []byte { return uapi.Bytes(&uapi.SIWMR{STag: key}) }
