package msg

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"softrdma/internal/carrier"
	"softrdma/internal/message"
	"softrdma/msg/internal/access"
	"softrdma/msg/internal/format"
	"softrdma/msg/internal/repair"
	"softrdma/verbs"
)

const (
	railParts = 4         // parts of messages in flight on each rail
	partSize  = 256 << 10 // bytes of a part
)

// ErrUncertain is matched by the error of an atomic operation whose rail failed while it was in flight.
// Whether it was executed is unknown, so it is not repeated.
var ErrUncertain = access.ErrUncertain

// errDown is why a rail that works here ends.
var errDown = errors.New("the rail is down for the peer")

// A group is the connection of an endpoint with several rails. The endpoint, the machine and the program
// know its logical connection c, which has no queue pair. Its members have the queue pairs. Package
// message keeps frames in order over them.
//
// Messages are read and written in parts. A member that has room takes the next, so each takes as many
// as it is fast. Accesses use the rail of frames. When a member fails, its parts and accesses begin
// again on others, after the peer has ended its use of the rail, too: nothing of the first attempt
// arrives later.
type group struct {
	c        *connection
	token    format.Token
	pairs    []format.Pair
	members  []*connection // nil if the rail is not connected
	arriving *connection   // on which the machine's frame arrived
	rails    *message.Rails
	parts    []carrier.Move   // that no member has taken: the segment as Slot, the offset there as Address
	held     []carrier.Move   // of failed members
	accesses []*access.Access // of failed members, and those that began later
	fenced   bool             // the next of accesses
	expected int              // rails that are being accepted
	failed   error            // why a rail failed last

	failures, restored uint64          // connections of rails that have failed, and that were made again
	to                 *format.Address // of the worker to which rails are connected again, or nil
	context            context.Context // of such attempts
	stop               context.CancelFunc
	repairs            [message.MaxRails]repair.Rail
}

// newGroup makes a group without members. The caller holds the lock.
func (w *Worker) newGroup(token format.Token, pairs []format.Pair, worker uint64, takes message.Config) *group {
	c := &connection{w: w, worker: worker, takes: takes}
	c.Conn = w.e.Join(c)
	g := &group{c: c, token: token, pairs: pairs, members: make([]*connection, len(pairs))}
	c.endpoint.c, c.group = c, g
	c.peer = w.machine.NewPeer(takes, len(pairs))
	c.peer.Context = c
	g.rails = message.NewRails(len(pairs), g.post)
	w.groups[token] = g
	w.conns = append(w.conns, c)
	return g
}

// logical reports whether c is that of a group.
func (c *connection) logical() bool { return c.group != nil && c.group.c == c }

// paths returns the number of rails.
func (c *connection) paths() int {
	if c.group == nil {
		return 1
	}
	return len(c.group.pairs)
}

// devices returns how many of the peer's devices, from the first, the connection needs keys for.
func (c *connection) devices() int {
	n := 1
	if c.group != nil {
		for _, p := range c.group.pairs {
			n = max(n, p.Peer+1)
		}
	}
	return n
}

// Rails returns the worker's devices on which the endpoint works.
func (e *Endpoint) Rails() (list []*verbs.Device) {
	w := e.c.w
	w.e.Lock()
	defer w.e.Unlock()
	members := []*connection{e.c}
	if g := e.c.group; g != nil {
		members = g.members
	}
	for _, m := range members {
		if m != nil && m.err == nil && !slices.Contains(list, m.rail.on.Dev) {
			list = append(list, m.rail.on.Dev)
		}
	}
	return list
}

// carrier returns the member that carries frames and accesses.
func (g *group) carrier() *connection {
	if i, ok := g.rails.Current(); ok {
		return g.members[i]
	}
	return nil
}

// post sends bytes on a rail.
func (g *group) post(rail int, b []byte) {
	m := g.members[rail]
	if m != nil && m.err == nil && !m.Broken() {
		m.Add(b)
	}
}

// arrive takes what arrived on a rail.
func (g *group) arrive(m *connection, b []byte) error {
	frame, down, err := g.rails.Arrive(b)
	for i := range g.members {
		if err == nil && down&(1<<i) != 0 {
			g.down(i, g.rails.KnownFailed(i))
		}
	}
	if g.arriving = m; err == nil && frame != nil && g.c.err == nil {
		err = g.c.w.machine.Arrive(g.c.peer, frame)
	}
	if err != nil {
		g.c.fail(err)
	}
	g.settle()
	return nil
}

// down ends a rail's connections up to one that has failed at the peer.
func (g *group) down(rail int, generation uint32) {
	if m := g.members[rail]; m != nil && m.generation <= generation {
		m.fail(errDown)
	}
	g.rails.Fail(rail, generation)
}

// fail ends a member, and the group with the last one, unless another is being accepted: the peer may use
// that already.
func (g *group) fail(m *connection, parts []carrier.Move) {
	err := m.Err
	m.err = err
	g.failures++
	for _, x := range parts {
		x.Address -= g.on(m, &x).Address
		g.held = append(g.held, x)
	}
	g.accesses = append(m.pipeline.Rescue(), g.accesses...)
	g.rails.Fail(m.pair, m.generation)
	// What the peer refused it would refuse on each rail.
	if g.failed = err; g.carrier() == nil && g.expected == 0 || errors.Is(err, ErrRefused) {
		g.c.fail(err)
		return
	}
	g.settle()
	g.repair(m.pair)
}

