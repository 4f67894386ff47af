// Package rig sets up devices on a simulated network and does the plain posting and polling of
// a driver, for tests that need the channel adapter without the verbs above it. It owns
// nothing: the caller owns what it opens. It is not part of the product; only tests import it.
package rig

import (
	"fmt"
	"net/netip"

	"softrdma/internal/adapter"
	"softrdma/internal/frame/rocev1"
	"softrdma/internal/frame/rocev2"
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/object"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/simnet"
	"softrdma/internal/steering"
)

// A Host is a device with its link and one protection domain.
type Host struct {
	Net  *simnet.Network
	Link *simnet.Link
	More []*simnet.Link // links of further lanes
	Dev  *adapter.Device
	PD   *adapter.PD
}

// Open attaches a device to the network, which drives it. It sets Networks, Clock, Manual and,
// if it is nil, Random of cfg.
func Open(n *simnet.Network, local netip.AddrPort, lc simnet.LinkConfig, cfg adapter.Config) (*Host, error) {
	return OpenLanes(n, local, lc, cfg, 1)
}

// OpenLanes is Open with n lanes.
func OpenLanes(n *simnet.Network, local netip.AddrPort, lc simnet.LinkConfig, cfg adapter.Config, lanes int) (*Host, error) {
	links := n.AttachLanes(local, lc, lanes)
	h := &Host{Net: n, Link: links[0], More: links[1:]}
	cfg.Networks, cfg.Clock, cfg.Manual = rocev2.Networks(links), n.Clock, true
	if lc.Ethernet {
		var err error
		if cfg.Networks, err = rocev1.Networks(local.Addr(), steering.Whole(len(links)), simnet.Ethernet(links)); err != nil {
			return nil, err
		}
	}
	if cfg.Random == nil {
		a := local.Addr().As16()
		cfg.Random = n.Random(2<<32 | uint64(a[14])<<8 | uint64(a[15])).Uint32
	}
	h.Dev = adapter.Open(cfg)
	pd, err := h.Dev.AllocPD()
	if err != nil {
		return nil, err
	}
	h.PD = pd
	n.Drive(h.Dev)
	return h, nil
}

// Close deallocates the domain and closes the device. The error lists objects that are left.
func (h *Host) Close() error {
	err := h.PD.Dealloc()
	if c := h.Dev.Count(); err == nil && c != (object.Counts{}) {
		err = fmt.Errorf("objects left on %v: %+v", h.Link.Local(), c)
	}
	h.Net.Release(h.Dev)
	if e := h.Dev.Close(); err == nil {
		err = e
	}
	for _, l := range append(h.More, h.Link) {
		if n := l.Flows(); err == nil && n != 0 {
			err = fmt.Errorf("%d flows left open on %v", n, l.Local())
		}
	}
	return err
}

// Options are the attributes of a connection. The zero value suits most tests.
type Options struct {
	MTU          int           // path MTU, 0 means 1024
	PSN          [2]psn.PSN    // first PSNs of a and b
	Access       [2]*qp.Access // rights that a and b grant their peers; nil grants all
	Reads        uint8         // outstanding READs and atomics, 0 means 8
	Timeout      uint8         // field, 0 means 14 (67 ms)
	NoTimeout    bool          // wait forever
	Retry        uint8         // 0 means 7
	NoRetry      bool          // not once
	RNRRetry     uint8         // 0 means 7, forever
	NoRNRRetry   bool          // not once
	MinRNRTimer  uint8         // 0 means 6 (80 µs)
	TrafficClass uint8
	FlowLabel    uint32

	Peer [2]qp.Endpoint // destinations of a and b; zero means the other's device
}

const (
	defaultTimeout  = 14
	defaultRetry    = 7
	defaultRNRTimer = 6

	// AllAccess grants all rights of a queue pair.
	AllAccess = qp.RemoteWrite | qp.RemoteRead | qp.RemoteAtomic | qp.FlushGlobal
)

