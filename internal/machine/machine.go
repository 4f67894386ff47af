// Package machine defines what the protocol machines share: the methods by which the
// adapter gives them packets and takes packets from them (Machine, Receiver), what the
// adapter knows of each transport (Transport), the environment of a queue pair (Port),
// and the builder of its completions (Completions).
//
// It also has the rules that several transports share:
//
//	longest message, local operations    request.go
//	end of draining the send queue       sendqueue.go
//	last receive of a shared queue       complete.go
//	congestion notifications to a peer   notifier.go
//
// A machine does no I/O, starts no goroutine and reads no clock: packets and the time
// come in, packets and the next deadline go out. The adapter calls a machine from one
// goroutine at a time.
package machine

import (
	"net/netip"
	"time"

	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// Never is the deadline of a machine that waits for nothing.
const Never = time.Duration(1<<63 - 1)

// A Machine is the transport half of a queue pair. Times are on the device's
// monotonic clock.
type Machine interface {
	// Next fills out with the next packet to send and reports whether there is one.
	// Slices in out.Pieces are registered memory or the work queue's, and stay as
	// they are until the machine is called again. It may be a train where
	// out.Longest allows it.
	Next(now time.Duration, out *Out) bool

	// Deadline is when Expire is to be called, Never for not at all.
	Deadline() time.Duration

	// Expire acts on deadlines that have passed.
	Expire(now time.Duration)

	// Capabilities says what else the machine can do. The answer never changes.
	Capabilities() Capabilities

	// Transition follows a change of Port.Attr.State that was already checked
	// and made; from is the state before. Entering Reset forgets everything,
	// entering Err flushes both queues (Next does it, a few at a time).
	Transition(now time.Duration, from qp.State)
}

// Capabilities are what a machine can do. A field is nil if it cannot.
type Capabilities struct {
	Receiver    Receiver
	Sender      Sender
	InFlight    InFlightReporter
	Addresser   Addresser
	Follower    Follower
	Continuer   Continuer
	Unreachable UnreachableHandler
	Revoker     Revoker
	Withdrawer  Withdrawer
}

// A Receiver is a Machine of a transport of packets.
type Receiver interface {
	// Receive takes a packet whose ICRC, P_Key, QPN and transport were checked.
	// The packet and its payload are the caller's again when it returns.
	Receive(now time.Duration, in *In)
}

// A Sender is a Machine without acknowledges (UC, UD): a work request is
// complete once its last packet has left, since its memory is read until then.
// The caller calls Sent after it has transmitted all that it holds.
// If it does not, the next call of Next or Expire completes the request instead.
type Sender interface {
	Sent()
}

// An Addresser is a Machine whose requests name their destinations (UD).
type Addresser interface {
	// Destination returns where the packet goes that Next would produce. The path is nil
	// if there is no such packet, or no such destination. It is valid until the next call.
	Destination() (path *qp.Path, qpn uint32)
}

// A Follower is a Machine (RC) that produces a message of one packet behind another one at less cost.
type Follower interface {
	// Follow does what Next does if the next message is like the one that out holds: a SEND or
	// WRITE of one packet, with the same opcode, and nothing else is to be sent before it. It
	// changes PSN, RETH, AckReq, Pieces and Len, and reports whether it did. Otherwise it does
	// nothing. out is as Next or Follow has left it, and the machine was not called since.
	Follow(now time.Duration, out *Out) bool
}

// A Continuer is a Machine (RC) that takes the packets in the middle of a message, and
// short WRITEs, at less cost.
type Continuer interface {
	// Continue does what Receive does if the packet is the one expected next in the
	// middle of a message, or a WRITE of one packet, and reports whether it did. Otherwise
	// it does nothing, and the caller calls Receive.
	Continue(now time.Duration, in *In) bool
}

// An UnreachableHandler is a Machine (RC) that handles ICMP errors about its peer.
type UnreachableHandler interface {
	// Unreachable handles error d, which the network (ICMP) sent in answer to a
	// packet with this header. It reports whether such a packet may be in flight.
	// The error may be forged, so it does not end the connection by itself.
	Unreachable(now time.Duration, h *ib.BTH, d reason.Detail) bool
}

// A Revoker is a Machine whose answers may be taken back on their way: the peer has not copied
// them out of this process's memory yet.
type Revoker interface {
	// Revoked notes that answers which the machine produced may not have reached the peer.
	Revoked()
}

// A PathHandler is a Machine (RC) that finds out what its path carries, see Port.Fragment.
type PathHandler interface {
	// TooLong notes that the host did not send packets, because the path does not carry any that long as far as
	// it knows.
	TooLong(now time.Duration)
}

// In is a received packet with what the network told of it.
type In struct {
	ib.Packet
	Src, Dst  netip.AddrPort
	TOS, TTL  uint8 // traffic class and hop limit on IPv6
	LRH       qp.LinkRoute
	PKeyIndex uint16      // index in the port's P_Key table; of packets to queue pair 1
	Train     int         // packets that it stands for, in memory; 0 is one
	Memory    bool        // it was handed over in memory, and came by no network
	Lost      bool        // the payload did not come, and is nil; only machines with acknowledges get such packets
	Answer    ib.Syndrome // the refusal that a rule of faults wants of the responder; 0 if there is none
	Dropped   int         // bytes of payload that the machine did not take; set by it, see trace.Traffic
	Lender    Lender

	// Hops is what the switches of the path said of their links, in their order, if the packet asked
	// for it (ib.BTH.Telemetry). It is valid during the call.
	Hops []own.Hop
}

// A Lender owns the memory that a payload lies in, and may take it back at any time. A machine
// that copies a payload of more than 512 bytes asks Intact afterwards, before anything shows
// that the packet came. Shorter payloads are copies already.
type Lender interface {
	// Intact reports whether the bytes that were read until now are the payload's.
	Intact() bool
}

// Intact reports whether the bytes that were read until now are the packet's payload. If not,
// the packet counts as lost.
func (in *In) Intact() bool { return in.Lender == nil || in.Lender.Intact() }

// Out is a packet to send. The machine sets the headers but the padding and
// the P_Key, which the adapter sets, and the pieces of the payload in order.
type Out struct {
	ib.Packet                // Payload unused
	Path      *qp.Path       // where to
	PKeyIndex uint16         // index of the P_Key; of packets from queue pair 1
	Pieces    [][]byte       // the payload; the machine appends to Pieces[:0]
	Len       int            // sum of the lengths of Pieces
	Region    *memory.Region // the region or window that a READ response's payload lies in; the caller clears it
	Markable  bool           // slows down for marks: may be sent as ECN-capable; the sender clears it
	Longest   int            // train that may be made, in packets; the caller sets it, 0 is one
	Whole     bool           // the train is handed over in memory as a whole; the caller sets it
	Lossless  bool           // a packet for which there is no room waits, as on a ring in memory; the caller sets it
	Train     int            // packets that it stands for; 0 is one
	Probe     bool           // must not be fragmented, as it finds out what the path carries; the sender clears it
}

// A CQ takes completions.
type CQ interface {
	Push(*queue.CQE)
}

// A Receive is a receive work request taken from a queue, copied so that the
// queue's slot is free again.
type Receive struct {
	WRID   uint64
	Length uint64 // sum of the entries
	SGEs   []memory.SGE
}

// A ReceiveQueue is a private or a shared receive queue.
type ReceiveQueue interface {
	// Take copies the oldest request into r, reusing r.SGEs, and removes it.
	// It reports whether there was one.
	Take(r *Receive) bool
	// Len returns how many requests there are. A caller that empties the queue takes
	// that many: the producer may continue forever.
	Len() int
	// Shared reports whether the queue is shared: its requests are not flushed with one
	// queue pair.
	Shared() bool
}

// An Event is an affiliated asynchronous event; the numbers are those of
// ibv_event_type.
type Event uint8

// The events.
const (
	EventCQErr            Event = 0
	EventQPFatal          Event = 1
	EventQPReqErr         Event = 2
	EventQPAccessErr      Event = 3
	EventCommEst          Event = 4
	EventSQDrained        Event = 5
	EventPathMig          Event = 6
	EventPathMigErr       Event = 7
	EventDeviceFatal      Event = 8
	EventPortActive       Event = 9
	EventPortErr          Event = 10
	EventLIDChange        Event = 11
	EventPKeyChange       Event = 12
	EventSMChange         Event = 13
	EventSRQErr           Event = 14
	EventSRQLimitReached  Event = 15
	EventQPLastWQEReached Event = 16
	EventClientReregister Event = 17
	EventGIDChange        Event = 18
)

// A Host is what a machine reports to.
type Host interface {
	// Event raises an asynchronous event of the queue pair.
	Event(p *Port, e Event, d reason.Detail)
	// Refuse counts and traces a refusal: a drop, a NAK, an error.
	Refuse(p *Port, d reason.Detail)
	// StateChanged traces a transition that the machine made by itself
	// (to SQE, SQD drained or ERR); Port.Attr.State is already the new one.
	StateChanged(p *Port, from qp.State, d reason.Detail)
}

// A GRHWriter writes the ib.GRHLen bytes in front of a received datagram's payload, which
// hold the packet's network header (IBTA 11.4.1.2). Length counts the packet from BTH to ICRC.
type GRHWriter func(b []byte, in *In, length int)

// An Aim points RQ, RecvCQ, PD and RecvPD of an XRC target at the shared receive queue that a
// request names (annex A14), whose they are then. Its detail says why it did not.
type Aim func(srqn uint32) reason.Detail

// A Withdrawer is a Machine (XRC) whose shared receive queue may be taken away.
type Withdrawer interface {
	// Withdraw forgets what the machine took from the queue that the port is aimed at. The
	// caller ends the aim.
	Withdraw()
}

// A Port is one queue pair's environment. The adapter fills it before it makes
// the machine; the machine changes nothing but Attr.State, Attr.SQDraining,
// Fragment and Passes.
type Port struct {
	QPN         uint32
	Type        qp.Type
	PD          uint32
	RecvPD      uint32 // whose keys receives name: that of the shared receive queue, if there is one (IBTA 10.2.9)
	Attr        qp.Attr
	Memory      *memory.Table
	SQ          *queue.SendRing
	SQSigAll    bool // every send work request is signalled
	RQ          ReceiveQueue
	SendCQ      CQ
	RecvCQ      CQ
	Host        Host
	PeerTimeout time.Duration           // how long a connection's peer may be silent; 0 means no limit
	PeerProbe   time.Duration           // how long until it is probed; 0 is a quarter of PeerTimeout
	Window      int                     // bytes that may be in flight unacknowledged
	AHs         func(queue.UD) *qp.Path // address handles, for UD
	PutGRH      GRHWriter               // for UD
	Aim         Aim                     // for an XRC target, else nil
	Share       *Share                  // limits what may be in flight to the peer; nil for no limit
	Traffic     *trace.Traffic          // counts messages; may be nil
	Received    uint64                  // bytes of payload that the machine took, see trace.Traffic
	counted     int64                   // by Share, in its epoch
	epoch       uint32
	Waits       bool   // Share did not admit a packet
	Fragment    bool   // the path does not carry packets of the path MTU, which may be fragmented; the machine sets it
	Passes      uint16 // the largest path MTU that it carries, 0 if that is unknown; the machine sets it
}
