package adapter

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"softrdma/faults"
	"softrdma/internal/adapter/partition"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

const (
	midMTU      = 1024
	midBase     = 0x10000
	midLen      = 64 * midMTU
	readPackets = 40
)

// A counted is an end that counts the packets that took the fast path.
type counted struct {
	*end
	machine.Continuer
	taken int // packets on the fast path
	mem   []byte
	mr    *memory.Region
	other *QP // second queue pair of the same peer

	flight int64 // bytes in flight besides those of other, after the packets
}

func (k *counted) Continue(now time.Duration, in *machine.In) bool {
	ok := k.Continuer.Continue(now, in)
	if ok {
		k.taken++
	}
	return ok
}

func newCounted(t testing.TB) *counted {
	k := &counted{end: newEnd(t, "192.0.2.1:4791", Config{Manual: true}, qp.RC, 64), mem: make([]byte, midLen)}
	for k.other == nil || k.other.flow != k.qp.flow { // their answers leave as one batch
		k.other = k.create(qp.RC, k.cq)
	}
	var err error
	k.mr, err = k.pd.Register(k.mem, midBase, qp.LocalWrite|qp.RemoteWrite)
	k.check(err)
	for _, q := range []*QP{k.qp, k.other} {
		q.Attr.Access = qp.RemoteWrite
		q.begin(0)
	}
	k.Continuer = k.qp.can.Continuer
	k.qp.can.Continuer = k
	r := k.qp.Recv
	for id := range uint64(8) { // of several lengths
		i := r.Producer()
		*r.At(i) = queue.RecvWQE{WRID: id, NumSGE: 1}
		r.SGERoom(i)[0] = memory.SGE{Addr: midBase, Length: uint32(midLen >> (id % 3)), LKey: k.mr.Key}
		r.Publish(r.Next(i))
	}
	return k
}

// read posts a READ whose response takes readPackets packets.
func (k *counted) read() {
	i := k.qp.SQ.Producer()
	w := k.qp.SQ.At(i)
	*w = queue.SendWQE{Op: queue.Read, Flags: queue.Signaled, Length: readPackets * midMTU, NumSGE: 1}
	*w.RDMA() = queue.RDMA{Addr: 1, RKey: 2}
	k.qp.SQ.SGERoom(i)[0] = memory.SGE{Addr: midBase, Length: w.Length, LKey: k.mr.Key}
	k.qp.SQ.Publish(k.qp.SQ.Next(i))
	k.qp.Doorbell()
}

// A testPacket is a packet without the random keys and numbers of a device.
type testPacket struct {
	ib.Packet
	src     netip.AddrPort
	tos     uint8
	foreign bool // sent to the other queue pair
	nobody  bool // sent to an unknown queue pair
	spoilt  bool // corrupted in the network
	badKey  bool
	size    int // truncated to this size, with a valid ICRC
}

func (k *counted) wire(c *testPacket, id uint16) []byte {
	p := c.Packet
	p.PKey, p.DestQPN, p.Pad = partition.Default, k.qp.QPN, ib.PadLen(len(p.Payload))
	switch {
	case c.foreign:
		p.DestQPN = k.other.QPN
	case c.nobody:
		p.DestQPN = 7
	}
	if p.RETH.RKey = k.mr.Key; c.badKey {
		p.RETH.RKey = 0
	}
	b := append(p.Append(nil), 0, 0, 0, 0)
	if c.size > 0 {
		b = b[:min(c.size, len(b))]
	}
	if h := ib.NewPseudoHeader(c.src, k.link.local); len(b) >= ib.BTHLen+ib.ICRCLen {
		ib.PutICRC(b[len(b)-ib.ICRCLen:], h.Sum(id, b))
	}
	if c.spoilt {
		b[len(b)/2] ^= 0x10
	}
	return b
}

