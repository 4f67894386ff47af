// Package machinetest lends protocol machines an environment that records, and
// carries their packets from one to the other through the wire format. It is
// for tests alone and does no I/O either.
package machinetest

import (
	"fmt"
	"net/netip"

	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// The addresses of a pair.
var (
	AddrA = netip.MustParseAddrPort("192.0.2.1:4791")
	AddrB = netip.MustParseAddrPort("192.0.2.2:4791")
)

// PD is the protection domain of every port.
const PD = 7

// Completions is a completion queue without an end.
type Completions struct{ List []queue.CQE }

// Push implements machine.CQ.
func (c *Completions) Push(e *queue.CQE) { c.List = append(c.List, *e) }

// Take returns the completions since the last Take.
func (c *Completions) Take() []queue.CQE {
	l := c.List
	c.List = nil
	return l
}

// Receives is a receive queue without an end.
type Receives struct {
	List     []machine.Receive
	IsShared bool
}

// Take implements machine.ReceiveQueue.
func (q *Receives) Take(r *machine.Receive) bool {
	if len(q.List) == 0 {
		return false
	}
	x := q.List[0]
	q.List = q.List[1:]
	r.WRID, r.Length, r.SGEs = x.WRID, x.Length, append(r.SGEs[:0], x.SGEs...)
	return true
}

// Len implements machine.ReceiveQueue.
func (q *Receives) Len() int { return len(q.List) }

// Shared implements machine.ReceiveQueue.
func (q *Receives) Shared() bool { return q.IsShared }

// A Runaway is a receive queue whose producer is as fast as its consumer: a program
// that posts without an end. Taking 100 times N panics.
type Runaway struct{ N, Taken int }

// Take implements machine.ReceiveQueue.
func (q *Runaway) Take(r *machine.Receive) bool {
	if q.Taken++; q.Taken > 100*q.N {
		panic("taking from a queue that others post to does not end")
	}
	r.WRID, r.Length, r.SGEs = uint64(q.Taken), 0, r.SGEs[:0]
	return true
}

// Len implements machine.ReceiveQueue.
func (q *Runaway) Len() int { return q.N }

// Shared implements machine.ReceiveQueue.
func (q *Runaway) Shared() bool { return false }

// A Port is a machine's environment that records what the machine reports.
type Port struct {
	machine.Port
	Sent, Received Completions
	Receives       Receives
	Refused        []reason.Detail
	Events         []machine.Event
	States         []string // "RTS>SQE"
}

// New makes a port with room for depth send requests.
func New(t qp.Type, qpn uint32, depth int) *Port {
	p := &Port{}
	p.Port = machine.Port{
		QPN: qpn, Type: t, PD: PD, RecvPD: PD, Memory: memory.NewTable(),
		SQ: queue.NewSendRing(depth, 4, 64), RQ: &p.Receives,
		SendCQ: &p.Sent, RecvCQ: &p.Received, Host: p, Window: 1 << 20,
		Attr: qp.Attr{PathMTU: 256, Port: 1, Access: qp.RemoteWrite}, PutGRH: putGRH,
	}
	return p
}

// putGRH writes the header of RoCE v2.
func putGRH(b []byte, in *machine.In, length int) {
	ib.PutGRH(b, in.Src.Addr(), in.Dst.Addr(), in.TOS, in.TTL, 0, length)
}

// Event implements machine.Host.
func (p *Port) Event(_ *machine.Port, e machine.Event, _ reason.Detail) {
	p.Events = append(p.Events, e)
}

// Refuse implements machine.Host.
func (p *Port) Refuse(_ *machine.Port, d reason.Detail) { p.Refused = append(p.Refused, d) }

// StateChanged implements machine.Host.
func (p *Port) StateChanged(_ *machine.Port, from qp.State, _ reason.Detail) {
	p.States = append(p.States, fmt.Sprintf("%v>%v", from, p.Attr.State))
}

// Reasons returns the reasons refused since the last call.
func (p *Port) Reasons() (r []reason.Reason) {
	for _, d := range p.Refused {
		r = append(r, d.Reason)
	}
	p.Refused = nil
	return r
}

// Move makes transitions of the state, as a user does.
func (p *Port) Move(m machine.Machine, to ...qp.State) {
	for _, s := range to {
		from := p.Attr.State
		p.Attr.State = s
		m.Transition(0, from)
	}
}

// Register makes a region of n bytes.
func (p *Port) Register(n int, access qp.Access) (*memory.Region, []byte) {
	b := make([]byte, n)
	r, err := p.Memory.Register(PD, b, memory.Addr(b), access)
	if err != nil {
		panic(err)
	}
	return r, b
}

// SGE is an entry for n bytes of a region from off on.
func SGE(r *memory.Region, off, n int) memory.SGE {
	return memory.SGE{Addr: r.Base + uint64(off), Length: uint32(n), LKey: r.Key}
}

// PostSend posts a request; fill sets what is particular to it, and may set
// another length than the entries'.
func (p *Port) PostSend(fill func(*queue.SendWQE), list ...memory.SGE) {
	i := p.SQ.Producer()
	w := p.SQ.At(i)
	*w = queue.SendWQE{NumSGE: uint32(len(list)), Flags: queue.Signaled}
	for _, e := range list {
		w.Length += e.Length
	}
	copy(p.SQ.SGERoom(i), list)
	if fill != nil {
		fill(w)
	}
	p.SQ.Publish(p.SQ.Next(i))
}

// PostInline posts a request with inline data.
func (p *Port) PostInline(data []byte, fill func(*queue.SendWQE)) {
	i := p.SQ.Producer()
	w := p.SQ.At(i)
	*w = queue.SendWQE{Flags: queue.Signaled | queue.Inline, Length: uint32(len(data))}
	copy(p.SQ.InlineRoom(i), data)
	if fill != nil {
		fill(w)
	}
	p.SQ.Publish(p.SQ.Next(i))
}

// PostRecv posts a receive request.
func (p *Port) PostRecv(id uint64, list ...memory.SGE) {
	r := machine.Receive{WRID: id, SGEs: list}
	for _, e := range list {
		r.Length += uint64(e.Length)
	}
	p.Receives.List = append(p.Receives.List, r)
}

// Encode is the packet as it stands on the wire, with an ICRC of zero.
func Encode(out *machine.Out) []byte {
	var b []byte
	n := 0
	for _, p := range out.Pieces {
		n += len(p)
	}
	if n != out.Len {
		panic(fmt.Sprintf("out.Len is %d, the pieces have %d bytes", out.Len, n))
	}
	out.Pad = ib.PadLen(out.Len)
	b = make([]byte, out.HeaderLen())
	out.PutHeaders(b)
	for _, p := range out.Pieces {
		b = append(b, p...)
	}
	return append(b, make([]byte, int(out.Pad)+ib.ICRCLen)...)
}

// Decode is Encode's inverse, as the receiver sees it.
func Decode(b []byte, src, dst netip.AddrPort) *machine.In {
	in := &machine.In{Src: src, Dst: dst, TTL: 64}
	if f := in.Parse(b); f != ib.OK {
		panic(fmt.Sprintf("packet does not parse: fault %d, % x", f, b))
	}
	return in
}

// Drain asks m for packets until it has none, and returns them encoded. A call
// of Drain is a batch that has left when it returns; limit 0 is none.
func Drain(m machine.Machine, limit int) (packets [][]byte) {
	var out machine.Out
	for limit == 0 || len(packets) < limit {
		if !m.Next(0, &out) {
			break
		}
		packets = append(packets, Encode(&out))
	}
	return packets
}
