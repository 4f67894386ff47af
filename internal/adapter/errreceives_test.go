package adapter_test

import (
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

// Drivers of other processes post receives without a doorbell. In ERR no message comes
// that would take them, and they are flushed nevertheless (IBTA 10.3.1.7).
func TestReceivesPostedInErrWithoutDoorbellAreFlushed(t *testing.T) {
	failures := map[string]func(t *testing.T, s *side, q *adapter.QP){
		"by the program": func(t *testing.T, _ *side, q *adapter.QP) { must(t, rig.ToErr(q)) },
		"by an error": func(t *testing.T, s *side, q *adapter.QP) {
			bad := memory.SGE{Addr: 0x10000, Length: 1, LKey: s.mr.Key ^ 1<<8}
			must(t, rig.PostSend(q, rig.Send{ID: 7, Op: queue.Send, SGEs: []memory.SGE{bad}}))
			_, err := s.Wait(s.cq, 1)
			must(t, err)
		},
	}
	for _, typ := range []qp.Type{qp.RC, qp.UC, qp.UD} {
		for name, fail := range failures {
			if typ != qp.RC && name == "by an error" {
				continue // a failed send leaves them in SQE
			}
			t.Run(typ.String()+" "+name, func(t *testing.T) {
				a, b := pair(t, typ, simnet.LinkConfig{}, adapter.Config{})
				const depth, sges = 15, 2
				ring := queue.RecvRingOn(make([]byte, queue.RecvRingLen(depth, sges)), depth, sges)
				q, err := a.PD.CreateQP(&adapter.QPConfig{
					Type: typ, SendCQ: a.cq, RecvCQ: a.cq, SendDepth: 15, SendSGE: 2, RQ: ring,
				})
				must(t, err)
				if typ == qp.UD {
					must(t, rig.ReadyUD(q, 0x11, 0))
				} else {
					must(t, rig.Connect(q, b.qp, rig.Options{}))
				}
				fail(t, a, q)
				for id, pause := range []time.Duration{0, time.Millisecond, time.Hour, 0} {
					a.Net.Sleep(pause)
					must(t, rig.PostRecv(ring, uint64(id), a.sge(0, 64)))
					before := a.Net.Clock()
					got, err := a.Wait(a.cq, 1)
					must(t, err)
					if got[0].WRID != uint64(id) || got[0].Status != queue.WRFlushErr {
						t.Errorf("receive %d: %+v", id, got[0])
					}
					if took := a.Net.Clock() - before; took > 100*time.Millisecond {
						t.Errorf("receive %d was flushed after %v", id, took)
					}
				}
				must(t, q.Modify(qp.MaskState, &qp.Attr{State: qp.Reset}))
				must(t, rig.PostRecv(ring, 9, a.sge(0, 64)))
				a.Net.Sleep(time.Second)
				if n := a.cq.Ring().Len(); n != 0 {
					t.Errorf("%d completions in RESET", n)
				}
			})
		}
	}
}
