package adapter_test

import (
	"flag"
	"net/netip"
	"testing"

	"softrdma/internal/adapter"
	"softrdma/internal/adapter/partition"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/wire/ib"
)

// A side is a device with a completion queue, a queue pair and a region.
type side struct {
	*rig.Host
	cq  *adapter.CQ
	qp  *adapter.QP
	mem []byte
	mr  *memory.Region
}

const regionLen = 64 << 10

// pair makes two devices with one queue pair each, in state RESET.
func pair(t testing.TB, kind qp.Type, lc simnet.LinkConfig, cfg adapter.Config) (a, b *side) {
	t.Helper()
	n := simnet.New(1)
	return newSide(t, n, "10.0.0.1:4791", kind, lc, cfg), newSide(t, n, "10.0.0.2:4791", kind, lc, cfg)
}

// lanes sets the number of lanes of the devices in every test.
var lanes = flag.Int("lanes", 1, "how many lanes devices have")

func newSide(t testing.TB, n *simnet.Network, addr string, kind qp.Type, lc simnet.LinkConfig, cfg adapter.Config) *side {
	t.Helper()
	h, err := rig.OpenLanes(n, netip.MustParseAddrPort(addr), lc, cfg, *lanes)
	must(t, err)
	s := &side{Host: h, mem: make([]byte, regionLen)}
	s.cq, err = h.Dev.CreateCQ(64, nil)
	must(t, err)
	s.qp = s.newQP(t, kind, nil)
	s.mr, err = h.PD.Register(s.mem, 0x10000, qp.LocalWrite|qp.RemoteWrite|qp.RemoteRead|qp.RemoteAtomic|qp.MWBind)
	must(t, err)
	return s
}

func (s *side) newQP(t testing.TB, kind qp.Type, srq *adapter.SRQ) *adapter.QP {
	t.Helper()
	q, err := s.PD.CreateQP(&adapter.QPConfig{
		Type: kind, SendCQ: s.cq, RecvCQ: s.cq, SRQ: srq, SendDepth: 15, SendSGE: 2, RecvDepth: 15, RecvSGE: 2, Inline: 64,
	})
	must(t, err)
	return q
}

// connected returns a pair in RTS.
func connected(t testing.TB, kind qp.Type) (a, b *side) {
	t.Helper()
	a, b = pair(t, kind, simnet.LinkConfig{}, adapter.Config{})
	must(t, rig.Connect(a.qp, b.qp, rig.Options{}))
	return a, b
}

// datagrams returns a pair in RTS for datagrams with Q_Key 0x11.
func datagrams(t testing.TB) (a, b *side) {
	t.Helper()
	a, b = pair(t, qp.UD, simnet.LinkConfig{}, adapter.Config{})
	must(t, rig.ReadyUD(a.qp, 0x11, 0))
	must(t, rig.ReadyUD(b.qp, 0x11, 0))
	return a, b
}

// sge is n bytes of the region from off.
func (s *side) sge(off, n int) memory.SGE {
	return memory.SGE{Addr: s.mr.Base + uint64(off), Length: uint32(n), LKey: s.mr.Key}
}

func (s *side) recv(t testing.TB, id uint64, off, n int) {
	t.Helper()
	must(t, rig.PostRecv(s.qp.Recv, id, s.sge(off, n)))
}

// exchange sends n bytes from a to b and fails unless they arrive: proof that a
// connection works.
func exchange(t testing.TB, a, b *side, n int) {
	t.Helper()
	for i := range a.mem[:n] {
		a.mem[i] = byte(i*7 + n)
	}
	b.recv(t, 77, regionLen/2, n)
	must(t, rig.PostSend(a.qp, rig.Send{ID: 78, Op: queue.Send, Flags: queue.Signaled, SGEs: []memory.SGE{a.sge(0, n)}}))
	expect(t, b, 77, queue.Success)
	expect(t, a, 78, queue.Success)
	if string(a.mem[:n]) != string(b.mem[regionLen/2:][:n]) {
		t.Fatal("wrong bytes arrived")
	}
}

// expect waits for the next completion of s.
func expect(t testing.TB, s *side, id uint64, status queue.Status) queue.CQE {
	t.Helper()
	got, err := s.Wait(s.cq, 1)
	must(t, err)
	if got[0].WRID != id || got[0].Status != status {
		t.Fatalf("completion %+v, expected request %d with status %d", got[0], id, status)
	}
	return got[0]
}

// nothing fails if s has completions or events.
func nothing(t testing.TB, s *side) {
	t.Helper()
	var got [1]queue.CQE
	if rig.Poll(s.cq, got[:]) != 0 {
		t.Errorf("completion %+v, expected none", got[0])
	}
	if ev := s.Events(); len(ev) != 0 {
		t.Errorf("events %v, expected none", ev)
	}
}

// tearDown destroys everything and fails if a device still counts an object.
func tearDown(t testing.TB, sides ...*side) {
	t.Helper()
	for _, s := range sides {
		must(t, s.qp.Destroy())
		must(t, s.cq.Destroy())
		must(t, s.PD.Deregister(s.mr))
		must(t, s.Link.Wrong)
		must(t, s.Close())
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sealed makes a packet from src to dst with a good ICRC.
func sealed(src, dst netip.AddrPort, p *ib.Packet) []byte {
	p.Pad = ib.PadLen(len(p.Payload))
	b := append(p.Append(nil), 0, 0, 0, 0)
	seal(src, dst, b)
	return b
}

// seal gives a packet a good ICRC.
func seal(src, dst netip.AddrPort, b []byte) {
	h := ib.NewPseudoHeader(src, dst)
	ib.PutICRC(b[len(b)-ib.ICRCLen:], h.Sum(0, b))
}

// counters are a device's refusals by reason.
func counters(d *adapter.Device) (c [reason.Count]uint64) {
	for r := range c {
		c[r] = d.Trace.Counter(reason.Reason(r))
	}
	return c
}

// send is a SEND Only packet to q.
func send(q *adapter.QP, p psn.PSN) *ib.Packet {
	return &ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, PKey: partition.Default, DestQPN: q.QPN, PSN: p}, Payload: []byte("hostile!")}
}
