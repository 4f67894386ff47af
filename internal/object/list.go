package object

// A List describes the objects of a device at one moment, for tools that show them.
type List struct {
	PDs    []PD     `json:"pds"`
	CQs    []CQ     `json:"cqs"`
	SRQs   []SRQ    `json:"srqs"`
	QPs    []QP     `json:"qps"`
	MRs    []Region `json:"mrs"`
	Counts Counts   `json:"counts"`
}

// A PD describes a protection domain.
type PD struct {
	Number uint32 `json:"pdn"`
	Users  int    `json:"users"` // objects in the domain
}

// A CQ describes a completion queue.
type CQ struct {
	Number     uint32 `json:"cqn"`
	Depth      int    `json:"depth"`
	Entries    int    `json:"entries"` // completions that were not polled
	Users      int    `json:"users"`   // queue pairs
	Overflowed bool   `json:"overflowed,omitempty"`
}

// An SRQ describes a shared receive queue.
type SRQ struct {
	Number uint32 `json:"srqn"`
	PD     uint32 `json:"pdn"`
	Posted int    `json:"posted"` // receives that no message has taken
	Users  int    `json:"users"`  // queue pairs
}

// A QP describes a queue pair.
type QP struct {
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
	Sends    int    `json:"sends"`    // requests that are not complete
	Receives int    `json:"receives"` // of its own receive queue
}

// A Region describes a memory region or window.
type Region struct {
	Kind   string `json:"kind"` // mr or mw
	Key    uint32 `json:"key"`
	PD     uint32 `json:"pdn"`
	Base   uint64 `json:"address"`
	Length uint64 `json:"length"`
	Access string `json:"access"`
}
