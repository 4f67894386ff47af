package adapter

import (
	"math/bits"
	"net/netip"

	"softrdma/internal/adapter/schedule"
	"softrdma/internal/link"
	"softrdma/internal/qp"
	"softrdma/internal/wire/ib"
)

// A txFlow is an open flow with its pseudo-header and the queue pairs that are
// to send on it: packets of all of them leave in one batch.
type txFlow struct {
	flow *link.Flow
	head ib.PseudoHeader
	key  flowKey
	uses int // connections

	group schedule.Group // of the connections

	peer    *Device // in this process, when the loopback had seen so many
	changes uint32
}

// A flowKey is what the packets of a flow have in common.
type flowKey struct {
	dst  netip.AddrPort
	slot uint32
}

// flowSpread is over how many flows the packets to one peer are spread, so that
// they find several paths through the network. More would take batches apart:
// each is of one flow.
const flowSpread = 4

// maxDatagramFlows bounds the flows kept open for datagrams.
const maxDatagramFlows = 256

// flowLabel is the hash that assigns packets to one of the flows to their peer: the
// address's own flow label or, without one, the queue pair numbers, as Linux does it
// (rdma_calc_flow_label).
func flowLabel(path *qp.Path, local, remote uint32) uint32 {
	v := uint64(path.FlowLabel)
	if v == 0 {
		v = uint64(local) * uint64(remote)
		v ^= v >> 20
		v ^= v >> 40
	}
	return uint32(v) & 0xfffff
}

// flowKey folds a flow label. Packets that stay on this host have one path. A
// peer with as many lanes as this device gets the packets of each by
// themselves, as a batch comes to one lane.
func (l *lane) flowKey(dst netip.AddrPort, label, remote uint32) flowKey {
	slot := uint32(0)
	if a := dst.Addr(); !a.IsLoopback() && a.WithZone("") != l.link.Local().Addr().WithZone("") {
		slot = label * 0x9e3779b1 >> (32 - bits.Len(flowSpread-1)) // Fibonacci hashing
	}
	lanes := len(l.dev.lanes)
	return flowKey{dst, slot*uint32(lanes) + uint32(link.LaneOf(remote, lanes))}
}

// openFlow gives the flow of packets from one queue pair to another.
func (l *lane) openFlow(path *qp.Path, local, remote uint32) (*txFlow, error) {
	label := flowLabel(path, local, remote)
	key := l.flowKey(path.Dst, label, remote)
	if f := l.flows[key]; f != nil {
		return f, nil
	}
	l.trimFlows()
	// The port is random: an attacker who sees no packet of a connection has to guess
	// it (docs/security.md). A label may come from a peer's connect request, even a
	// forged one.
	f, err := l.link.OpenFlow(path.Dst, l.dev.random32())
	if err != nil {
		return nil, err
	}
	t := &txFlow{flow: f, head: ib.NewPseudoHeader(f.Src, f.Dst), key: key}
	l.flows[key] = t
	return t, nil
}

// replyFlow gives the flow of one answer to a peer that may have been forged. A
// flow of its own would be a socket for each of them.
func (l *lane) replyFlow(path *qp.Path, _, _ uint32) (*txFlow, error) {
	if l.tx.flow == &l.reply {
		l.tx.flush()
	}
	f, err := l.link.Reply(path.Dst)
	if err != nil {
		return nil, err
	}
	l.reply = txFlow{flow: f, head: ib.NewPseudoHeader(f.Src, f.Dst)}
	return &l.reply, nil
}

// trimFlows closes those that were opened for datagrams when they are many.
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

// closeFlow closes a flow that no connection uses.
func (l *lane) closeFlow(f *txFlow) {
	if f.uses > 0 {
		return
	}
	l.tx.flush()
	l.link.CloseFlow(f.flow)
	delete(l.flows, f.key)
}

// flowOf is the flow that a packet of q leaves on: the connection's own, or for
// datagrams that of their destination. It is nil where none can be had.
func (l *lane) flowOf(q *QP, path *qp.Path, remote uint32) *txFlow {
	if q.flow != nil {
		return q.flow
	}
	if path == nil {
		return nil
	}
	open := l.openFlow
	if q == l.gsi && q.m.(*gsi).out.Reply {
		open = l.replyFlow
	}
	f, err := open(path, q.QPN, remote)
	if err != nil {
		l.dev.Trace.Refuse(q.QPN, sendDetail(err, 0))
		return nil
	}
	return f
}
