package adapter

import (
	"errors"
	"net/netip"
	"time"

	"softrdma/internal/adapter/hostpath"
	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

// The memory path of one host: packets to peers of other processes go through rings that
// both have mapped, as those to devices of this process are handed over (loopback.go).
// The network stays open beside it: when a channel is attached or detached, packets take the
// other path, and the machines' retransmission covers what was lost in between.

// HostBell makes the bell by which a peer on this host wakes a lane.
func (d *Device) HostBell(lane int, owner any) (*hostmem.Bell, error) {
	if b := d.lanes[lane].host.Bells; b != nil {
		return b.Add(owner)
	}
	return nil, errors.ErrUnsupported
}

// AttachHost begins to use a channel to a peer on this host.
func (d *Device) AttachHost(c *hostmem.Channel) {
	for _, l := range d.lanes {
		l.Lock()
		l.host.Add(c, l.dev.Trace.On())
		l.Unlock()
		l.link.Wake() // the peer may have sent before Add armed the rings of a sleeping lane
	}
}

// DetachHost ends the use of a channel. When it returns no lane touches the channel's memory.
func (d *Device) DetachHost(c *hostmem.Channel) {
	d.locked(func(l *lane) {
		l.host.Drain(c)
		l.endRun()
		l.settle() // acknowledges what came
		l.host.Remove(c)
		l.endRun()
	})
}

// ShowPackets tells peers on this host whether a trace of the device wants to see packets
// as they would be on a network.
func (d *Device) ShowPackets() { d.locked(func(l *lane) { l.host.ShowPackets(d.Trace.On()) }) }

// Prepare looks for a path through memory to the peer of a queue pair that a path is about to
// lead to. It returns an error only if there has to be one (Config.Reach).
func (d *Device) Prepare(peer qp.Endpoint, qpn uint32) error {
	net := d.lanes[0].net
	if d.cfg.Reach == nil || net == nil {
		return nil
	}
	return d.cfg.Reach(net.Key(&qp.Path{Dst: peer}, 0, 0).Dst, qpn) // as the network names it
}

// initHost prepares the memory path of a lane of packets, and returns what the lane waits
// on.
func (l *lane) initHost(w link.Waiter) link.Waiter {
	if l.net == nil {
		l.host.Init(l.index, hostpath.Config{})
		return w
	}
	l.host.Init(l.index, hostpath.Config{
		Port: (*hostPort)(l), Tasks: &l.tasks, Segments: &l.dev.Memory.Segments, Local: qp.OnWire(l.net.Local()), Clock: l.dev.clock,
	})
	if l.dev.cfg.HostBells {
		return l.host.Watch(w)
	}
	return w
}

// closeHost closes the bells. The link that watched them is closed.
func (l *lane) closeHost() {
	if b := l.host.Bells; b != nil {
		b.Close()
	}
}

// hostSender returns the sender of packets through memory to a queue pair, nil if packets on
// the flow take the network.
func (l *lane) hostSender(f *txFlow, qpn uint32) *hostpath.Sender {
	if qpn == multicastQPN {
		return nil
	}
	if n := l.host.Changes(); n != f.hostChanges {
		f.hostChanges, f.host, f.hostLanes = n, l.host.Find(f.Peer, qpn), l.host.Sharing(f.Peer)
	}
	if f.hostLanes > 0 && (f.host == nil || f.host.To(qpn) == nil) { // of another device there
		f.host = l.host.Find(f.Peer, qpn)
	}
	if f.host == nil {
		return nil
	}
	return f.host.To(qpn)
}

// changesPath reports whether the peer of a connection has begun to use another path, by which
// a packet came: memory or the network. While memory leads to a peer that uses it, whatever
// comes from the network is somebody else's.
func (l *lane) changesPath(q *QP) bool {
	if l.in.Memory {
		q.inMemory = qp.OnWire(l.in.Src).Addr() == qp.OnWire(q.Attr.Path.Dst).Addr()
		return true
	}
	q.inMemory = l.dev.cfg.MemoryOnly || q.flow != nil && (l.localLane(q.flow, q.Attr.DestQPN) != nil || q.hostPath() != nil)
	return !q.inMemory
}

// hostPath returns the sender of a connection's packets through memory, nil if there is none.
func (q *QP) hostPath() *hostpath.Sender {
	if q.flow == nil {
		return nil
	}
	return q.lane.hostSender(q.flow, q.Attr.DestQPN)
}

// revoke takes back the references to the connection's memory, which the program may use
// again now.
func (q *QP) revoke() {
	if q.flow != nil && q.transport.Acknowledged {
		q.lane.host.RevokePeer(q.flow.Peer, q.Attr.DestQPN)
	}
}

// post hands a packet of q to a peer on this host.
func (l *lane) post(s *hostpath.Sender, q *QP, f *txFlow, o *machine.Out, class frame.Class) {
	if l.tx.flow == f {
		l.tx.flush() // what was added before leaves before
	}
	x := &l.item
	x.Head = hostmem.Head{TrafficClass: class.TrafficClass, HopLimit: class.HopLimit, Port: f.Local.Port(), Train: uint16(o.Train)}
	if traced := l.dev.Trace.On(); o.Train <= 1 && (traced || s.WantICRC()) {
		l.postWhole(s, q, f, o, class, traced)
		return
	}
	x.Header, x.Pieces, x.Len, x.Stable = l.headers[:o.PutHeaders(l.headers[:])], o.Pieces, o.Len, q.transport.Acknowledged
	x.Region = o.Region
	posted := s.Post(x)
	x.Pieces, x.Region = nil, nil
	if posted && o.Train == 1 {
		l.posted = s
	}
	if !posted {
		for i := range o.Train {
			l.post(s, q, f, l.partOf(q, o, i), class)
		}
		clear(l.part.Pieces)
	}
}

// add adds l.out to what is sent, and up to most short messages of q that follow it through
// memory. It returns how many packets those are.
func (l *lane) add(now time.Duration, q *QP, f *txFlow, most int) int {
	n := l.tx.add(q, f, &l.out)
	if q.follower == nil || l.posted == nil {
		return n
	}
	x, o := &l.item, &l.out
	like := (*ib.WriteHeader)(l.headers[:]) // follow does not use other opcodes
	for n < most && l.posted.Admit(now, &q.entry) && q.follower.Follow(now, o) {
		o.Pad = ib.PadLen(o.Len)
		l.traffic.Sent += uint64(o.Len)
		if b := l.posted.Slot(len(like) + o.Len); b != nil {
			o.PutWrite((*ib.WriteHeader)(b), like)
			copy(b[len(like):], o.Pieces[0])
			l.posted.Append(&x.Head, len(like), o.Len)
		} else {
			o.PutWrite((*ib.WriteHeader)(l.headers[:]), like)
			x.Pieces, x.Len = o.Pieces, o.Len
			l.posted.Post(x)
		}
		n++
	}
	l.posted.End()
	x.Pieces = nil
	return n
}

// pathGone drops a packet to a peer that only memory led to.
func (l *lane) pathGone(q *QP, h *ib.BTH) {
	q.sendError = reason.Detail{Reason: reason.HostClosed}
	if !q.transport.Acknowledged {
		l.dev.Trace.Refuse(q.QPN, q.sendError)
	}
	if m, ok := q.m.(machine.UnreachableHandler); ok && m.Unreachable(l.dev.clock(), h, q.sendError) {
		l.tasks.Set(&q.entry, q.deadline())
	}
}

// postWhole hands over a packet as it would be on a network, for a trace.
func (l *lane) postWhole(s *hostpath.Sender, q *QP, f *txFlow, o *machine.Out, class frame.Class, traced bool) {
	l.tx.flush() // frees the arena
	b := l.tx.Build(f.Flow, o, true)
	if f.Class != class {
		l.net.Classify(f.Flow, class)
	}
	x := &l.item
	x.Kind, x.Header, x.Len, x.Stable = hostmem.Packet, f.Header(len(b)), len(b), false
	l.one[0] = b
	x.Pieces = l.one[:]
	if traced {
		e := trace.Event{Kind: trace.Sent, Time: time.Now(), QPN: q.QPN, Packet: f.traced(class)}
		e.Packet.Header, e.Packet.Pieces = x.Header, x.Pieces
		l.dev.Trace.Emit(&e)
	}
	s.Post(x)
	l.one[0], x.Pieces = nil, nil
}

// A hostPort is a lane as the memory path sees it.
type hostPort lane

// Message implements hostpath.Port.
func (h *hostPort) Message(now time.Duration, p *hostpath.Path, m *hostmem.Received, payload []byte) {
	l := (*lane)(h)
	fault := l.in.ParseParts(m.Header, payload)
	if fault == ib.OK && l.run.Continue(now, p, &l.in, m) {
		l.traffic.Continued(&l.in)
		return
	}
	l.fromHost(p, m)
	if fault == ib.OK && l.dev.laneOf(l.in.DestQPN) != l {
		l.drop(nil, l.in.DestQPN, reason.PacketQPN, uint64(len(l.qps)), uint64(l.in.DestQPN))
		return
	}
	if m.Train > 1 && fault == ib.OK && l.in.Opcode.Transport() == ib.RC && l.in.Opcode.Info().Payload {
		l.in.Train = int(m.Train)
	}
	if m.Lent != nil {
		l.in.Lender = m.Lent
	}
	if l.checked(now, fault, nil) {
		if q := l.qps[l.in.DestQPN]; q != nil && q.continuer != nil {
			l.run.Begin(p, q, q.continuer, &l.in, m)
		}
	}
	l.in.Train, l.in.Lender = 0, nil
}

// Lost implements hostpath.Port.
func (h *hostPort) Lost(now time.Duration, p *hostpath.Path, m *hostmem.Received) {
	l := (*lane)(h)
	fault := l.in.ParseHeaders(m.Header)
	l.fromHost(p, m)
	if fault != ib.OK || l.dev.laneOf(l.in.DestQPN) != l {
		return // it was refused when it could not be read
	}
	l.in.Lost, l.in.Train = true, int(m.Train)
	l.checked(now, fault, nil)
	l.in.Lost, l.in.Train = false, 0
}

// Packet implements hostpath.Port.
func (h *hostPort) Packet(now time.Duration, p *hostpath.Path, m *hostmem.Received, header, packet []byte) {
	l := (*lane)(h)
	fault := l.in.Parse(packet)
	l.fromHost(p, m)
	l.from, l.header = nil, header
	if l.dev.Trace.On() {
		l.trace(packet)
	}
	l.checked(now, fault, packet)
	l.header = nil
}

// endRun does once what follows the messages of a run.
func (l *lane) endRun() {
	if q, taken := l.run.End(); taken {
		l.received(q)
	}
}

func (l *lane) fromHost(p *hostpath.Path, m *hostmem.Received) {
	l.endRun()
	l.in.Src, l.in.Dst = netip.AddrPortFrom(p.Peer.Addr(), m.Port), l.host.Local
	l.in.TOS, l.in.TTL, l.in.Memory = m.TrafficClass, m.HopLimit, true
}

// Refused implements hostpath.Port.
func (h *hostPort) Refused(why reason.Detail) { h.dev.Trace.Refuse(0, why) }

// Revoked implements hostpath.Port.
func (h *hostPort) Revoked(p *hostpath.Path) {
	for _, q := range h.qps {
		if r, ok := q.m.(machine.Revoker); ok && q.flow != nil && qp.OnWire(q.flow.Peer) == p.Peer {
			r.Revoked()
		}
	}
}

// Broken implements hostpath.Port.
func (h *hostPort) Broken(p *hostpath.Path, _ reason.Detail) { go p.Far.Close() }
