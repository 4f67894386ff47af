package simnet_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/congestion"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
)

// The memory of both ends of a performance, by offset. Memory that the peer READs is never
// written, so the order of the requests determines every byte.
const (
	partsOf     = 256 << 10 // bytes of a part
	targetPart  = 0         // WRITEs go there
	readPart    = 1         // READs read and gather from there
	resultPart  = 2         // results of READs and atomics
	receivePart = 3         // SENDs arrive there
	wordsPart   = 4         // words that atomics change
	allParts    = 5

	performBase = 0x10000
	performRecv = 32 // receives posted at the same time
	longest     = 12 << 10
)

// A performance is a run of one program on one network.
type performance struct {
	net     *simnet.Network
	hosts   [2]*rig.Host
	cqs     [2]*adapter.CQ
	qps     [2]*adapter.QP
	mem     [2][]byte
	mrs     [2]*memory.Region
	sent    []string // completions of the requester, without what congestion control may change
	arrived []string // and of the responder
	posted  int
	draw    uint64 // seed of the program
}

func newPerformance(t *testing.T, m manner, f simnet.Faults) *performance {
	p := &performance{net: simnet.New(99)}
	for i := range p.hosts {
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 2, byte(i + 1)}), 4791)
		var err error
		if p.hosts[i], err = rig.Open(p.net, a, simnet.LinkConfig{Egress: f, Ingress: simnet.Faults{Delay: f.Delay}}, adapter.Config{}); err != nil {
			t.Fatal(err)
		}
		if p.cqs[i], err = p.hosts[i].Dev.CreateCQ(1024, nil); err != nil {
			t.Fatal(err)
		}
		if p.qps[i], err = p.hosts[i].PD.CreateQP(&adapter.QPConfig{
			Type: qp.RC, SendCQ: p.cqs[i], RecvCQ: p.cqs[i], SendDepth: 24, SendSGE: 2, RecvDepth: performRecv, RecvSGE: 1,
			Control: m.control, Recovery: []congestion.Recovery{m.recovery, m.peer}[i],
		}); err != nil {
			t.Fatal(err)
		}
		p.mem[i] = make([]byte, allParts*partsOf)
		for k := range p.mem[i] {
			p.mem[i][k] = byte(k*(7+4*i) + k>>9)
		}
		clear(p.mem[i][wordsPart*partsOf:])
		if p.mrs[i], err = p.hosts[i].PD.RegisterSegment(p.mem[i], performBase, rig.AllAccess|qp.LocalWrite, rig.Segment(p.mem[i])); err != nil {
			t.Fatal(err)
		}
	}
	o := rig.Options{MTU: 1024, Timeout: 8, Reads: 4}
	if err := rig.Connect(p.qps[0], p.qps[1], o); err != nil {
		t.Fatal(err)
	}
	for i := range performRecv {
		p.receive(t, i)
	}
	return p
}

// receive posts the n-th receive.
func (p *performance) receive(t *testing.T, n int) {
	sge := memory.SGE{Addr: performBase + receivePart*partsOf + uint64(n%performRecv)*1024, Length: longest, LKey: p.mrs[1].Key}
	if err := rig.PostRecv(p.qps[1].Recv, uint64(n), sge); err != nil {
		t.Fatal(err)
	}
}

// program draws requests. This side refuses the last but one, and the last is flushed. A
// refusal by the peer could be lost forever, because the peer is silent afterwards.
func (p *performance) program(n int) []rig.Send {
	r := rand.New(rand.NewPCG(7, 7+p.draw))
	at := func(part, size int) uint64 { return performBase + uint64(part*partsOf+r.IntN(partsOf-size)) }
	var all []rig.Send
	for i := range n + 2 {
		op := []queue.Op{queue.Write, queue.Write, queue.WriteImm, queue.Send, queue.SendImm, queue.Read, queue.Read, queue.FetchAdd}[r.IntN(8)]
		size := 1 + r.IntN(longest)
		if r.IntN(3) == 0 {
			size = 1 + r.IntN(64)
		}
		s := rig.Send{ID: uint64(i), Op: op, Flags: queue.Signaled, RKey: p.mrs[1].Key, ImmInv: uint32(i)}
		local, remote := readPart, targetPart
		switch op {
		case queue.Read:
			local, remote = resultPart, readPart
		case queue.FetchAdd:
			local, size, s.CompareAdd = resultPart, 8, uint64(i)
		}
		s.SGEs = []memory.SGE{{Addr: at(local, size), Length: uint32(size), LKey: p.mrs[0].Key}}
		if s.Addr = at(remote, size); op == queue.FetchAdd {
			s.Addr = performBase + wordsPart*partsOf + uint64(8*r.IntN(4))
		}
		if i == n {
			s.Op, s.SGEs[0].LKey = queue.Write, s.SGEs[0].LKey+1
		}
		all = append(all, s)
	}
	return all
}

