package adapter_test

import (
	"errors"
	"net/netip"
	"testing"

	"softrdma/internal/adapter"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/wire/ib"
)

const allQPs = 0xffffff

// group gives a an address handle of a multicast group.
func group(t *testing.T, a *side, addr netip.Addr) uint32 {
	t.Helper()
	ah, err := a.PD.CreateAH(qp.Path{Dst: netip.AddrPortFrom(addr, 4791)})
	must(t, err)
	return ah
}

func toGroup(ah uint32, data string) rig.Send {
	return rig.Send{Op: queue.Send, Inline: []byte(data), UD: queue.UD{RemoteQPN: allQPs, RemoteQKey: 0x11, AHNum: ah}}
}

// IBTA 10.5.2: every queue pair attached to the group gets its own copy.
func TestMulticastReachesEveryAttachedQP(t *testing.T) {
	addr := netip.MustParseAddr("239.1.2.3")
	a, b := datagrams(t)
	second := b.newQP(t, qp.UD, nil)
	third := b.newQP(t, qp.UD, nil)
	for _, q := range []*adapter.QP{second, third} {
		must(t, rig.ReadyUD(q, 0x11, 0))
	}
	for _, q := range []*adapter.QP{b.qp, second, b.qp} { // attaching twice has no further effect
		must(t, q.AttachMulticast(addr))
	}
	for i, q := range []*adapter.QP{b.qp, second, third} {
		must(t, rig.PostRecv(q.Recv, uint64(i), b.sge(256*i, 256)))
		must(t, rig.PostRecv(q.Recv, uint64(i), b.sge(256*i, 256)))
	}
	ah := group(t, a, addr)
	must(t, rig.PostSend(a.qp, toGroup(ah, "to all")))
	got, err := b.Wait(b.cq, 2)
	must(t, err)
	for i, c := range got {
		if got[0].WRID == 1 { // queue pairs of two lanes are in no order
			i = 1 - i
		}
		if c.WRID != uint64(i) || c.Status != queue.Success || c.ByteLen != ib.GRHLen+6 || c.SrcQPN != a.qp.QPN ||
			string(b.mem[256*i+ib.GRHLen:][:6]) != "to all" {
			t.Errorf("copy %d: %+v", i, c)
		}
	}
	a.Net.Sleep(waitTime)
	nothing(t, b)
	must(t, b.qp.DetachMulticast(addr))
	if b.qp.DetachMulticast(addr) == nil {
		t.Error("detached twice")
	}
	must(t, rig.PostSend(a.qp, toGroup(ah, "fewer")))
	expect(t, b, 1, queue.Success)
	a.Net.Sleep(waitTime)
	nothing(t, b)
	must(t, second.Destroy()) // leaves the group
	must(t, rig.PostSend(a.qp, toGroup(ah, "nobody")))
	a.Net.Sleep(waitTime)
	nothing(t, b)
	must(t, third.Destroy())
	must(t, a.PD.DestroyAH(ah))
	tearDown(t, a, b)
}

func TestMulticastWithWrongQKeyIsRefusedPerQP(t *testing.T) {
	addr := netip.MustParseAddr("239.1.2.3")
	a, b := datagrams(t)
	other := b.newQP(t, qp.UD, nil)
	must(t, rig.ReadyUD(other, 0x22, 0))
	for _, q := range []*adapter.QP{other, b.qp} {
		must(t, q.AttachMulticast(addr))
		must(t, rig.PostRecv(q.Recv, 5, b.sge(0, 256)))
	}
	ah := group(t, a, addr)
	must(t, rig.PostSend(a.qp, toGroup(ah, "hello")))
	expect(t, b, 5, queue.Success)
	if n := b.Dev.Trace.Counter(reason.PacketQKey); n != 1 {
		t.Errorf("wrong Q_Key counted %d times", n)
	}
	nothing(t, b)
	must(t, other.Destroy())
	must(t, a.PD.DestroyAH(ah))
	tearDown(t, a, b)
}

func TestAttachMulticastRefusals(t *testing.T) {
	a, b := connected(t, qp.RC)
	if err := a.qp.AttachMulticast(netip.MustParseAddr("239.1.2.3")); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a connection: %v", err)
	}
	u := a.newQP(t, qp.UD, nil)
	if err := u.AttachMulticast(netip.MustParseAddr("10.0.0.1")); err == nil {
		t.Error("a unicast address was taken")
	}
	if err := u.AttachMulticast(netip.MustParseAddr("ff02::1")); !errors.Is(err, simnet.ErrGroup) {
		t.Errorf("what the link refuses: %v", err)
	}
	must(t, u.Destroy())
	tearDown(t, a, b)
}
