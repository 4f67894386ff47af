// Package gsi is the machine of queue pair 1, the general services interface (IBTA 13.5).
// It passes the messages of the communication manager to package cm, which decides about
// connections, and other management datagrams to the device's handler, if it has one.
// Like any machine of a lane it makes progress when a goroutine polls or posts. It needs
// no goroutine, queues or memory regions of its own.
package gsi

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"softrdma/internal/cm"
	"softrdma/internal/frame"
	"softrdma/internal/machine"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
)

const (
	QPN  = 1          // every port's general services interface has it (IBTA 13.5.3)
	QKey = 0x80010000 // its datagrams have it (IBTA 10.2.5)
)

// Devices without a GSI return these errors, which wrap errors.ErrUnsupported.
var (
	// ErrStreams is that of iWARP, which sets connections up by frames on their stream.
	ErrStreams = fmt.Errorf("an iWARP device has no queue pair 1: %w", errors.ErrUnsupported)

	// ErrShared is that of a program's share of an address. Queue pair 1 belongs to the
	// process that shares the address out.
	ErrShared = error(&reason.Error{Detail: reason.Detail{Reason: reason.SlotConnections, Expected: QPN}, Cause: errors.ErrUnsupported})
)

// A Datagram is a management datagram that is not the communication manager's.
type Datagram struct {
	Path      qp.Path      // to the peer; of an arrival the path back, to the peer's standard UDP port
	LRH       qp.LinkRoute // of an arrival
	PKeyIndex uint16       // of an arrival the first entry of the port's table that matches
	QPN       uint32       // the peer's
	MAD       [mad.Len]byte

	// Reply reports that the datagram answers one whose source may be forged, so that it
	// is sent without keeping state for the peer.
	Reply bool
}

// A Handler gets the datagrams that are not the communication manager's. It reports whether
// it took the datagram, or why it dropped it. It may neither block nor call the device, and
// the datagram is the caller's again when it returns.
type Handler func(d *Datagram) (taken bool, dropped reason.Detail)

// MaxQueued bounds the datagrams of Send that wait for Next.
const MaxQueued = 1024

// A GSI is a machine.Machine.
type GSI struct {
	CM      *cm.Manager
	Handler Handler // nil: only the communication manager gets datagrams

	refuse  func(reason.Detail)
	awaited map[uint64]func(*Datagram) // by transaction ID
	out     cm.Datagram
	queue   []*Datagram
	sent    Datagram // in Next; its bytes stay until the next call
	reply   bool     // of what Next has made
	psn     psn.PSN
	in      Datagram
}

// New makes the machine, and the communication manager with c. That of a fabric's port has no
// addresses until Configure.
func New(fabric bool, c cm.Config) *GSI {
	g := &GSI{CM: cm.New(c), refuse: c.Refuse}
	if fabric {
		g.Configure(&frame.Port{}, c.MTU, nil)
	}
	return g
}

// Configure tells the communication manager what the subnet manager has set at the port.
func (g *GSI) Configure(p *frame.Port, mtu int, pkeys []uint16) {
	g.CM.Configure(&cm.Port{GIDs: p.GIDs, LID: p.LID, LMC: p.LMC, MTU: mtu, PKeys: pkeys})
}

// Replies reports whether the datagram that Next has made answers one of a peer that
// nothing is known of.
func (g *GSI) Replies() bool { return g.reply }

// Send queues a datagram for Next.
func (g *GSI) Send(d *Datagram) error {
	if n := len(g.queue); n >= MaxQueued {
		return &reason.Error{Detail: reason.Detail{Reason: reason.MADSendQueue, Expected: MaxQueued, Found: uint64(n)}}
	}
	g.queue = append(g.queue, d)
	return nil
}

// Await passes the answer of the subnet's administrator to a transaction to f, for which the
// rules of a Handler hold.
func (g *GSI) Await(tid uint64, f func(*Datagram)) {
	if g.awaited == nil {
		g.awaited = make(map[uint64]func(*Datagram))
	}
	g.awaited[tid] = f
}

// Forget ends Await.
func (g *GSI) Forget(tid uint64) { delete(g.awaited, tid) }

