package simnet_test

import (
	"bytes"
	"net/netip"
	"testing"

	"softrdma/internal/adapter"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

// WRITEs of any size go through memory, and no packet uses the network.
func TestWritesThroughMemoryOfManySizes(t *testing.T) {
	n := simnet.New(1)
	var hosts [2]*rig.Host
	var qps [2]*adapter.QP
	var cqs [2]*adapter.CQ
	var bufs [2][]byte
	var mrs [2]*memory.Region
	for i := range hosts {
		h, err := rig.Open(n, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 4791), simnet.LinkConfig{}, adapter.Config{})
		if err != nil {
			t.Fatal(err)
		}
		hosts[i] = h
		if cqs[i], err = h.Dev.CreateCQ(100, nil); err != nil {
			t.Fatal(err)
		}
		qps[i], err = h.PD.CreateQP(&adapter.QPConfig{Type: qp.RC, SendCQ: cqs[i], RecvCQ: cqs[i], SendDepth: 64, SendSGE: 4, RecvDepth: 64, RecvSGE: 4})
		if err != nil {
			t.Fatal(err)
		}
		bufs[i] = make([]byte, 4<<20)
		if mrs[i], err = h.PD.RegisterSegment(bufs[i], 0, rig.AllAccess|qp.LocalWrite, rig.Segment(bufs[i])); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rig.Join(hosts[0], hosts[1], rig.BondConfig{Offer: true}); err != nil {
		t.Fatal(err)
	}
	if err := rig.Connect(qps[0], qps[1], rig.Options{MTU: 4096}); err != nil {
		t.Fatal(err)
	}
	for i := range bufs[0] {
		bufs[0][i] = byte(i*7 + i>>8)
	}
	for _, size := range []int{0, 8, 100, 4096, 5000, 1 << 20, 3<<20 + 5} {
		clear(bufs[1])
		err := rig.PostSend(qps[0], rig.Send{ID: 1, Op: queue.Write, Flags: queue.Signaled, SGEs: []memory.SGE{{Addr: 0, Length: uint32(size), LKey: mrs[0].Key}}, Addr: 3, RKey: mrs[1].Key})
		if err != nil {
			t.Fatal(err)
		}
		got, err := hosts[0].Wait(cqs[0], 1)
		if err != nil || got[0].Status != queue.Success {
			t.Fatal(size, err, got)
		}
		if !bytes.Equal(bufs[1][3:3+size], bufs[0][:size]) {
			t.Errorf("%d bytes differ", size)
		}
	}
	if sent, _ := hosts[0].Link.Stats(); sent.Packets != 0 {
		t.Errorf("%d packets took the network", sent.Packets)
	}
}
