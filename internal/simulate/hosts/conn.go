package hosts

import (
	"net/netip"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/rc"
	"softrdma/internal/reason"
)

// A Conn is a connection from a host to another one.
type Conn struct {
	h    *Hosts
	ends [2]end

	// User is the user's.
	User any
}

// An end is a queue pair.
type end struct {
	conn     *Conn
	peer     *end
	host     *host
	local    netip.AddrPort // source of its packets
	priority uint8
	port     machine.Port
	q        *rc.QP
	high     psn.PSN // of the last packet that was sent for the first time
	timer    int
	at       dcb.Time // of the timer
	open     bool     // it may send; a receiver is open from the beginning
	closed   bool
	queued   bool
	next     *end
}

// A done is what has been completed.
type done struct {
	end      *end
	id       uint64
	received bool
	status   queue.Status
	why      reason.Detail
}

// Connect connects two hosts, given by their nodes, at a time that may be ahead, but not beyond the
// current step. depth is the number of messages that may be posted and not yet acknowledged. It is called
// by Alarm, or while Run is not running.
func (h *Hosts) Connect(now dcb.Time, from, to, depth int, s *Sender) *Conn {
	c := &Conn{h: h}
	nodes := [2]int{from, to}
	first := [2]psn.PSN{psn.New(h.random.Uint32()), psn.New(h.random.Uint32())}
	for i := range c.ends {
		h.init(c, i, nodes[i], depth, s)
	}
	for i := range c.ends {
		e, peer := &c.ends[i], &c.ends[1-i]
		a := &e.port.Attr
		a.Path.Dst, a.DestQPN = netip.AddrPortFrom(peer.local.Addr(), roce), peer.port.QPN
		a.SQPSN, a.RQPSN, e.high = first[i], first[1-i], first[i].Add(-1)
		var store *rc.Store
		if !s.GoBackN {
			store = e.host.records()
		}
		e.q = rc.New(&e.port, rc.Config{Store: store, Control: s.Control, Tuning: s.Tuning})
		for to := qp.Init; to <= qp.RTS; to++ {
			a.State = to
			e.q.Transition(clock(now), to-1)
		}
	}
	e := &c.ends[0]
	e.open, e.at = false, now
	e.host.due.Set(e.timer, now)
	e.host.watch()
	return c
}

// records is the memory of the host for selective recovery.
func (x *host) records() *rc.Store {
	if x.store == nil {
		x.store = rc.NewStore(rc.DefaultStore)
	}
	return x.store
}

const (
	roce     = 4791   // destination port
	lowPort  = 0xc000 // the first of the ports for sources (annex A17.3.2.1)
	numPorts = 1 << 14
	lastQPN  = 1<<24 - 2
	retries  = 7
)

// init sets up an end without its peer's address.
func (h *Hosts) init(c *Conn, i, node, depth int, s *Sender) {
	e := &c.ends[i]
	x := h.hosts[node]
	p := x.part
	e.conn, e.peer, e.host, e.open, e.at, e.priority = c, &c.ends[1-i], x, true, dcb.Never, s.Priority
	e.local = netip.AddrPortFrom(x.address, uint16(lowPort+h.random.IntN(numPorts)))
	e.timer = x.timer(e)
	if i == 1 {
		depth = 1 // it posts nothing
	}
	e.port = machine.Port{
		QPN: h.qpn, Type: qp.RC, PD: protection, RecvPD: protection, Memory: p.memory, SQSigAll: true, Host: p,
		SQ: queue.NewSendRing(depth, 1, 0), RQ: endless{}, SendCQ: (*sends)(e), RecvCQ: (*receives)(e),
		Window: orDefault(s.Window, DefaultWindow), Traffic: &p.traffic,
		Attr: qp.Attr{
			PathMTU: orDefault(s.MTU, DefaultMTU), Access: qp.RemoteWrite, Port: 1, MaxRdAtomic: 1, MaxDestRdAtomic: 1,
			Timeout: orDefault(s.Timeout, DefaultTimeout), RetryCnt: retries, RNRRetry: retries,
		},
	}
	if h.qpn++; h.qpn > lastQPN {
		h.qpn = firstQPN
	}
}

