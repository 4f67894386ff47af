package adapter_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"softrdma/internal/adapter"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/wire/ib"
)

// Flags in the first byte of a fuzzed datagram.
const (
	fuzzSealed = 1 << 0 // give it a good ICRC
	fuzzPeer   = 1 << 1 // from the peer's address, not another one
	fuzzQP     = 1 << 2 // to the queue pair that the next two bits choose
	fuzzPSN    = 1 << 5 // with a PSN close to the expected one
	fuzzKey    = 1 << 6 // with the region's key and address in the place of the RETH
	fuzzAll    = 1 << 7 // to all of a multicast group
)

// A target is a device with queue pairs of every type, and their peers.
type target struct {
	a, b *side
	qps  [3][2]*adapter.QP // RC, UC, UD: peer's, target's
}

func newTarget(t testing.TB) *target {
	a, b := pair(t, qp.RC, simnet.LinkConfig{}, adapter.Config{})
	x := &target{a: a, b: b}
	for i, k := range []qp.Type{qp.RC, qp.UC, qp.UD} {
		x.qps[i] = [2]*adapter.QP{a.newQP(t, k, nil), b.newQP(t, k, nil)}
	}
	x.connect(t)
	must(t, x.qps[2][1].AttachMulticast(netip.MustParseAddr("239.0.0.1")))
	return x
}

func (x *target) connect(t testing.TB) {
	for i := range 2 {
		must(t, rig.Connect(x.qps[i][0], x.qps[i][1], rig.Options{}))
	}
	for _, q := range x.qps[2] {
		must(t, rig.ReadyUD(q, 0x11, 0))
	}
}

// throw delivers one datagram made of fuzzed bytes.
func (x *target) throw(b []byte) {
	if len(b) == 0 {
		return
	}
	flags, b := b[0], b[1:]
	src, dst := netip.MustParseAddrPort("10.9.9.9:49152"), x.b.Link.Local()
	if flags&fuzzPeer != 0 {
		src = netip.AddrPortFrom(x.a.Link.Local().Addr(), 0xc001)
	}
	b = append([]byte(nil), b...)
	if len(b) >= ib.BTHLen {
		q := x.qps[min(flags>>3&3, 2)][1]
		if flags&fuzzQP != 0 {
			b[0] = b[0]&0x1f | []byte{0x00, 0x20, 0x60}[min(flags>>3&3, 2)]
			b[1] &= 0x30 // version
			b[2], b[3] = 0xff, 0xff
			binary.BigEndian.PutUint32(b[4:], q.QPN)
		}
		if flags&fuzzAll != 0 {
			binary.BigEndian.PutUint32(b[4:], allQPs)
		}
		if flags&fuzzPSN != 0 {
			b[8], b[9], b[10], b[11] = 0, 0, 0, b[11]&7
		}
		if flags&fuzzKey != 0 && len(b) >= ib.BTHLen+ib.RETHLen {
			binary.BigEndian.PutUint64(b[ib.BTHLen:], x.b.mr.Base+uint64(b[ib.BTHLen+7]))
			binary.BigEndian.PutUint32(b[ib.BTHLen+8:], x.b.mr.Key)
		}
	}
	if flags&fuzzSealed != 0 && len(b) >= ib.BTHLen {
		b = append(b, 0, 0, 0, 0)
		seal(src, dst, b)
	}
	x.b.Net.Inject(src, dst, flags, 64, b)
	x.b.Dev.Progress()
	x.a.Dev.Progress()
}

// FuzzReceive delivers arbitrary datagrams to live queue pairs. Nothing may panic or wait forever.
// Connections keep working after datagrams of unknown peers; after those of the own peer they work
// once they are made again.
func FuzzReceive(f *testing.F) {
	add := func(flags byte, p ib.Packet) {
		f.Add(flags, p.Append(nil))
	}
	for _, flags := range []byte{fuzzSealed, fuzzSealed | fuzzQP, fuzzSealed | fuzzQP | fuzzPeer, 0xff, 0} {
		for _, k := range []byte{0, 1 << 3, 2 << 3} {
			for _, o := range []ib.Opcode{ib.RCSendFirst, ib.RCSendMiddle, ib.RCSendOnly, ib.RCWriteFirst, ib.RCWriteOnlyImm,
				ib.RCReadRequest, ib.RCReadResponseFirst, ib.RCAcknowledge, ib.RCAtomicAcknowledge, ib.RCCompareSwap,
				ib.RCSendOnlyInvalidate, ib.UDSendOnly, ib.CongestionNotify} {
				add(flags|k|fuzzPSN, ib.Packet{BTH: ib.BTH{Opcode: o, AckReq: true}, RETH: ib.RETH{Length: 16}, Payload: make([]byte, 16)})
			}
		}
	}
	f.Fuzz(func(t *testing.T, flags byte, data []byte) {
		x := newTarget(t)
		for i := range x.qps {
			q := x.qps[i][1]
			must(t, rig.PostRecv(q.Recv, 9, x.b.sge(0, 1024)))
			must(t, rig.PostRecv(q.Recv, 9, x.b.sge(1024, 1024)))
		}
		before := counters(x.b.Dev)
		x.throw(append([]byte{flags}, data...))
		// The same packet again as a duplicate, then split in two.
		x.throw(append([]byte{flags}, data...))
		x.throw(append([]byte{flags}, data[:len(data)/2]...))
		x.throw(append([]byte{flags ^ fuzzQP}, data[len(data)/2:]...))
		stranger := flags&fuzzPeer == 0
		after := counters(x.b.Dev)
		if stranger && x.b.cq.Ring().Len() == 0 && sum(after[:]) == sum(before[:]) && !quiet(data) {
			t.Errorf("four datagrams without a trace")
		}
		for i, k := range []qp.Type{qp.RC, qp.UC} {
			if s := x.qps[i][1].Query().State; stranger && s != qp.RTS {
				t.Errorf("a stranger's datagrams took the %v queue pair to %v", k, s)
			}
		}
		x.again(t, !stranger)
	})
}

// quiet reports whether the packet is a congestion notification, which is dropped without a
// counter.
func quiet(b []byte) bool { return len(b) > 0 && b[0] == byte(ib.CongestionNotify) }

// again checks that the queue pairs work, after a reset if reset is true.
func (x *target) again(t testing.TB, reset bool) {
	if reset {
		for i := range x.qps {
			for _, q := range x.qps[i] {
				must(t, q.Modify(qp.MaskState, &qp.Attr{State: qp.Reset}))
			}
		}
		x.connect(t)
	}
	x.b.Net.Sleep(waitTime)
	for i := range 2 {
		a, b := *x.a, *x.b
		a.qp, b.qp = x.qps[i][0], x.qps[i][1]
		drainCQ(&a)
		drainCQ(&b)
		for b.qp.Recv.Len() > 0 && !reset { // uses up receives posted earlier
			b.qp.Recv.Release(b.qp.Recv.Next(b.qp.Recv.Consumer()))
		}
		exchange(t, &a, &b, 3000)
	}
	for _, e := range x.b.Events() {
		if e.Type == machine.EventDeviceFatal || e.Type == machine.EventCQErr {
			t.Errorf("event %+v", e)
		}
	}
}

func drainCQ(s *side) {
	r := s.cq.Ring()
	r.Release(r.Producer())
}
