package adapter_test

import (
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/frame"
	"softrdma/internal/frame/rocev2"
	"softrdma/internal/link"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet/rig"
)

// A cable is a link to one peer in the same goroutine. It only hands batches over, so that the
// benchmark measures the adapter.
type cable struct {
	local netip.AddrPort
	peer  *cable
	full  bool // data holds a batch
	data  [link.MaxBatch]byte
	rx    link.Rx
}

func (c *cable) Local() netip.AddrPort { return c.local }
func (c *cable) OpenFlow(dst netip.AddrPort, _ uint32) (*link.DatagramFlow, error) {
	return &link.DatagramFlow{Src: c.local, Dst: dst}, nil
}
func (c *cable) Reply(dst netip.AddrPort) (*link.DatagramFlow, error) { return c.OpenFlow(dst, 0) }
func (c *cable) CloseFlow(*link.Flow)                                 {}
func (c *cable) Send(tx *link.Tx) error {
	n := 0
	for _, p := range tx.Pieces {
		n += copy(c.peer.data[n:], p)
	}
	c.peer.rx = link.Rx{Data: c.peer.data[:n], Size: tx.Size, Src: c.local, Dst: c.peer.local, TOS: tx.TOS, HopLimit: tx.HopLimit}
	c.peer.full = true
	return nil
}
func (c *cable) Receive(rx *link.Rx) (bool, error) {
	if !c.full {
		return false, nil
	}
	*rx, c.full = c.rx, false
	return true, nil
}
func (c *cable) Wait(time.Duration) error { return nil }
func (c *cable) Wake()                    {}
func (c *cable) Join(netip.Addr) error    { return nil }
func (c *cable) Leave(netip.Addr) error   { return nil }
func (c *cable) Capabilities() link.Capabilities {
	return link.Capabilities{Packets: link.MaxPackets, Bytes: link.MaxBatch, ReceiveBuffer: 4 << 20}
}
func (c *cable) Close() error { return nil }

// A cabled is one end of a connection over a cable.
type cabled struct {
	dev *adapter.Device
	cq  *adapter.CQ
	qp  *adapter.QP
	mem []byte
	mr  *memory.Region
}

func newCabled(b testing.TB, c *cable, depth int) *cabled {
	e := &cabled{dev: adapter.Open(adapter.Config{Networks: []frame.Network{rocev2.New(c)}, Manual: true}), mem: make([]byte, 4096)}
	pd, err := e.dev.AllocPD()
	must(b, err)
	e.cq, err = e.dev.CreateCQ(64, nil)
	must(b, err)
	e.qp, err = pd.CreateQP(&adapter.QPConfig{Type: qp.RC, SendCQ: e.cq, RecvCQ: e.cq, SendDepth: depth, SendSGE: 1, RecvDepth: 1, RecvSGE: 1, Inline: 64})
	must(b, err)
	e.mr, err = pd.Register(e.mem, 0x10000, qp.LocalWrite|qp.RemoteWrite|qp.RemoteRead|qp.RemoteAtomic)
	must(b, err)
	return e
}

// BenchmarkWrite8HalfRoundTrip measures the adapter's time for an acknowledged WRITE of 8 bytes,
// from posting to execution.
func BenchmarkWrite8HalfRoundTrip(b *testing.B) {
	x, y := &cable{local: netip.MustParseAddrPort("10.0.0.1:4791")}, &cable{local: netip.MustParseAddrPort("10.0.0.2:4791")}
	x.peer, y.peer = y, x
	ends := [2]*cabled{newCabled(b, x, 15), newCabled(b, y, 15)}
	must(b, rig.Connect(ends[0].qp, ends[1].qp, rig.Options{}))
	s := rig.Send{ID: 1, Op: queue.Write, Inline: make([]byte, 8), Addr: 0x10000}
	list := []rig.Send{s}
	var got [8]queue.CQE
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		from, to := ends[i&1], ends[i&1^1]
		list[0].RKey, list[0].Flags = to.mr.Key, 0
		if i%16 < 2 {
			list[0].Flags = queue.Signaled
		}
		list[0].Inline[0] = byte(i | 1)
		to.mem[0] = 0
		if err := rig.PostSend(from.qp, list...); err != nil {
			b.Fatal(err)
		}
		to.cq.Progress(true)
		if to.mem[0] != byte(i|1) {
			b.Fatal("the WRITE has not arrived")
		}
		rig.Poll(to.cq, got[:])
		i++
	}
}