// take receives packets one by one, or in batches of up to most packets that the system could join.
func (k *counted) take(list []testPacket, most int) {
	l := k.qp.packets
	var rx link.Rx
	give := func() {
		if len(rx.Data) > 0 {
			l.receive(time.Second, &rx)
		}
	}
	n := 0
	for i := range list {
		c := &list[i]
		if n == most || c.src != rx.Src || c.tos != rx.TOS {
			give()
			n, rx = 0, link.Rx{Src: c.src, Dst: k.link.local, TOS: c.tos}
		}
		b := k.wire(c, uint16(n))
		if n > 0 && (len(b) > rx.Size || len(rx.Data)%rx.Size != 0) {
			give()
			n, rx.Data = 0, nil
			b = k.wire(c, 0)
		}
		if n == 0 {
			rx.Size = len(b)
		}
		rx.Data = append(rx.Data, b...)
		n++
	}
	give()
	if k.other != nil {
		k.flight = k.other.sharing.Others()
	}
	l.Transmit(time.Second)
}

// An outcome is the visible effect of received packets.
type outcome struct {
	Counters    map[string]uint64
	Completions []string
	Events      []machine.Event
	Answers     []string
	States      [2]qp.State
	InFlight    int64
}

func (k *counted) outcome() (o outcome) {
	o.Counters = make(map[string]uint64)
	for r := range reason.Count {
		if n := k.dev.Trace.Counter(r); n > 0 {
			o.Counters[fmt.Sprint(r)] = n
		}
	}
	for r := k.cq.Ring(); r.Len() > 0; r.Release(r.Next(r.Consumer())) {
		c := *r.At(r.Consumer())
		c.QPN = 0
		o.Completions = append(o.Completions, fmt.Sprintf("%+v", c))
	}
	for {
		e, ok := k.dev.events.Take()
		if !ok {
			break
		}
		o.Events = append(o.Events, e.Type)
	}
	for _, b := range k.link.sent {
		o.Answers = append(o.Answers, fmt.Sprintf("%x", b))
	}
	o.InFlight = k.flight
	for i, q := range []*QP{k.qp, k.other} {
		o.States[i] = q.Query().State
	}
	return o
}

// asPackets fails unless the packets have the same effect in batches as one by one. It returns how
// many took the fast path.
func asPackets(t testing.TB, what string, list []testPacket, most int) (o outcome, taken int) {
	t.Helper()
	one, many := newCounted(t), newCounted(t)
	if list[0].Opcode.Info().Kind == ib.KindReadResponse {
		one.read()
		many.read()
	}
	one.take(list, 1)
	many.take(list, most)
	o = one.outcome()
	if d := cmp.Diff(o, many.outcome()); d != "" {
		t.Fatalf("%s: one by one (-) and in batches (+) %s", what, d)
	}
	if !bytes.Equal(one.mem, many.mem) {
		t.Fatalf("%s: memory differs", what)
	}
	if one.taken != 0 {
		t.Fatalf("%s: %d single packets took the fast path", what, one.taken)
	}
	return o, many.taken
}

var midPeer = netip.MustParseAddrPort("192.0.2.9:4791")

// packetsOf returns the n packets of a message, the last of which requests an acknowledge.
func packetsOf(op ib.Opcode, first psn.PSN, n int) (list []testPacket) {
	for i := range n {
		c := testPacket{src: midPeer}
		c.Opcode, c.PSN, c.AckReq = op.Segment(i == 0, i == n-1), first.Add(i), i == n-1
		c.RETH = ib.RETH{Addr: midBase, Length: uint32(n * midMTU)}
		c.Imm, c.AETH.Syndrome = 5, ib.ACKNoCredits
		c.Payload = bytes.Repeat([]byte{byte(i + 1)}, midMTU)
		list = append(list, c)
	}
	return list
}

