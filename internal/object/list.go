package object

import (
	"cmp"
	"net/netip"
	"slices"
)

// A List describes the objects of a device at one moment, for tools that show them. Numbers are
// unique among the objects of a kind on a device.
type List struct {
	Contexts []Context `json:"contexts"`
	PDs      []PD      `json:"pds"`
	CQs      []CQ      `json:"cqs"`
	SRQs     []SRQ     `json:"srqs"`
	QPs      []QP      `json:"qps"`
	MRs      []Region  `json:"mrs"`
	IDs      []ID      `json:"cm_ids"`
	Counts   Counts    `json:"counts"`
}

// An Owner is the process that has made an object, and the number of its context if it uses the
// device by a device file.
type Owner struct {
	PID     int    `json:"pid,omitempty"`
	Context uint32 `json:"ctxn,omitempty"`
}

// A Context describes an open device file. Its number is Owner.Context.
type Context struct{ Owner }

// A PD describes a protection domain.
type PD struct {
	Owner
	Number uint32 `json:"pdn"`
	Users  int    `json:"users"` // objects in the domain
}

// A CQ describes a completion queue.
type CQ struct {
	Owner
	Number     uint32 `json:"cqn"`
	Depth      int    `json:"depth"`
	Entries    int    `json:"entries"` // completions that were not polled
	Users      int    `json:"users"`   // queue pairs
	Overflowed bool   `json:"overflowed,omitempty"`
}

// An SRQ describes a shared receive queue.
type SRQ struct {
	Owner
	Number uint32 `json:"srqn"`
	PD     uint32 `json:"pdn"`
	Posted int    `json:"posted"` // receives that no message has taken
	Users  int    `json:"users"`  // queue pairs
}

// A QP describes a queue pair.
type QP struct {
	Owner
	Number   uint32 `json:"qpn"`
	Type     string `json:"type"`
	State    string `json:"state"`
	PD       uint32 `json:"pdn"`
	SendCQ   uint32 `json:"send_cqn"`
	RecvCQ   uint32 `json:"recv_cqn"`
	SRQ      uint32 `json:"srqn,omitempty"`
	Peer     string `json:"peer,omitempty"` // address of the connection's peer
	PeerQP   uint32 `json:"peer_qpn,omitempty"`
	PathMTU  int    `json:"path_mtu,omitempty"` // bytes
	SQPSN    uint32 `json:"sq_psn"`
	RQPSN    uint32 `json:"rq_psn"`
	Sends    int    `json:"sends"`          // requests that are not complete
	Receives int    `json:"receives"`       // of its own receive queue
	Received uint64 `json:"received_bytes"` // of payload since it was made, repeated packets left out

	Measured *Measurements `json:"measured,omitempty"` // nil unless it is a reliable connection that has had a packet
}

// A Region describes a memory region or window.
type Region struct {
	Owner
	Number uint32 `json:"mrn"`
	Kind   string `json:"kind"` // mr or mw
	Key    uint32 `json:"key"`
	PD     uint32 `json:"pdn"`
	Base   uint64 `json:"address"`
	Length uint64 `json:"length"`
	Access string `json:"access"`
}

// An ID describes an identifier of the connection manager (rdma_cm_id).
type ID struct {
	Owner
	Number    uint32         `json:"cm_idn"`
	QP        uint32         `json:"qpn,omitempty"`
	Type      string         `json:"type"`  // of the queue pair
	State     string         `json:"state"` // as the kernel names it (rdma_cm_state)
	PortSpace string         `json:"port_space"`
	Bound     bool           `json:"bound"` // to the device, not to any
	Source    netip.AddrPort `json:"source"`
	Peer      netip.AddrPort `json:"peer"`
}

// Owners calls f for the owner of each object.
func (l *List) Owners(f func(*Owner)) {
	for i := range l.Contexts {
		f(&l.Contexts[i].Owner)
	}
	for i := range l.PDs {
		f(&l.PDs[i].Owner)
	}
	for i := range l.CQs {
		f(&l.CQs[i].Owner)
	}
	for i := range l.SRQs {
		f(&l.SRQs[i].Owner)
	}
	for i := range l.QPs {
		f(&l.QPs[i].Owner)
	}
	for i := range l.MRs {
		f(&l.MRs[i].Owner)
	}
	for i := range l.IDs {
		f(&l.IDs[i].Owner)
	}
}

// Sort puts the objects of each kind in the order of their numbers.
func (l *List) Sort() {
	slices.SortFunc(l.Contexts, func(a, b Context) int { return cmp.Compare(a.Context, b.Context) })
	slices.SortFunc(l.PDs, func(a, b PD) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(l.CQs, func(a, b CQ) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(l.SRQs, func(a, b SRQ) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(l.QPs, func(a, b QP) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(l.MRs, func(a, b Region) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(l.IDs, func(a, b ID) int { return cmp.Compare(a.Number, b.Number) })
}

// Add adds the objects of another list of the same device, but not its ids.
func (l *List) Add(x List) {
	l.PDs, l.CQs, l.SRQs = append(l.PDs, x.PDs...), append(l.CQs, x.CQs...), append(l.SRQs, x.SRQs...)
	l.QPs, l.MRs = append(l.QPs, x.QPs...), append(l.MRs, x.MRs...)
}

// Renumber gives the objects of a share of a device's address numbers that those of other shares do not
// have. Queue pairs and keys have such numbers anyway.
func (l *List) Renumber(share uint32) {
	const domains, regions = 20, 24 // bits of a share's own numbers
	number := func(n *uint32) {
		if *n != 0 { // 0 stands for no object
			*n |= share << domains
		}
	}
	for i := range l.PDs {
		number(&l.PDs[i].Number)
	}
	for i := range l.CQs {
		number(&l.CQs[i].Number)
	}
	for i := range l.SRQs {
		number(&l.SRQs[i].Number)
		number(&l.SRQs[i].PD)
	}
	for i := range l.QPs {
		x := &l.QPs[i]
		for _, n := range []*uint32{&x.PD, &x.SendCQ, &x.RecvCQ, &x.SRQ} {
			number(n)
		}
	}
	for i := range l.MRs {
		number(&l.MRs[i].PD)
		l.MRs[i].Number |= share << regions
	}
}