// settle begins what failed members left again, when the peer knows of the failures.
func (g *group) settle() {
	m := g.carrier()
	if g.c.err != nil || m == nil || !g.rails.Settled() {
		return
	}
	if len(g.held) > 0 {
		g.parts = append(g.held, g.parts...)
		g.held = nil
		g.wakeAll()
	}
	list := g.accesses
	g.accesses = nil
	for _, x := range list {
		m.pipeline.Add(x)
	}
	if g.fenced {
		m.pipeline.Fence()
		g.fenced = false
	}
	for i := range g.parts {
		if !slices.ContainsFunc(g.members, func(m *connection) bool { return m != nil && m.err == nil && g.on(m, &g.parts[i]).Key != 0 }) {
			g.c.fail(fmt.Errorf("message not open on the rails that are left: %w", errDown))
			return
		}
	}
}

// end ends all members of a group whose logical connection has failed, and what it keeps.
func (g *group) end() {
	delete(g.c.w.groups, g.token)
	if g.stop != nil {
		g.stop()
	}
	for _, m := range g.members {
		if m != nil && m.err == nil {
			m.err = g.c.err
			m.Fail(g.c.err)
		}
	}
	for _, m := range g.members {
		if m != nil {
			m.pipeline.End(g.c.err)
		}
	}
	for _, x := range g.accesses {
		x.End(g.c.err)
	}
	g.parts, g.held, g.accesses = nil, nil, nil
}

// wakeAll lets all members take parts.
func (g *group) wakeAll() {
	for _, m := range g.members {
		if m != nil && m.err == nil {
			m.Mark()
		}
	}
}

// push ends flushes, and the connection when nothing is in flight.
func (g *group) push() {
	c := g.c
	if c.err != nil {
		return
	}
	c.passFlushes()
	if !c.closing || c.err != nil || len(c.flushes)+c.peer.Waiting()+len(g.parts)+len(g.held)+len(g.accesses) > 0 {
		return
	}
	if g.rails.Acknowledged() < g.rails.Last() {
		g.rails.Ask()
	} else if m := g.carrier(); m != nil && m.pipeline.Idle() {
		m.Flush() // the peer may wait for what they acknowledge
		c.close()
	}
}

// entered returns how many frames were given to the connection to send. left returns how many of
// them have been sent, or with several rails how many have arrived: entered then asks the peer to
// acknowledge them.
func (c *connection) entered() uint64 {
	if c.group == nil {
		return c.Entered()
	}
	c.group.rails.Ask()
	return c.group.rails.Last()
}

func (c *connection) left() uint64 {
	if c.group == nil {
		return c.Left()
	}
	return c.group.rails.Acknowledged()
}

// transfer begins to read or write a message in parts.
func (g *group) transfer(q *Request, write bool, own [][]byte, peers []message.Segment) {
	q.via, q.peers = g.c, slices.Clone(peers)
	message.Cut(own, peers[:len(peers)/len(g.pairs)], partSize, func(i, at int, b []byte) {
		q.reads++
		g.parts = append(g.parts, carrier.Move{By: (*mover)(q), Slot: i, Write: write, Data: b, Address: uint64(at)})
	})
	g.wakeAll()
}

// on returns where the peer's bytes of a part are for a member.
func (g *group) on(m *connection, x *carrier.Move) *message.Segment {
	peers := x.By.(*mover).peers
	return &peers[m.pair*(len(peers)/len(g.pairs))+x.Slot]
}

// pull lets a member take parts of messages.
func (g *group) pull(m *connection) {
	for !m.Broken() && m.err == nil && m.Movable(m.parts) {
		i := slices.IndexFunc(g.parts, func(x carrier.Move) bool { return g.on(m, &x).Key != 0 })
		if i < 0 {
			return
		}
		x := g.parts[i]
		g.parts = slices.Delete(g.parts, i, i+1)
		s := g.on(m, &x)
		x.Address, x.Key = x.Address+s.Address, s.Key
		m.MoveNow(x)
	}
}

// access begins an access of an endpoint.
func (c *connection) access(x *access.Access) {
	g := c.group
	switch {
	case c.err != nil:
		x.End(c.err)
	case g == nil:
		c.pipeline.Add(x)
	case g.carrier() != nil && len(g.accesses) == 0 && g.rails.Settled():
		g.carrier().pipeline.Add(x)
	default:
		x.Fenced, g.fenced = g.fenced, false
		g.accesses = append(g.accesses, x)
	}
}

// fence orders the next access of an endpoint behind those before it.
func (c *connection) fence() {
	g := c.group
	switch {
	case g == nil:
		c.pipeline.Fence()
	case len(g.accesses) > 0 || g.carrier() == nil:
		g.fenced = true
	default:
		g.carrier().pipeline.Fence()
	}
}