func (o *Options) attr(i int, self, peer *adapter.QP) qp.Attr {
	or := func(v, d uint8, none bool) uint8 {
		switch {
		case none:
			return 0
		case v == 0:
			return d
		}
		return v
	}
	a := qp.Attr{
		Port: 1, PathMTU: o.MTU, RQPSN: o.PSN[1-i], SQPSN: o.PSN[i], DestQPN: peer.QPN, Access: AllAccess,
		Path: qp.Path{
			Dst: peer.Device().Local(), TrafficClass: o.TrafficClass, FlowLabel: o.FlowLabel,
		},
		MaxRdAtomic: or(o.Reads, 8, false), MaxDestRdAtomic: or(o.Reads, 8, false),
		MinRNRTimer: or(o.MinRNRTimer, defaultRNRTimer, false), Timeout: or(o.Timeout, defaultTimeout, o.NoTimeout),
		RetryCnt: or(o.Retry, defaultRetry, o.NoRetry), RNRRetry: or(o.RNRRetry, defaultRetry, o.NoRNRRetry),
	}
	if o.Peer[i].IsValid() {
		a.Path.Dst = o.Peer[i]
	}
	if a.PathMTU == 0 {
		a.PathMTU = 1024
	}
	if o.Access[i] != nil {
		a.Access = *o.Access[i]
	}
	return a
}

// Masks of the three transitions up to RTS.
const (
	maskInitConnected = qp.MaskState | qp.MaskPKeyIndex | qp.MaskPort | qp.MaskAccess
	maskRTRUC         = qp.MaskState | qp.MaskAV | qp.MaskPathMTU | qp.MaskDestQPN | qp.MaskRQPSN
	maskRTRRC         = maskRTRUC | qp.MaskMaxDestRdAtomic | qp.MaskMinRNRTimer
	maskRTSUC         = qp.MaskState | qp.MaskSQPSN
	maskRTSRC         = maskRTSUC | qp.MaskTimeout | qp.MaskRetryCnt | qp.MaskRNRRetry | qp.MaskMaxRdAtomic
)

// Connect takes two queue pairs of one connection from RESET to RTS.
func Connect(a, b *adapter.QP, o Options) error {
	for i, self := range []*adapter.QP{a, b} {
		if i == 1 && a == b {
			break
		}
		peer := b
		if i == 1 {
			peer = a
		}
		if err := connect(self, o.attr(i, self, peer)); err != nil {
			return err
		}
	}
	return nil
}

func connect(q *adapter.QP, attr qp.Attr) error {
	rtr, rts := maskRTRRC, maskRTSRC
	switch q.Type {
	case qp.UC:
		rtr, rts = maskRTRUC, maskRTSUC
	case qp.XRCSend:
		rtr = maskRTRUC
	case qp.XRCRecv:
		rts = maskRTSUC | qp.MaskTimeout
	}
	return steps(q, attr, maskInitConnected, rtr, rts)
}

func steps(q *adapter.QP, attr qp.Attr, masks ...qp.Mask) error {
	for i, m := range masks {
		attr.State = qp.Init + qp.State(i)
		if err := q.Modify(m, &attr); err != nil {
			return fmt.Errorf("to %v: %w", attr.State, err)
		}
	}
	return nil
}

// ReadyUD takes a datagram queue pair from RESET to RTS.
func ReadyUD(q *adapter.QP, qkey uint32, first psn.PSN) error {
	return steps(q, qp.Attr{Port: 1, QKey: qkey, SQPSN: first},
		qp.MaskState|qp.MaskPKeyIndex|qp.MaskPort|qp.MaskQKey, qp.MaskState, qp.MaskState|qp.MaskSQPSN)
}

// ToErr takes a queue pair to the error state.
func ToErr(q *adapter.QP) error { return q.Modify(qp.MaskState, &qp.Attr{State: qp.Err}) }

// A Send is a send work request. If Inline is not nil, it is the data and SGEs are ignored.
type Send struct {
	ID     uint64
	Op     queue.Op
	Flags  queue.Flags
	ImmInv uint32 // in memory order
	SGEs   []memory.SGE
	Inline []byte

	Addr uint64 // remote
	RKey uint32
	SRQN uint32 // XRC

	CompareAdd, Swap uint64
	UD               queue.UD
	Flush            queue.FlushTarget
	Length           uint32 // of a FLUSH
	MW               queue.MW
}

