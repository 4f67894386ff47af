package adapter

import (
	"net/netip"

	"softrdma/internal/adapter/gsi"
	"softrdma/internal/adapter/schedule"
	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/qp"
)

// A txFlow is an open flow with the queue pairs that are to send on it: packets of all
// of them leave in one batch.
type txFlow struct {
	*frame.Flow
	key  flowKey
	uses int  // connections
	used bool // by a datagram since the last sweep

	group schedule.Group // of the connections

	routes  []route // by lane of the peer's address; nil where none was needed yet
	offline bool    // no network leads to the peer
}

// A flowKey is what the packets of a flow have in common. A peer whose endpoint has as many
// lanes as this device's gets the packets of each by themselves, as a batch comes to one.
type flowKey struct {
	frame.Key
	lane int
}

// maxDatagramFlows bounds the flows kept open for datagrams.
const maxDatagramFlows = 256

// resolve names a path's destination as packets do, which machines compare it with. It looks
// for a path through memory to it, and for its link-layer address, where the network has such.
// The caller has no lane: the network may be slow to answer.
func (d *Device) resolve(path *qp.Path, remote uint32) error {
	path.Dst = qp.OnWire(path.Dst)
	if err := d.Prepare(path.Dst, remote); err != nil {
		return err
	}
	l := d.lanes[0]
	if l.can.Resolver == nil {
		return nil
	}
	l.Lock()
	found := l.inMemory(path, remote)
	l.Unlock()
	if found { // perhaps nobody answers in the network
		return nil
	}
	return l.can.Resolver.Resolve(path)
}

// inMemory reports whether a path through memory leads to the peer, or will once it is used.
func (l *lane) inMemory(path *qp.Path, remote uint32) bool {
	dst := l.net.Key(path, 0, remote).Dst
	s := l.host.Share(dst)
	return l.host.Find(dst, remote) != nil || s.Of > s.Lanes
}

// memoryFlow returns a flow to a peer that memory leads to and no network.
func (l *lane) memoryFlow(path *qp.Path) *frame.Flow {
	if o := l.can.Offline; o != nil {
		return o.Offline(path)
	}
	local := netip.AddrPortFrom(l.net.Local().Addr(), uint16(l.dev.cfg.Random()|1))
	return &frame.Flow{Local: qp.OnWire(local), Peer: path.Dst}
}

// GroupGID returns the GID of an IP multicast group, as an address.
func (d *Device) GroupGID(ip netip.Addr) netip.Addr {
	if l := d.lanes[0]; l.net != nil {
		return l.net.GroupGID(ip)
	}
	return ip
}

// openFlow returns the flow of packets from one queue pair to another.
func (l *lane) openFlow(path *qp.Path, local, remote uint32) (*txFlow, error) {
	key := flowKey{l.net.Key(path, local, remote), frame.LaneOf(remote, l.dev.cfg.Share.Of)}
	if f := l.flows[key]; f != nil {
		return f, nil
	}
	l.trimFlows()
	t := &txFlow{key: key}
	f, err := l.net.Open(path, l.dev.cfg.Random())
	switch {
	case err == nil:
		t.Flow = f
	case l.inMemory(path, remote):
		t.Flow, t.offline = l.memoryFlow(path), true
	default:
		return nil, err
	}
	l.layOut(t)
	l.flows[key] = t
	return t, nil
}

// replyFlow returns the flow of one answer to a peer whose address may be forged. A flow
// of its own would cost a socket for each address.
func (l *lane) replyFlow(path *qp.Path, _, remote uint32) (*txFlow, error) {
	if l.network.flow == &l.reply {
		l.network.flush()
	}
	f, err := l.net.Reply(path)
	switch {
	case err == nil:
		l.reply = txFlow{Flow: f}
	case l.inMemory(path, remote):
		l.reply = txFlow{Flow: l.memoryFlow(path), offline: true}
	default:
		return nil, err
	}
	l.layOut(&l.reply)
	return &l.reply, nil
}

// trimFlows closes flows that were opened for datagrams, if there are many.
func (l *lane) trimFlows() {
	n := 0
	for _, f := range l.flows {
		if f.uses == 0 {
			n++
		}
	}
	if n < maxDatagramFlows {
		return
	}
	for _, f := range l.flows {
		l.closeFlow(f)
	}
}

// shareLimit is what may be in flight to one peer, in bytes: three quarters of what a
// socket like the lane's holds, because others send to the peer as well.
func (l *lane) shareLimit() int64 {
	return int64(max(l.network.caps.ReceiveBuffer*3/4/len(l.dev.lanes), l.dev.cfg.Window))
}

// closeFlow closes a flow that no connection uses.
func (l *lane) closeFlow(f *txFlow) {
	if f.uses > 0 {
		return
	}
	l.network.flush()
	if !f.offline {
		l.net.Close(f.Flow)
	}
	delete(l.flows, f.key)
}

// flowOf returns the flow for a packet of q: the connection's own, or for datagrams that
// of their destination. It returns nil if there can be none.
func (l *lane) flowOf(q *QP, path *qp.Path, remote uint32) *txFlow {
	if q.flow != nil {
		return q.flow
	}
	if path == nil {
		return nil
	}
	open := l.openFlow
	if q == l.gsi && q.m.(*gsi.GSI).Replies() {
		open = l.replyFlow
	}
	f, err := open(path, q.QPN, remote)
	if err != nil {
		l.dev.Trace.Refuse(q.QPN, link.SendDetail(err, 0))
		return nil
	}
	if f.uses == 0 && f != &l.reply {
		l.sweeper.use(f)
	}
	return f
}
