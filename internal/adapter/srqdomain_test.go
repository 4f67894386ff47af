package adapter_test

import (
	"testing"

	"softrdma/internal/adapter"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

// TestSharedReceivesUseKeysOfTheQueuesDomain: a queue pair takes receives from a shared
// receive queue of another protection domain. Their keys belong to the queue's domain
// (IBTA 10.2.9), and keys of the queue pair's own domain are refused.
func TestSharedReceivesUseKeysOfTheQueuesDomain(t *testing.T) {
	for _, typ := range []qp.Type{qp.RC, qp.UC} {
		for _, own := range []bool{false, true} {
			a, b := pair(t, typ, simnet.LinkConfig{}, adapter.Config{})
			other, err := b.Dev.AllocPD()
			must(t, err)
			// b's region is in b.PD. The queue is too, unless own.
			ofQueue, ofQP := b.PD, other
			if own {
				ofQueue, ofQP = other, b.PD
			}
			srq, err := ofQueue.CreateSRQ(15, 1)
			must(t, err)
			q, err := ofQP.CreateQP(&adapter.QPConfig{
				Type: typ, SendCQ: b.cq, RecvCQ: b.cq, SRQ: srq, SendDepth: 15, SendSGE: 1, Inline: 8,
			})
			must(t, err)
			must(t, rig.Connect(a.qp, q, rig.Options{}))
			must(t, rig.PostRecv(srq.Ring(), 1, b.sge(0, 64)))
			must(t, rig.PostSend(a.qp, rig.Send{ID: 1, Op: queue.Send, Inline: []byte{1}}))
			must(t, b.Net.Run(func() bool { return b.cq.Ring().Len() == 1 }, waitTime))
			var got [1]queue.CQE
			rig.Poll(b.cq, got[:])
			status, why := queue.Success, reason.None
			if own {
				status, why = queue.LocProtErr, reason.LocalKey
			}
			if got[0].Status != status || got[0].Reason != why {
				t.Errorf("%v, key of the queue pair's domain %v: completed with %v (%v), want %v (%v)",
					typ, own, got[0].Status, got[0].Reason, status, why)
			}
		}
	}
}
