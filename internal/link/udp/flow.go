package udp

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	"softrdma/internal/link"
)

// firstPort is the lowest source port of flows, which use the dynamic ports. A17.3.2.1 asks
// for a port that stays the same for a flow and differs between flows.
const firstPort = 0xc000

// portOf folds a label into a source port. A 20-bit flow label gives the same port as in
// Linux's RoCE drivers.
func portOf(label uint32) uint16 {
	return firstPort | uint16((label^label>>14^label>>28)&0x3fff)
}

// portTries is how many ports are tried before the system chooses one.
const portTries = 16

// portAfter returns the i-th port to try. An odd stride visits all ports.
func portAfter(port uint16, i int) uint16 {
	return firstPort | uint16((int(port)+i*509)&0x3fff)
}

type flowKey struct {
	dst  netip.AddrPort
	port uint16 // wanted for the label
}

// A flow is a link.DatagramFlow with its socket. The endpoint and the destination have
// system-specific types.
type flow struct {
	link.DatagramFlow
	keys []flowKey // in flowTable.byKey
	uses int
	end  *endpoint
	own  bool // end is the flow's own socket, not the receiving one
	to   destination
}

// replyHandle is the handle of Reply's flow, which is not in the table.
const replyHandle = -1

// A flowTable shares flows by peer and label and limits the number of their sockets. One
// goroutine at a time uses it.
type flowTable struct {
	limit   int // limit of sockets
	keep    int // limit of sockets without users
	sockets int
	flows   []*flow // by handle; nil if free
	byKey   map[flowKey]*flow
	reply   flow
	idle    []*flow     // without users, the most recent at the end
	kept    atomic.Bool // reports whether idle has any; Wait reads it
}

// OpenFlow implements link.Datagrams. Flow addresses have no zone, as on the wire: a link-local
// peer is on the link's interface.
func (l *Link) OpenFlow(dst netip.AddrPort, label uint32) (*link.DatagramFlow, error) {
	if !l.life.Enter() {
		return nil, link.ErrClosed
	}
	defer l.life.Leave()
	dst, err := checkPeer(l.local, dst)
	if err != nil {
		return nil, err
	}
	return l.flows.open(l, dst, label), nil
}

// Reply implements link.Datagrams, with the receiving socket.
func (l *Link) Reply(dst netip.AddrPort) (*link.DatagramFlow, error) {
	if !l.life.Enter() {
		return nil, link.ErrClosed
	}
	defer l.life.Leave()
	dst, err := checkPeer(l.local, dst)
	if err != nil {
		return nil, err
	}
	f := &l.flows.reply
	end, src := l.receiver()
	*f = flow{uses: 1, end: end, to: l.destination(dst)}
	f.Handle, f.Src, f.Dst, f.Segments = replyHandle, onWire(src), dst, 1
	return &f.DatagramFlow, nil
}

// OpenReturn implements link.Returner.
func (l *Link) OpenReturn(dst netip.AddrPort) (*link.DatagramFlow, error) {
	if !l.life.Enter() {
		return nil, link.ErrClosed
	}
	defer l.life.Leave()
	dst, err := checkPeer(l.local, dst)
	if err != nil {
		return nil, err
	}
	return l.flows.openReturn(l, dst), nil
}

// CloseFlow implements link.Datagrams.
func (l *Link) CloseFlow(f *link.Flow) {
	if !l.life.Enter() {
		return
	}
	defer l.life.Leave()
	if e := l.flows.close(f); e != nil {
		e.close()
	}
}

// A flowOpener makes sockets for a flowTable.
type flowOpener interface {
	// dial makes a socket that sends to dst, from port if it is free.
	dial(dst netip.AddrPort, port uint16) (end *endpoint, src netip.AddrPort, err error)
	// receiver returns the receiving socket, which can send to any peer.
	receiver() (end *endpoint, src netip.AddrPort)
	// destination converts dst to the type that a socket needs.
	destination(dst netip.AddrPort) destination
	// segments returns how many packets the link sends as one datagram.
	segments() int
	// again prepares a socket for new users.
	again(end *endpoint)
}

// open finds or makes a flow and adds a user.
func (t *flowTable) open(o flowOpener, dst netip.AddrPort, label uint32) *link.DatagramFlow {
	key := flowKey{dst, portOf(label)}
	if f := t.byKey[key]; f != nil && f.uses > 0 {
		f.uses++
		return &f.DatagramFlow
	}
	f := t.reuse(o, key)
	if f == nil {
		f = t.dial(o, key)
	}
	if f == nil {
		f = t.fold(o, key)
	}
	f.uses++
	f.keys = append(f.keys, key)
	t.byKey[key] = f
	return &f.DatagramFlow
}

// openReturn finds or makes a flow of the receiving socket and adds a user.
func (t *flowTable) openReturn(o flowOpener, dst netip.AddrPort) *link.DatagramFlow {
	key := flowKey{dst: dst} // port 0: no label has it
	f := t.byKey[key]
	if f == nil {
		f = t.ofReceiver(o, dst)
		f.keys = append(f.keys, key)
		t.byKey[key] = f
	}
	f.uses++
	return &f.DatagramFlow
}

