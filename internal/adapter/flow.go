package adapter

import (
	"net/netip"

	"softrdma/internal/adapter/gsi"
	"softrdma/internal/adapter/schedule"
	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/qp"
	"softrdma/internal/steering"
)

// A txFlow is an open flow with the queue pairs that are to send on it: packets of all
// of them leave in one batch.
type txFlow struct {
	*frame.Flow
	key  flowKey
	uses int  // connections
	used bool // by a datagram since the last sweep

	group schedule.Group // of the connections

	routes  []route // by lane of the peer's address; nil if none was needed yet
	offline bool    // no network leads to the peer

	fragments fragments
}

// A flowKey is what the packets of a flow have in common. A peer whose endpoint has as many
// lanes as this device's gets the packets of each by themselves, as a batch comes to one.
type flowKey struct {
	frame.Key
	lane int
}

// A flowTable has a lane's open flows and their routes.
type flowTable struct {
	lane    *packetLane
	open    map[flowKey]*txFlow
	reply   txFlow // of the answer that is being sent, see forReply
	wired   route  // the network, with the trace in front of it if there is one
	seen    uint32 // changes of the loopback when routes were chosen last
	sweeper sweeper
}

func (t *flowTable) init(l *packetLane) {
	t.lane, t.open, t.wired = l, make(map[flowKey]*txFlow), &l.network
	t.sweeper.init(l)
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
	if err := d.Introduce(path.Dst, false); err != nil {
		return err
	}
	if d.IWARP() || d.packets[0].can.Resolver == nil {
		return nil
	}
	l := d.packets[0]
	l.Lock()
	found := l.flows.inMemory(path, remote)
	l.Unlock()
	if found { // perhaps no host answers in the network
		return nil
	}
	return l.can.Resolver.Resolve(path)
}

// Introduce agrees on keys with a peer that a path is about to lead to, on a device that encrypts. With prove the
// peer has to prove that it has the address. The caller has no lane, as this takes a while.
func (d *Device) Introduce(peer qp.Endpoint, prove bool) error {
	if d.IWARP() || d.packets[0].network.caps.Introducer == nil {
		return nil
	}
	return d.packets[0].network.caps.Introducer.Introduce(peer, prove)
}

// Translation returns what is known of an address translator on the path to a peer, as its packets name it.
func Translation(d *Device, peer qp.Endpoint) link.Translation {
	if d.IWARP() || d.packets[0].network.caps.Translator == nil {
		return link.Translation{}
	}
	return d.packets[0].network.caps.Translator.Translation(peer)
}

// Overhead returns how many bytes the network of a device adds to each packet, besides the headers of its protocol.
func Overhead(d *Device) int {
	if d.IWARP() {
		return 0
	}
	return d.packets[0].network.caps.Overhead
}

// GroupGID returns the GID of an IP multicast group, as an address.
func (d *Device) GroupGID(ip netip.Addr) netip.Addr {
	if d.IWARP() {
		return ip
	}
	return d.packets[0].net.GroupGID(ip)
}

// inMemory reports whether a path through memory leads to the peer, or will once it is used.
func (t *flowTable) inMemory(path *qp.Path, remote uint32) bool {
	l := t.lane
	dst := l.net.Key(path, 0, remote).Dst
	s := l.host.Share(dst)
	return l.host.Find(dst, remote) != nil || s.Of > s.Lanes
}

// offline returns a flow to a peer that memory leads to and no network.
func (t *flowTable) offline(path *qp.Path) *frame.Flow {
	l := t.lane
	if o := l.can.Offline; o != nil {
		return o.Offline(path)
	}
	local := netip.AddrPortFrom(l.net.Local().Addr(), uint16(l.dev.cfg.Random()|1))
	return &frame.Flow{Local: qp.OnWire(local), Peer: path.Dst}
}

// get returns the flow of packets from one queue pair to another, and opens it if needed.
func (t *flowTable) get(path *qp.Path, local, remote uint32) (*txFlow, error) {
	l := t.lane
	key := flowKey{l.net.Key(path, local, remote), steering.LaneOf(remote, l.dev.share.Of)}
	if f := t.open[key]; f != nil {
		return f, nil
	}
	t.trim()
	f := &txFlow{key: key}
	n, err := l.net.Open(path, l.dev.cfg.Random())
	switch {
	case err == nil:
		f.Flow = n
	case t.inMemory(path, remote):
		f.Flow, f.offline = t.offline(path), true
	default:
		return nil, err
	}
	t.layOut(f)
	t.open[key] = f
	return f, nil
}

// forReply returns the flow of one answer to a peer whose address may be forged. A flow
// of its own would cost a socket for each address.
func (t *flowTable) forReply(path *qp.Path, remote uint32) (*txFlow, error) {
	l := t.lane
	if l.network.flow == &t.reply {
		l.network.flush()
	}
	f, err := l.net.Reply(path)
	switch {
	case err == nil:
		t.reply = txFlow{Flow: f}
	case t.inMemory(path, remote):
		t.reply = txFlow{Flow: t.offline(path), offline: true}
	default:
		return nil, err
	}
	t.layOut(&t.reply)
	return &t.reply, nil
}

// trim closes flows that were opened for datagrams, if there are many.
func (t *flowTable) trim() {
	n := 0
	for _, f := range t.open {
		if f.uses == 0 {
			n++
		}
	}
	if n < maxDatagramFlows {
		return
	}
	for _, f := range t.open {
		t.close(f)
	}
}

// close closes a flow that no connection uses.
func (t *flowTable) close(f *txFlow) {
	if f.uses > 0 {
		return
	}
	t.lane.network.flush()
	t.lane.faults.forget(f)
	if !f.offline {
		t.setMode(f, link.Unfragmented) // the link may keep the socket for others
		t.lane.net.Close(f.Flow)
	}
	delete(t.open, f.key)
}

// closeAll closes all flows, with the lane.
func (t *flowTable) closeAll() {
	t.lane.faults.forget(nil)
	for _, f := range t.open {
		if !f.offline {
			t.lane.net.Close(f.Flow)
		}
	}
	clear(t.open)
}

// of returns the flow for a packet of q: the connection's own, or for datagrams that
// of their destination. It returns nil if there can be none.
func (t *flowTable) of(q *QP, path *qp.Path, remote uint32) (f *txFlow) {
	if q.flow != nil {
		return q.flow
	}
	if path == nil {
		return nil
	}
	l, err := t.lane, error(nil)
	if q == l.gsi && q.m.(*gsi.GSI).Replies() {
		f, err = t.forReply(path, remote)
	} else {
		f, err = t.get(path, q.QPN, remote)
	}
	if err != nil {
		l.dev.Trace.Refuse(q.QPN, link.SendDetail(err, 0))
		return nil
	}
	if f.uses == 0 && f != &t.reply {
		t.sweeper.use(f)
	}
	return f
}

// shareLimit is what may be in flight to one peer, in bytes: three quarters of what a
// socket like the lane's holds, because others send to the peer as well.
func (t *flowTable) shareLimit() int64 {
	l := t.lane
	return int64(max(l.network.caps.ReceiveBuffer*3/4/len(l.dev.lanes), l.dev.cfg.Window))
}
