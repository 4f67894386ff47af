package rig

import (
	"bytes"
	"net/netip"
	"testing"

	"softrdma/internal/adapter"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet"
)

func TestConnectedPairSendsAndReceives(t *testing.T) {
	for _, kind := range []qp.Type{qp.RC, qp.UC} {
		n := simnet.New(1)
		var hosts [2]*Host
		var cqs [2]*adapter.CQ
		var qps [2]*adapter.QP
		for i, a := range []string{"10.0.0.1:4791", "10.0.0.2:4791"} {
			h, err := Open(n, netip.MustParseAddrPort(a), simnet.LinkConfig{}, adapter.Config{})
			if err != nil {
				t.Fatal(err)
			}
			hosts[i] = h
			if cqs[i], err = h.Dev.CreateCQ(16, nil); err != nil {
				t.Fatal(err)
			}
			if qps[i], err = h.PD.CreateQP(&adapter.QPConfig{
				Type: kind, SendCQ: cqs[i], RecvCQ: cqs[i], SendDepth: 4, SendSGE: 2, RecvDepth: 4, RecvSGE: 2,
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := Connect(qps[0], qps[1], Options{}); err != nil {
			t.Fatal(err)
		}
		mem := bytes.Repeat([]byte("0123456789"), 700)
		src, err := hosts[0].PD.Register(mem, 0x1000, 0)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 8000)
		dst, err := hosts[1].PD.Register(got, 0x2000, qp.LocalWrite)
		if err != nil {
			t.Fatal(err)
		}
		if err := PostRecv(qps[1].Recv, 7, memory.SGE{Addr: 0x2000, Length: 8000, LKey: dst.Key}); err != nil {
			t.Fatal(err)
		}
		if err := PostSend(qps[0], Send{
			ID: 9, Op: queue.SendImm, Flags: queue.Signaled, ImmInv: 0xabc,
			SGEs: []memory.SGE{{Addr: 0x1000, Length: 7000, LKey: src.Key}},
		}); err != nil {
			t.Fatal(err)
		}
		r, err := hosts[1].Wait(cqs[1], 1)
		if err != nil {
			t.Fatal(err)
		}
		if r[0].WRID != 7 || r[0].Status != queue.Success || r[0].ByteLen != 7000 || r[0].ImmInv != 0xabc || !bytes.Equal(got[:7000], mem) {
			t.Fatalf("%v: received %+v", kind, r[0])
		}
		if s, err := hosts[0].Wait(cqs[0], 1); err != nil || s[0].WRID != 9 || s[0].Status != queue.Success {
			t.Fatalf("%v: sent %+v, %v", kind, s, err)
		}
	}
}
