package rc

import (
	"bytes"
	"fmt"
	"github.com/google/go-cmp/cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A mirror is two queue pairs that receive the same packets. One of them may use the fast path.
type mirror struct {
	t     *testing.T
	n     [2]*node
	taken int
}

func newMirror(t *testing.T, selective bool, access qp.Access) *mirror {
	m := &mirror{t: t}
	for i := range m.n {
		m.n[i] = newNode(t, 0, func(_ int, p *machine.Port) { p.Attr.Access = access })
		var c Config
		if selective {
			c.Store = NewStore(DefaultStore)
		}
		m.n[i].q = New(&m.n[i].port, c)
		for _, s := range []qp.State{qp.Init, qp.RTR, qp.RTS} {
			m.n[i].to(0, s)
		}
	}
	return m
}

// give delivers a packet to both.
func (m *mirror) give(now time.Duration, in machine.In) {
	for i, n := range m.n {
		in := in
		in.RETH.RKey = n.mr.Key
		if i == 1 && n.q.Continue(now, &in) {
			m.taken++
			continue
		}
		n.q.Receive(now, &in)
	}
}

// same fails unless both are in the same state and send the same answers.
func (m *mirror) same(now time.Duration, when string) {
	m.t.Helper()
	a, b := m.n[0], m.n[1]
	if !bytes.Equal(a.mem, b.mem) {
		m.t.Fatalf("%s: memory differs", when)
	}
	for _, d := range []string{
		cmp.Diff(a.told(a.recv.list), b.told(b.recv.list)), cmp.Diff(a.told(a.send.list), b.told(b.send.list)), cmp.Diff(a.why(), b.why()),
		cmp.Diff(a.events, b.events), cmp.Diff(a.states, b.states), cmp.Diff(m.answers(now, a), m.answers(now, b)),
	} {
		if d != "" {
			m.t.Fatalf("%s: with the short way %s", when, d)
		}
	}
	if x, y := a.q.Deadline(), b.q.Deadline(); x != y {
		m.t.Fatalf("%s: deadline %v, with the short way %v", when, x, y)
	}
}

// told returns completions without keys, which are random for each node.
func (n *node) told(list []queue.CQE) []queue.CQE {
	list = slices.Clone(list)
	for i := range list {
		list[i].Found = n.keyless(list[i].Found)
	}
	return list
}

func (n *node) why() []reason.Detail {
	list := slices.Clone(n.refused)
	for i := range list {
		list[i].Found = n.keyless(list[i].Found)
	}
	return list
}

func (n *node) keyless(found uint64) uint64 {
	if uint32(found)|1 == n.mr.Key|1 {
		return 0
	}
	return found
}

func (m *mirror) answers(now time.Duration, n *node) (list []string) {
	var out machine.Out
	for n.q.Next(now, &out) {
		list = append(list, fmt.Sprintf("%+v %v %v %x", out.BTH, out.RETH, out.AETH, bytes.Join(out.Pieces, nil)))
	}
	return list
}

// Packets of a hostile peer, in and out of order, valid and corrupted, must have the same effect on
// both paths.
func TestContinueMatchesReceive(t *testing.T) {
	runs, taken := 400, 0
	if testing.Short() {
		runs = 100
	}
	for seed := range runs {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		m := newMirror(t, seed%2 == 1, []qp.Access{allAccess, allAccess, allAccess, qp.RemoteRead}[r.IntN(4)])
		s := &stream{r: r, psn: psn.New(testPSN1), announces: r.IntN(2) == 0, read: r.IntN(3) == 0}
		m.prepare(s)
		for i := range 60 {
			now := time.Duration(i) * time.Microsecond
			in := s.next(m.n[0])
			m.give(now, in)
			if r.IntN(8) == 0 {
				m.same(now, fmt.Sprintf("seed %d, after packet %d", seed, i))
			}
			if r.IntN(40) == 0 {
				for _, n := range m.n {
					_ = n.port.Memory.Deregister(n.mr) // possibly a second time
				}
			}
		}
		m.same(time.Second, fmt.Sprintf("seed %d, in the end", seed))
		taken += m.taken
	}
	if taken < 5*runs {
		t.Errorf("%d packets of %d runs took the fast path", taken, runs)
	}
}

// prepare posts the work requests that the packets of s need.
func (m *mirror) prepare(s *stream) {
	var reqs [2][]string
	cut := s.r.IntN(20 * testMTU)
	long := s.r.IntN(32 * testMTU)
	key := uint32(s.r.IntN(6) / 5) // sometimes makes the second entry invalid
	for i, n := range m.n {
		for k := range 4 {
			e := n.sge(0x4000+cut, long)
			e.LKey ^= key
			n.postRecv(uint64(k), n.sge(0x4000, cut), e)
		}
		if s.read {
			n.post(wqe{op: queue.Read, list: []memory.SGE{n.sge(0x4000, cut), n.sge(0x4000+cut, 40*testMTU-cut)}, remote: queue.RDMA{Addr: 1, RKey: 2}})
			n.post(wqe{op: queue.Write, list: []memory.SGE{n.sge(0, 100)}, remote: queue.RDMA{Addr: 1, RKey: 2}})
		}
		reqs[i] = m.answers(0, n)
	}
	if d := cmp.Diff(reqs[0], reqs[1]); d != "" {
		m.t.Fatal(d)
	}
	if s.read {
		s.psn = m.n[0].port.Attr.SQPSN
	}
}

// A stream generates the packets of messages, most of them valid.
type stream struct {
	r         *rand.Rand
	psn       psn.PSN
	op        ib.Opcode
	late      []machine.In // packets to deliver out of order
	left      int          // packets left of the message
	all       int
	announces bool
	read      bool // responses to a READ of 40 packets
}

func (s *stream) next(n *node) machine.In {
	r := s.r
	if len(s.late) > 0 && r.IntN(4) == 0 {
		in := s.late[0]
		s.late = s.late[1:]
		return in
	}
	if s.left == 0 {
		s.all = 1 + r.IntN(30)
		s.op = []ib.Opcode{ib.RCWriteOnly, ib.RCSendOnly, ib.RCWriteOnlyImm, ib.RCSendOnlyImm}[r.IntN(4)]
		if s.read {
			s.all, s.op = 40, ib.RCReadResponseOnly
		}
		s.left = s.all
	}
	in := machine.In{Src: testAddrs[1], Dst: testAddrs[0]}
	in.DestQPN, in.Selective = n.port.QPN, s.announces
	in.Opcode = s.op.Segment(s.left == s.all, s.left == 1)
	in.PSN, in.Imm = s.psn, r.Uint32()
	in.AckReq = s.left == 1 || r.IntN(12) == 0
	in.AETH.Syndrome = ib.ACKNoCredits
	in.RETH = ib.RETH{Addr: n.mr.Base + 0x1000, Length: uint32(s.all * testMTU)}
	if r.IntN(8) == 0 {
		in.RETH.Length = uint32(r.IntN(s.all+1)*testMTU + r.IntN(2))
	}
	in.Payload = bytes.Repeat([]byte{byte(r.Uint32())}, testMTU)
	switch r.IntN(120) { // faults of the peer or the network
	case 0:
		return in // duplicated
	case 1, 2, 3:
		s.psn, s.left = s.psn.Next(), s.left-1 // lost or late
		if r.IntN(4) > 0 {
			s.late = append(s.late, in)
		}
		return s.next(n)
	case 4:
		in.PSN = in.PSN.Add(r.IntN(9) - 4)
	case 5, 6, 7:
		in.Opcode = []ib.Opcode{ib.RCWriteMiddle, ib.RCSendMiddle, ib.RCReadResponseMiddle, ib.RCAcknowledge, ib.RCReadRequest, ib.UCWriteMiddle}[r.IntN(6)]
	case 8:
		in.Payload = in.Payload[:r.IntN(testMTU)]
	case 9:
		in.Payload = append(in.Payload, 0, 0, 0, 0)
	case 10:
		in.TOS = uint8(r.IntN(4))
	case 11:
		in.Src = testAddrs[0]
	case 12:
		in.Selective = !in.Selective
	}
	s.psn, s.left = s.psn.Next(), s.left-1
	return in
}