// run runs a program to its end.
func (p *performance) run(t *testing.T, program []rig.Send) {
	var batch [64]queue.CQE
	received := 0
	err := p.net.Run(func() bool {
		for _, e := range batch[:rig.Poll(p.cqs[0], batch[:])] {
			p.sent = append(p.sent, fmt.Sprintf("request %d: status %d, operation %d, %d bytes", e.WRID, e.Status, e.Op, e.ByteLen))
		}
		for _, e := range batch[:rig.Poll(p.cqs[1], batch[:])] {
			if e.Status == queue.Success {
				p.arrived = append(p.arrived, fmt.Sprintf("receive %d: operation %d, %d bytes, %#x", e.WRID, e.Op, e.ByteLen, e.ImmInv))
				p.receive(t, performRecv+received)
				received++
			}
		}
		for ; p.posted < len(program) && p.posted-len(p.sent) < 24; p.posted++ {
			if err := rig.PostSend(p.qps[0], program[p.posted]); err != nil {
				t.Fatal(err)
			}
		}
		return len(p.sent) == len(program)
	}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
}

// bytes returns a hash of both ends' memory.
func (p *performance) bytes() (sums [2][sha256.Size]byte) {
	for i := range sums {
		sums[i] = sha256.Sum256(p.mem[i])
	}
	return sums
}

// compare fails unless completions and memory are equal to those of another performance.
func (p *performance) compare(t *testing.T, what string, other *performance, want [2][sha256.Size]byte) {
	t.Helper()
	for i, list := range [2][2][]string{{p.sent, other.sent}, {p.arrived, other.arrived}} {
		for k, s := range list[1] {
			if k >= len(list[0]) || list[0][k] != s {
				t.Fatalf("%s: end %d has %q, expected %q", what, i, list[0][min(k, len(list[0])):min(k+1, len(list[0]))], s)
			}
		}
	}
	for i, sum := range p.bytes() {
		if sum != want[i] {
			t.Errorf("%s: other bytes at end %d", what, i)
		}
	}
}

// TestLossChangesNoStatusAndNoByte checks that a program sees the same completions in the same
// order, and leaves the same memory, with any loss, delay, duplication, congestion control and
// loss recovery.
func TestLossChangesNoStatusAndNoByte(t *testing.T) {
	const requests = 150
	clean := newPerformance(t, manner{}, simnet.Faults{Delay: 10 * time.Microsecond})
	clean.run(t, clean.program(requests))
	if last := clean.sent[requests:]; last[0] != fmt.Sprintf("request %d: status %d, operation %d, 0 bytes", requests, queue.LocProtErr, queue.WCWrite) || len(clean.arrived) < requests/8 {
		t.Fatalf("ends with %q after %d messages", last, len(clean.arrived))
	}
	want := clean.bytes()
	for control := congestion.Window; control <= congestion.None; control++ {
		for _, r := range [][2]congestion.Recovery{{congestion.SelectiveRepeat, congestion.SelectiveRepeat}, {congestion.GoBackN, congestion.GoBackN}, {congestion.SelectiveRepeat, congestion.GoBackN}} {
			for _, loss := range []float64{0, 0.001, 0.01, 0.05} {
				p := newPerformance(t, manner{control, r[0], r[1]}, simnet.Faults{
					Delay: 10 * time.Microsecond, Loss: loss, Duplicate: loss, Reorder: loss, ReorderBy: 15 * time.Microsecond,
				})
				p.run(t, p.program(requests))
				what := fmt.Sprintf("%v, %v with a peer of %v, loss %v", control, r[0], r[1], loss)
				p.compare(t, what, clean, want)
			}
		}
	}
}