// ErrFull is returned when a work queue has no room.
var ErrFull = fmt.Errorf("work queue full")

// PostSend posts a list of requests and rings the doorbell once.
func PostSend(q *adapter.QP, list ...Send) error {
	r := q.SQ
	if r.Depth()-r.Len() < len(list) {
		return ErrFull
	}
	i := r.Producer()
	for k := range list {
		if err := putSend(r, i, &list[k]); err != nil {
			return err
		}
		i = r.Next(i)
	}
	r.Publish(i)
	q.Doorbell()
	return nil
}

func putSend(r *queue.SendRing, i uint32, s *Send) error {
	w := r.At(i)
	w.WRID, w.SRQN, w.Op, w.Flags, w.ImmInv, w.NumSGE, w.Length = s.ID, s.SRQN, s.Op, s.Flags, s.ImmInv, 0, 0
	switch s.Op {
	case queue.CompareSwap, queue.FetchAdd:
		*w.Atomic() = queue.Atomic{Addr: s.Addr, CompareAdd: s.CompareAdd, Swap: s.Swap, RKey: s.RKey}
	case queue.BindMW:
		*w.MW() = s.MW
	case queue.Flush:
		*w.Flush(), w.Length = s.Flush, s.Length
		return nil
	case queue.AtomicWrite:
		*w.RDMA() = queue.RDMA{Addr: s.Addr, RKey: s.RKey}
		copy(r.Word(i)[:], s.Inline)
		return nil
	case queue.Write, queue.WriteImm, queue.Read:
		*w.RDMA() = queue.RDMA{Addr: s.Addr, RKey: s.RKey}
	default:
		*w.UD() = s.UD
	}
	if s.Inline != nil {
		if len(s.Inline) > r.MaxInline() {
			return fmt.Errorf("inline data of %d bytes, room for %d", len(s.Inline), r.MaxInline())
		}
		w.Flags |= queue.Inline
		w.Length = uint32(copy(r.InlineRoom(i), s.Inline))
		return nil
	}
	if len(s.SGEs) > r.MaxSGE() {
		return fmt.Errorf("%d entries, room for %d", len(s.SGEs), r.MaxSGE())
	}
	w.NumSGE = uint32(copy(r.SGERoom(i), s.SGEs))
	for _, e := range s.SGEs {
		w.Length += e.Length
	}
	return nil
}

// PostRecv posts a receive request to a private or shared queue.
func PostRecv(r *queue.RecvRing, id uint64, sges ...memory.SGE) error {
	if r.Full() {
		return ErrFull
	}
	if len(sges) > r.MaxSGE() {
		return fmt.Errorf("%d entries, room for %d", len(sges), r.MaxSGE())
	}
	i := r.Producer()
	w := r.At(i)
	w.WRID, w.Length, w.NumSGE = id, 0, uint32(copy(r.SGERoom(i), sges))
	for _, e := range sges {
		w.Length += e.Length
	}
	r.Publish(r.Next(i))
	return nil
}

// Poll removes completions from a queue, as many as fit into dst, and returns their number.
func Poll(c *adapter.CQ, dst []queue.CQE) (n int) {
	r := c.Ring()
	i := r.Consumer()
	for end := r.Producer(); i != end && n < len(dst); i = r.Next(i) {
		dst[n] = *r.At(i)
		n++
	}
	r.Release(i)
	return n
}

// Wait runs the network until count completions have arrived at c, or the limit of virtual
// time (one minute) has passed.
func (h *Host) Wait(c *adapter.CQ, count int) ([]queue.CQE, error) {
	got := make([]queue.CQE, count)
	n := 0
	err := h.Net.Run(func() bool {
		n += Poll(c, got[n:])
		return n == count
	}, waitLimit)
	return got[:n], err
}

// Events removes and returns the queued events.
func (h *Host) Events() (list []adapter.AsyncEvent) {
	for {
		e, err := h.Dev.NextEvent(done)
		if err != nil {
			return list
		}
		list = append(list, e)
	}
}

// Types returns the events' types.
func Types(list []adapter.AsyncEvent) (types []machine.Event) {
	for _, e := range list {
		types = append(types, e.Type)
	}
	return types
}