func orDefault[T comparable](v, d T) T {
	var zero T
	if v == zero {
		return d
	}
	return v
}

// From returns the node that sends, and To the one that receives.
func (c *Conn) From() int { return c.ends[0].host.node }

// To returns the node that receives.
func (c *Conn) To() int { return c.ends[1].host.node }

// Received returns the bytes of messages that have arrived in order.
func (c *Conn) Received() uint64 { return c.ends[1].port.Received }

// Post sends a message of n bytes with an id, of which Received gets the lower 32 bits. There must
// be room for it. It is called by the Handler for the sending host, or where Connect may be.
func (c *Conn) Post(now dcb.Time, id uint64, n uint32) {
	e := &c.ends[0]
	sq, key := e.port.SQ, e.host.part.region.Key
	i := sq.Producer()
	w := sq.At(i)
	*w = queue.SendWQE{WRID: id, Op: queue.WriteImm, ImmInv: queue.NetworkOrder(uint32(id)), Length: n, NumSGE: 1}
	*w.RDMA() = queue.RDMA{RKey: key}
	sq.SGERoom(i)[0] = memory.SGE{Length: n, LKey: key}
	sq.Publish(sq.Next(i))
	if e.open {
		e.enqueue()
		e.host.part.pump(now, e.host)
	}
}

// Close ends the connection. Packets to the sender that are on their way are ignored from now on, those
// to the receiver after the current step. It is called where Post may be.
func (c *Conn) Close(now dcb.Time) {
	if e := &c.ends[0]; !e.closed {
		e.close(now)
		e.host.part.closing = append(e.host.part.closing, e.peer)
	}
}

func (e *end) close(now dcb.Time) {
	e.closed = true
	from := e.port.Attr.State
	e.port.Attr.State = qp.Reset
	e.q.Transition(clock(now), from)
	x := e.host
	x.due.Clear(e.timer)
	x.ends[e.timer] = nil
	x.spare = append(x.spare, e.timer)
	x.watch()
}

// arm sets the timer of a queue pair. A timer that is due too early is set again then, which is
// rarer than that the deadline moves.
func (e *end) arm(now dcb.Time) {
	d := e.q.Deadline()
	if e.closed || d == machine.Never {
		return
	}
	if at := max(dcb.FromDuration(d), now+dcb.Nanosecond); at < e.at {
		e.at = at
		e.host.due.Set(e.timer, at)
		e.host.watch()
	}
}

// enqueue gives a queue pair a turn.
func (e *end) enqueue() {
	if e.queued || e.closed {
		return
	}
	e.host.waiting |= 1 << e.priority
	e.host.ready[e.priority].push(e)
}

// A turns is a list of queue pairs that may have something to send.
type turns struct{ first, last *end }

func (t *turns) push(e *end) {
	e.queued, e.next = true, nil
	if t.first == nil {
		t.first = e
	} else {
		t.last.next = e
	}
	t.last = e
}

func (t *turns) pop() *end {
	e := t.first
	t.first, e.next, e.queued = e.next, nil, false
	return e
}

// endless is a receive queue that never runs empty. Its receives have no memory. Like a shared one it
// gives the peer no credits.
type endless struct{}

func (endless) Take(r *machine.Receive) bool {
	*r = machine.Receive{SGEs: r.SGEs[:0]}
	return true
}
func (endless) Len() int     { return 1 }
func (endless) Shared() bool { return true }

// sends is the completion queue of an end's messages.
type sends end

// Push implements machine.CQ.
func (s *sends) Push(c *queue.CQE) { (*end)(s).complete(c, false) }

// receives is that of arriving messages.
type receives end

// Push implements machine.CQ. A receiver does not fail: it has receives and memory for all messages.
func (r *receives) Push(c *queue.CQE) {
	if c.Status == queue.Success {
		(*end)(r).complete(c, true)
	}
}

func (e *end) complete(c *queue.CQE, received bool) {
	d := done{end: e, id: c.WRID, received: received, status: c.Status}
	if received {
		d.id = uint64(queue.NetworkOrder(c.ImmInv))
	}
	if c.Status != queue.Success {
		d.why = reason.Detail{Reason: c.Reason, Expected: c.Expected, Found: c.Found}
	}
	p := e.host.part
	p.done = append(p.done, d)
}