func TestBatchMatchesItsPackets(t *testing.T) {
	const n = 20
	for _, c := range []struct {
		name  string
		op    ib.Opcode
		spoil func(list []testPacket) []testPacket
		taken int // at least
		want  reason.Reason
	}{
		{"WRITE", ib.RCWriteOnly, nil, n - 3, reason.None},
		{"WRITE with immediate", ib.RCWriteOnlyImm, nil, n - 3, reason.None},
		{"SEND", ib.RCSendOnly, nil, n - 2, reason.None},
		{"SEND with immediate", ib.RCSendOnlyImm, nil, n - 2, reason.None},
		{"two SENDs", ib.RCSendOnly, func(l []testPacket) []testPacket { return append(l, packetsOf(ib.RCSendOnly, psn.New(1+n), 5)...) }, n + 1, reason.None},
		{"READ", ib.RCReadResponseOnly, func([]testPacket) []testPacket { return packetsOf(ib.RCReadResponseOnly, 1, readPackets) }, readPackets - 3, reason.None},
		{"READ that ends in the middle", ib.RCReadResponseOnly, func([]testPacket) []testPacket { return packetsOf(ib.RCReadResponseOnly, 1, readPackets)[:n] }, n - 2, reason.None},
		{"gap in a READ", ib.RCReadResponseOnly, func([]testPacket) []testPacket {
			return slices.Delete(packetsOf(ib.RCReadResponseOnly, 1, readPackets), 9, 10)
		}, 7, reason.ResponseGap},
		{"gap", ib.RCWriteOnly, func(l []testPacket) []testPacket { return slices.Delete(l, 9, 10) }, 7, reason.SequenceAhead},
		{"gap before the last", ib.RCWriteOnly, func(l []testPacket) []testPacket { return slices.Delete(l, 18, 19) }, 16, reason.SequenceAhead},
		{"duplicate", ib.RCWriteOnly, func(l []testPacket) []testPacket { return slices.Insert(l, 9, l[8]) }, n - 5, reason.SequenceDuplicate},
		{"all of it twice", ib.RCSendOnly, func(l []testPacket) []testPacket { return append(l, l...) }, n - 3, reason.SequenceDuplicate},
		{"wrong ICRC", ib.RCWriteOnly, func(l []testPacket) []testPacket { l[9].spoilt = true; return l }, 7, reason.PacketICRC},
		{"foreign queue pair", ib.RCWriteOnly, func(l []testPacket) []testPacket { l[9].foreign = true; return l }, 7, reason.SequenceAhead},
		{"no queue pair", ib.RCWriteOnly, func(l []testPacket) []testPacket { l[9].nobody = true; return l }, 7, reason.PacketQPN},
		{"foreign address", ib.RCSendOnly, func(l []testPacket) []testPacket { l[9].src = netip.MustParseAddrPort("192.0.2.8:4791"); return l }, 7, reason.PacketSource},
		{"key of nothing", ib.RCWriteOnly, func(l []testPacket) []testPacket { l[0].badKey = true; return l }, 0, reason.KeyUnknown},
		{"more than the RETH says", ib.RCWriteOnly, func(l []testPacket) []testPacket { l[0].RETH.Length = 9*midMTU + 5; return l }, 7, reason.LengthExceedsRETH},
		{"less than the RETH says", ib.RCWriteOnly, func(l []testPacket) []testPacket { l[0].RETH.Length += midMTU; return l }, n - 3, reason.LengthBelowRETH},
		{"more than the receive holds", ib.RCSendOnly, func([]testPacket) []testPacket { return packetsOf(ib.RCSendOnly, 1, 70) }, 62, reason.ReceiveTooSmall},
		{"short in the middle", ib.RCSendOnly, func(l []testPacket) []testPacket { l[9].Payload = l[9].Payload[:1000]; return l }, 7, reason.LengthShortSegment},
		{"other opcode in the middle", ib.RCSendOnly, func(l []testPacket) []testPacket { l[9].Opcode = ib.RCWriteMiddle; return l }, 7, reason.OpcodeSequence},
		{"acknowledge asked for in the middle", ib.RCWriteOnly, func(l []testPacket) []testPacket { l[9].AckReq = true; return l }, n - 4, reason.None},
		{"marked", ib.RCWriteOnly, func(l []testPacket) []testPacket {
			for i := range l {
				l[i].tos = 3
			}
			return l
		}, 0, reason.CongestionMarked},
	} {
		t.Run(c.name, func(t *testing.T) {
			list := packetsOf(c.op, 1, n)
			if c.spoil != nil {
				list = c.spoil(list)
			}
			o, taken := asPackets(t, c.name, list, link.MaxPackets)
			if taken < c.taken || c.taken == 0 && taken != 0 {
				t.Errorf("%d packets took the fast path, expected %d", taken, c.taken)
			}
			if c.want != reason.None && o.Counters[fmt.Sprint(c.want)] == 0 || c.want == reason.None && len(o.Counters) > 0 {
				t.Errorf("counters %v, expected %v", o.Counters, c.want)
			}
		})
	}
}