// dial makes a flow with its own socket. It returns nil if that is impossible because of the
// limit, the process's descriptors, or the ports.
func (t *flowTable) dial(o flowOpener, key flowKey) *flow {
	if t.sockets-len(t.idle) >= t.limit {
		return nil
	}
	end, src, err := o.dial(key.dst, key.port)
	if err != nil {
		return nil
	}
	t.sockets++
	f := t.add(o, key.dst)
	f.end, f.own, f.Src = end, true, onWire(src)
	f.First, f.Counts = end.identification()
	return f
}

// reuse takes a flow to the peer that has no users: the one with the same label, or else the
// most recently used one. New users get a new *link.DatagramFlow, so that a former user's is not
// open.
func (t *flowTable) reuse(o flowOpener, key flowKey) *flow {
	old := t.byKey[key]
	for _, f := range slices.Backward(t.idle) {
		if old == nil && f.Dst == key.dst {
			old = f
		}
	}
	if old == nil {
		return nil
	}
	i := slices.Index(t.idle, old)
	t.idle = slices.Delete(t.idle, i, i+1)
	t.kept.Store(len(t.idle) > 0)
	t.forget(old)
	f := *old
	t.flows[f.Handle] = &f
	o.again(f.end)
	return &f
}

// forget removes a flow's keys.
func (t *flowTable) forget(f *flow) {
	for _, k := range f.keys {
		delete(t.byKey, k)
	}
	f.keys = nil
}

// fold finds another flow to the same peer, always the same one for the same label and flows,
// or makes one from the receiving socket.
func (t *flowTable) fold(o flowOpener, key flowKey) *flow {
	var same []*flow
	for _, f := range t.flows {
		if f != nil && f.Dst == key.dst && f.uses > 0 {
			same = append(same, f)
		}
	}
	if len(same) > 0 {
		return same[int(key.port)%len(same)]
	}
	return t.ofReceiver(o, key.dst)
}

// ofReceiver makes a flow of the receiving socket.
func (t *flowTable) ofReceiver(o flowOpener, dst netip.AddrPort) *flow {
	end, src := o.receiver()
	f := t.add(o, dst)
	f.end, f.Src = end, onWire(src)
	return f
}

func (t *flowTable) add(o flowOpener, dst netip.AddrPort) *flow {
	f := &flow{to: o.destination(dst)}
	f.Dst, f.Segments = dst, o.segments()
	for i := range t.flows {
		if t.flows[i] == nil {
			f.Handle = i
			t.flows[i] = f
			return f
		}
	}
	f.Handle = len(t.flows)
	t.flows = append(t.flows, f)
	return f
}

// find returns the flow of a handle, or nil if it is not open.
func (t *flowTable) find(p *link.Flow) *flow {
	if p == &t.reply.Flow {
		return &t.reply
	}
	if p == nil || uint(p.Handle) >= uint(len(t.flows)) {
		return nil
	}
	f := t.flows[p.Handle]
	if f == nil || &f.Flow != p || f.uses == 0 {
		return nil
	}
	return f
}

// close removes a user of a flow. It returns a socket to close if more than keep flows have no
// users.
func (t *flowTable) close(p *link.Flow) *endpoint {
	f := t.find(p)
	if f == nil {
		return nil
	}
	if f.uses--; f.uses > 0 {
		return nil
	}
	if f.own {
		if t.idle = append(t.idle, f); len(t.idle) <= min(t.keep, t.limit/2) {
			t.kept.Store(true)
			return nil
		}
		f = t.idle[0]
		t.idle = slices.Delete(t.idle, 0, 1)
	}
	t.forget(f)
	t.flows[f.Handle] = nil
	if !f.own {
		return nil
	}
	t.sockets--
	return f.end
}

// each calls do for every socket that belongs to a flow.
func (t *flowTable) each(do func(*endpoint)) {
	for _, f := range t.flows {
		if f != nil && f.own {
			do(f.end)
		}
	}
}

// trim forgets the flows without users, and returns their sockets to close.
func (t *flowTable) trim() (ends []*endpoint) {
	for _, f := range t.idle {
		t.forget(f)
		t.flows[f.Handle] = nil
		t.sockets--
		ends = append(ends, f.end)
	}
	t.idle = nil
	t.kept.Store(false)
	return ends
}

func newFlowTable(limit, keep int) flowTable {
	return flowTable{limit: limit, keep: keep, byKey: make(map[flowKey]*flow)}
}

// sendError makes the error of a batch.
func (f *flow) sendError(tx *link.Tx, err error, earlier bool) error {
	return &SendError{Src: f.Src, Dst: f.Dst, Bytes: tx.Bytes, Size: tx.Size, Earlier: earlier, Err: err}
}

func errNoFlow(p *link.Flow) error {
	if p == nil {
		return fmt.Errorf("send: %w: none given", ErrFlow)
	}
	return fmt.Errorf("send on flow %d: %w", p.Handle, ErrFlow)
}
