package adapter

import (
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/object"
	"softrdma/internal/qp"
)

// A numbered has the objects of one kind, which it numbers from 1. The device's mutex guards it. The
// zero value is empty.
type numbered[T comparable] struct {
	last uint32
	all  map[T]uint32
}

func (n *numbered[T]) add(x T) {
	if n.all == nil {
		n.all = make(map[T]uint32)
	}
	n.last++
	n.all[x] = n.last
}

// inventory is the device's objects that no lane and no table of keys has.
type inventory struct {
	pds  map[*PD]struct{}
	cqs  numbered[*CQ]
	srqs numbered[*SRQ]
}

// ObjectsOf describes the objects of a device, in the order of their numbers.
func ObjectsOf(d *Device) object.List {
	l := object.List{
		Contexts: []object.Context{}, PDs: []object.PD{}, CQs: []object.CQ{}, SRQs: []object.SRQ{}, // none are [] in JSON
		QPs: []object.QP{}, MRs: []object.Region{}, IDs: []object.ID{}, Counts: d.Count(),
	}
	d.mu.Lock()
	cqs, srqs, owners := make(map[*CQ]uint32), make(map[*SRQ]uint32), make(map[uint32]object.Owner)
	for p := range d.inventory.pds {
		owners[p.ID] = p.owner
		l.PDs = append(l.PDs, object.PD{Owner: p.owner, Number: p.ID, Users: p.uses.Count()})
	}
	for c, n := range d.inventory.cqs.all {
		cqs[c] = n
		c.mu.Lock() // keeps the ring, which may be in memory of another process
		r := c.ring.Load()
		l.CQs = append(l.CQs, object.CQ{
			Owner: c.owner, Number: n, Depth: r.Depth(), Entries: r.Len(), Users: c.uses.Count(), Overflowed: c.overflowed.Load(),
		})
		c.mu.Unlock()
	}
	for s, n := range d.inventory.srqs.all {
		srqs[s] = n
		s.mu.Lock()
		l.SRQs = append(l.SRQs, object.SRQ{Owner: s.pd.owner, Number: n, PD: s.pd.ID, Posted: s.ring.Load().Len(), Users: s.uses.Count()})
		s.mu.Unlock()
	}
	d.mu.Unlock()
	d.locked(func(lane *lane) {
		for _, q := range lane.qps {
			o := q.described()
			o.SendCQ, o.RecvCQ, o.SRQ = cqs[q.sendCQ], cqs[q.recvCQ], srqs[q.srq]
			l.QPs = append(l.QPs, o)
		}
	})
	for _, r := range d.Memory.Regions() {
		o := object.Region{Owner: owners[r.PD], Number: r.Index(), Kind: "mr", Key: r.Key, PD: r.PD, Base: r.Base, Length: r.Len(), Access: r.Access.String()}
		if r.Kind != memory.MR {
			o.Kind = "mw"
		}
		l.MRs = append(l.MRs, o)
	}
	l.Sort()
	return l
}

// described returns what the queue pair itself knows. The caller has the lane.
func (q *QP) described() object.QP {
	a := &q.Attr
	o := object.QP{
		Owner: q.pd.owner, Number: q.QPN, Type: q.Type.String(), State: a.State.String(), PD: q.pd.ID, PeerQP: a.DestQPN,
		PathMTU: a.PathMTU, SQPSN: uint32(a.SQPSN), RQPSN: uint32(a.RQPSN), Sends: q.SQ.Len(), Received: q.Received,
	}
	if a.Path.Dst.IsValid() {
		o.Peer = a.Path.Dst.String()
	}
	if q.Recv != nil {
		o.Receives = q.Recv.Len()
	}
	if m, ok := q.m.(machine.Measurer); ok && a.State >= qp.RTR && a.State != qp.Err {
		measured := m.Measure()
		o.Measured = &measured
	}
	return o
}