// Receive passes a management datagram to the handler or to the manager.
func (g *GSI) Receive(now time.Duration, in *machine.In) {
	switch {
	case in.Opcode != ib.UDSendOnly: // IBTA 13.5.3: datagrams without immediate data
		g.refuse(reason.Detail{Reason: reason.PacketOpcode, Expected: uint64(ib.UDSendOnly), Found: uint64(in.Opcode)})
	case in.DETH.QKey != QKey:
		g.refuse(reason.Detail{Reason: reason.PacketQKey, Expected: QKey, Found: uint64(in.DETH.QKey)})
	case g.handle(in):
	default:
		g.CM.Receive(now, route(in), in.Payload)
	}
}

// route is the way back to the sender of a datagram (IBTA 13.5.3).
func route(in *machine.In) cm.Route {
	return cm.Route{
		Path:      qp.Path{Dst: in.Src, TrafficClass: in.TOS, ServiceLevel: in.LRH.SL, PathBits: in.LRH.PathBits},
		PKeyIndex: in.PKeyIndex,
	}
}

// handle offers a datagram to the handler, and reports whether that is done with it. The
// manager refuses by name what is no datagram, and what no handler takes.
func (g *GSI) handle(in *machine.In) bool {
	if g.Handler == nil && len(g.awaited) == 0 || len(in.Payload) != mad.Len {
		return false
	}
	copy(g.in.MAD[:], in.Payload)
	var h mad.Header
	h.Parse(&g.in.MAD)
	if h.BaseVersion != mad.BaseVersion || h.Class == mad.ClassCM && h.Method == mad.MethodSend {
		return false
	}
	g.in.QPN, g.in.PKeyIndex, g.in.LRH = in.DETH.SrcQPN, in.PKeyIndex, in.LRH
	g.in.Path = qp.Path{Dst: netip.AddrPortFrom(in.Src.Addr(), ib.UDPPort), TrafficClass: in.TOS, HopLimit: in.TTL}
	if in.LRH.Present { // IBTA 13.5.3: the answer takes the path back
		g.in.Path.Dst, g.in.Path.ServiceLevel, g.in.Path.PathBits = in.Src, in.LRH.SL, in.LRH.PathBits
	}
	answer := h.Method == mad.MethodGetResponse || h.Method == mad.MethodDeleteResponse
	if f := g.awaited[h.TID]; f != nil && h.Class == mad.ClassAdministration && answer {
		f(&g.in)
		return true
	}
	if g.Handler == nil {
		return false
	}
	taken, dropped := g.Handler(&g.in)
	if dropped.Reason != reason.None {
		g.refuse(dropped)
		return true
	}
	return taken
}

// Next fills out with the next datagram. The manager's go first.
func (g *GSI) Next(now time.Duration, out *machine.Out) bool {
	to := uint32(QPN)
	out.PKeyIndex = 0
	switch {
	case g.CM.Next(now, &g.out):
		// A path's flow label spreads the packets of connections. Few datagrams set
		// one up, and each label would keep a flow open.
		g.out.Path.FlowLabel = 0
		g.reply, out.PKeyIndex = g.out.Reply, g.out.PKeyIndex
		out.Pieces, out.Path = append(out.Pieces[:0], g.out.MAD[:]), &g.out.Path
	case len(g.queue) > 0:
		g.sent, g.queue[0] = *g.queue[0], nil
		if g.queue = g.queue[1:]; len(g.queue) == 0 {
			g.queue = nil
		}
		to, g.reply, out.PKeyIndex = g.sent.QPN, g.sent.Reply, g.sent.PKeyIndex
		out.Pieces, out.Path = append(out.Pieces[:0], g.sent.MAD[:]), &g.sent.Path
	default:
		return false
	}
	out.BTH = ib.BTH{Opcode: ib.UDSendOnly, DestQPN: to, PSN: g.psn}
	out.DETH = ib.DETH{QKey: QKey, SrcQPN: QPN}
	out.Len = mad.Len
	g.psn = g.psn.Next()
	return true
}

// Deadline is when the manager stops waiting for an answer.
func (g *GSI) Deadline() time.Duration { return g.CM.Deadline() }

// Expire acts on it.
func (g *GSI) Expire(now time.Duration) { g.CM.Expire(now) }

// Capabilities implements machine.Machine.
func (g *GSI) Capabilities() machine.Capabilities { return machine.Capabilities{Receiver: g} }

// Transition is never called: queue pair 1 does not leave its state.
func (g *GSI) Transition(time.Duration, qp.State) {}