// Random packets, most of them valid, must have the same effect in batches as one by one.
func TestRandomBatchMatchesItsPackets(t *testing.T) {
	runs, taken := 1000, 0
	if testing.Short() {
		runs = 100
	}
	for seed := range runs {
		taken += randomBatch(t, uint64(seed))
	}
	if taken < 5*runs {
		t.Errorf("%d packets of %d runs took the fast path", taken, runs)
	}
}

// FuzzBatch is TestRandomBatchMatchesItsPackets with seeds that a fuzzer finds.
func FuzzBatch(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { randomBatch(t, seed) })
}

func randomBatch(t testing.TB, seed uint64) (taken int) {
	r := rand.New(rand.NewPCG(seed, 3))
	var list []testPacket
	next, announces := psn.New(1), r.IntN(2) == 0
	read := r.IntN(3) == 0
	if read {
		list = packetsOf(ib.RCReadResponseOnly, next, readPackets)
	}
	for range r.IntN(5) {
		op := []ib.Opcode{ib.RCWriteOnly, ib.RCWriteOnlyImm, ib.RCSendOnly, ib.RCSendOnlyImm}[r.IntN(4)]
		if len(list) == 0 || read && len(list) == readPackets {
			next = psn.New(1) // each direction has PSNs of its own
		}
		m := packetsOf(op, next, 1+r.IntN(40))
		next = next.Add(len(m))
		list = append(list, m...)
	}
	for i := range list {
		list[i].Selective = announces
	}
	if len(list) == 0 {
		return 0
	}
	for range r.IntN(3) {
		list = spoil(r, list)
	}
	_, taken = asPackets(t, fmt.Sprintf("seed %d", seed), list, 1+r.IntN(link.MaxPackets))
	return taken
}

// spoil modifies one packet.
func spoil(r *rand.Rand, list []testPacket) []testPacket {
	i := r.IntN(len(list))
	c := &list[i]
	switch r.IntN(15) {
	case 0:
		if len(list) > 1 {
			list = slices.Delete(list, i, i+1)
		}
	case 1:
		list = slices.Insert(list, r.IntN(len(list)+1), *c)
	case 2:
		j := r.IntN(len(list))
		list[i], list[j] = list[j], list[i]
	case 3:
		c.spoilt = true
	case 4:
		c.foreign = true
	case 5:
		c.nobody = true
	case 6:
		c.src = netip.AddrPortFrom(netip.MustParseAddr("192.0.2.8"), 4791)
	case 7:
		c.badKey = true
	case 8:
		c.RETH.Length = uint32(r.IntN(midLen))
	case 9:
		c.Payload = c.Payload[:r.IntN(midMTU+1)]
	case 10:
		if o := ib.Opcode(r.IntN(256)); o.Info() != nil {
			c.Opcode = o
		}
	case 11:
		c.AckReq, c.Solicited = r.IntN(2) == 0, r.IntN(2) == 0
	case 12:
		c.tos = uint8(r.IntN(4))
	case 14:
		c.size = 1 + r.IntN([]int{30, 1100}[r.IntN(2)])
	case 13:
		c.PSN = c.PSN.Add(r.IntN(9) - 4)
	}
	return list
}

// Rules for packets that arrive see those in the middle of a message.
func TestRulesForReceivedPacketsEndTheFastPath(t *testing.T) {
	k := newCounted(t)
	x, err := faults.New(faults.Rules{}, "rdma0")
	k.check(err)
	k.dev.inject(x)
	k.take(packetsOf(ib.RCWriteOnly, 1, 20), link.MaxPackets)
	before := k.taken
	k.check(x.Set(faults.Rules{Rules: []faults.Rule{{Action: faults.Mark, Select: faults.Selector{Direction: faults.Received, Nth: 20}}}}))
	k.take(packetsOf(ib.RCWriteOnly, 21, 20), link.MaxPackets)
	if n := x.Counts()[0]; before == 0 || k.taken != before || n != 1 {
		t.Errorf("%d packets took the fast path with rules and %d without, the twentieth was hit %d times", k.taken-before, before, n)
	}
}
